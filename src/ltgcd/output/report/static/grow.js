// Grow: more items like these, ranked, in pages that double while they are right and halve while they are not.
import { act } from "./actions.js";
import { strip } from "./cells.js";
import { button, el, percentSure, plural, shortName, toast, whole } from "./dom.js";
import { openPanel, waitFor } from "./panel.js";
import { nameOf, store, whereIs } from "./store.js";

const FIRST = 12; // items of the first page
const MOST = 400;

export async function openGrow(code) {
  let size = FIRST, rows = [], wrong = new Set(), answer = null, list = null;
  const passed = new Set(); // unticked once: not shown again while the panel is open
  const keys = { Enter: () => take(), Backspace: () => { size = Math.max(3, Math.floor(size / 2)); load(); }, "+": () => { size = Math.min(MOST, size * 2); load(); }, X: () => { for (const row of rows) flip(row); } };
  const panel = openPanel({ title: `Grow “${shortName(nameOf(code))}”`, kind: "wide", keys });
  function flip(row) { if (!wrong.delete(row)) wrong.add(row); list.refresh(); foot(); }
  function foot() {
    const right = rows.length - wrong.size;
    panel.act(button(right ? `Take ${whole(right)}, show twice as many` : "None is right, show others", "Enter", take, { class: "primary" }), button("Half as many", "⌫", keys.Backspace),
      wrong.size ? el("span", { class: "soft", text: `${whole(wrong.size)} unticked` }) : el("span", { class: "soft", text: "Click, or x on one, unticks what does not belong" }));
  }
  async function load() {
    const found = await waitFor(panel, () => store.source.grow(code, size + passed.size));
    if (!found) return;
    answer = found;
    rows = found.rows.filter((row) => !passed.has(row)).slice(0, size);
    wrong = new Set();
    if (!rows.length) { panel.fill(el("p", { class: "none", text: "Nothing more is alike." })); panel.act(button("Close", "Esc", panel.close)); return; }
    list = strip(rows, { label: "Candidates, the most alike first; ticked ones are taken", onpick: flip, marked: (row) => !wrong.has(row) });
    const from = new Map();
    for (const row of rows) from.set(whereIs(row), (from.get(whereIs(row)) ?? 0) + 1);
    const origin = [...from].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, n]) => `${shortName(name)} (${whole(n)})`).join(" · ");
    panel.fill(el("p", {}, `${plural(rows.length, "item")} most like it, of ${whole(answer.left ?? rows.length)} that are left. `,
      answer.precision === null || answer.precision === undefined ? "" : el("b", { text: `About ${percentSure(answer.precision)} of these are expected to be right.` })),
      el("p", { class: "soft", text: "Now: " + origin, dir: "auto" }), list);
    list.firstChild?.focus();
    foot();
  }
  async function take() {
    const right = rows.filter((row) => !wrong.has(row));
    for (const row of wrong) passed.add(row);
    const smaller = wrong.size > rows.length / 2, note = smaller ? "Many were wrong, so the next page is smaller." : "";
    if (!right.length) toast(note);
    else if (!await act([{ op: "assign", rows: right, code }], `${plural(right.length, "item")} added to “${shortName(nameOf(code))}”. ${note}`.trim())) { panel.close(); return; }
    size = smaller ? Math.max(3, Math.floor(size / 2)) : Math.min(MOST, size * 2);
    load();
  }
  load();
}
