// Split: a proposal in two to five parts by sub-clustering, or what is selected against the rest.
import { split } from "./actions.js";
import { strip } from "./cells.js";
import { button, el, plural, shortName } from "./dom.js";
import { openPanel, waitFor } from "./panel.js";
import { nameOf, selectedRows, store } from "./store.js";

const PARTS = [2, 3, 4, 5];

export function openSplit(code) {
  const chosen = selectedRows().filter((row) => store.items.code[row] === code);
  let parts = [], number = chosen.length ? 0 : 2;
  const keys = { Enter: () => take(), ArrowRight: () => choose(Math.min(5, Math.max(2, number + 1))), ArrowLeft: () => choose(Math.max(2, number - 1)) };
  for (const n of PARTS) keys[String(n)] = () => choose(n);
  const panel = openPanel({ title: `Split “${shortName(nameOf(code))}”`, kind: "wide", keys });
  /** The first part keeps the name; the others become categories of their own. */
  async function take() {
    if (!parts.length) return;
    const fresh = number === 0 ? [chosen] : parts.slice(1);
    panel.close();
    await split(code, fresh);
  }
  async function choose(n) {
    number = n;
    parts = [];
    panel.act();
    let answer;
    if (n === 0) {
      const sure = store.sections.find((section) => section.key === "sure").rows, picked = new Set(chosen);
      answer = { parts: [Array.from(sure).filter((row) => !picked.has(row)), chosen] };
    } else answer = await waitFor(panel, store.source.split(code, n));
    if (!answer || number !== n) return;
    parts = answer.parts.filter((part) => part.length);
    const width = store.state.kind === "image" ? 24 : 8;
    const numbers = el("span", { class: "segments", role: "group", "aria-label": "Number of parts" }, chosen.length ? el("button", { type: "button", text: "Selection", "aria-pressed": String(n === 0), onclick: () => choose(0) }) : null,
      ...PARTS.map((one) => el("button", { type: "button", text: String(one), "aria-pressed": String(one === n), "aria-keyshortcuts": String(one), onclick: () => choose(one) })));
    const clear = answer.separation === undefined || answer.separation === null ? "" : `How clearly the parts are apart: ${answer.separation.toFixed(2)} (1 is clear, 0 is not at all).`;
    panel.fill(el("p", { class: "choose" }, "Parts: ", numbers, el("span", { class: "soft", text: clear })),
      ...parts.map((part, i) => el("section", { class: "part" }, el("h3", { text: `${i + 1}. ${plural(part.length, "item")}` + (i === 0 ? ` · stays “${shortName(nameOf(code)).slice(0, 40)}”` : " · a category of its own") }), strip(part.slice(0, width), { label: `Part ${i + 1}` }))));
    panel.act(button(`Split in ${parts.length}`, "Enter", take, { class: "primary" }), el("span", { class: "soft", text: "Keys 2 to 5 choose the number of parts" }));
  }
  choose(number);
}
