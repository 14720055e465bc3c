// Grow: more items like these, ranked, in pages that double while they are right. What is likely enough is ticked, the rest is to be looked at.
import { act } from "./actions.js";
import { DARK, strip } from "./cells.js";
import { button, el, percentSure, plural, shortName, toast, whole } from "./dom.js";
import { UNSURE } from "./items.js";
import { openPanel, waitFor } from "./panel.js";
import { nameOf, store, whereIs } from "./store.js";

const FIRST = 12; // items of the first page
const MOST = 400;
const PROMISE = .9; // of what is ticked so much is expected to be right: one wrong one in ten is seen at a glance, more go in unseen
const EXPECTED = .92; // mean chance of what is ticked: at .9, 87 % of 228 such items were right where the chances had been mended, at .92 94 % of 144 (two problems of plankton)
const PRIOR = 2; // right and wrong items that count as said before anybody has said anything

/** What a person has said of items that were not ticked, and how many of them were expected to be right: it mends what is expected next. */
export const nothingSaid = () => ({ right: 0, wrong: 0, expected: 0, unexpected: 0 });
export function learn(said, chance, isRight) {
  said[isRight ? "right" : "wrong"]++;
  said.expected += chance;
  said.unexpected += 1 - chance;
}
/** Chances after what was said: their odds, as many times as the odds of what was said are those of what was expected. */
export function mended(chances, { right, wrong, expected, unexpected }) {
  const times = (right + PRIOR) / (wrong + PRIOR) / ((expected + PRIOR) / (unexpected + PRIOR));
  return chances.map((chance) => { const odds = times * chance / Math.max(1e-9, 1 - chance); return odds / (1 + odds); });
}
/** How many of the first items are together expected to be right a little more often than is promised. */
export function promised(chances) {
  let sum = 0, most = 0;
  chances.forEach((chance, at) => { sum += chance; if (sum >= EXPECTED * (at + 1)) most = at + 1; });
  return most;
}

export async function openGrow(code) {
  let size = FIRST, rows = [], chances = new Map(), ticked = new Set(), kept = 0, list = null;
  const passed = new Set(); // left without a tick once: not shown again while the panel is open
  const said = nothingSaid(), keys = { Enter: () => take(), Backspace: () => { size = Math.max(3, Math.floor(size / 2)); load(); }, "+": () => { size = Math.min(MOST, size * 2); load(); }, X: () => { for (const row of rows) flip(row); } };
  const panel = openPanel({ title: `Grow “${shortName(nameOf(code))}”`, kind: "wide", keys });
  function flip(row) { if (!ticked.delete(row)) ticked.add(row); list.refresh(); foot(); }
  /** Pages grow while what is taken of them is as often right as is promised. */
  const goesOn = () => ticked.size >= PROMISE * rows.length;
  function foot() {
    const next = goesOn() ? "show twice as many" : "show the next";
    panel.act(button(ticked.size ? `Take ${whole(ticked.size)}, ${next}` : "Take none, show the next", "Enter", take, { class: "primary" }), button("Half as many", "⌫", keys.Backspace), button(!ticked.size ? "Tick all" : ticked.size === rows.length ? "Untick all" : "The others instead", "X", keys.X),
      el("span", { class: "soft", text: "Click, or x on one, ticks what belongs and unticks what does not" }));
  }
  async function load() {
    const found = await waitFor(panel, () => store.source.grow(code, size + passed.size));
    if (!found) return;
    chances = new Map(found.rows.map((row, at) => [row, found.chances[at]]));
    rows = found.rows.filter((row) => !passed.has(row)).slice(0, size);
    if (!rows.length) { panel.fill(el("p", { class: "none", text: "Nothing more is alike." })); panel.act(button("Close", "Esc", panel.close)); return; }
    const now = mended(rows.map((row) => chances.get(row)), said), expected = now.reduce((sum, chance) => sum + chance, 0) / now.length;
    kept = promised(now);
    const likely = new Map(rows.map((row, at) => [row, now[at]]));
    ticked = new Set(rows.slice(0, kept));
    list = strip(rows, { label: "Candidates, the most alike first; ticked ones are taken", plain: true, chances: likely, onpick: flip, marked: (row) => ticked.has(row) });
    const from = new Map();
    for (const row of rows) from.set(whereIs(row), (from.get(whereIs(row)) ?? 0) + 1);
    const origin = [...from].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, n]) => `${shortName(name)} (${whole(n)})`).join(" · ");
    panel.fill(el("p", {}, `${plural(rows.length, "item")} most like it, of ${whole(Math.max(rows.length, found.left - passed.size))} that are left. `, el("b", { text: `About ${percentSure(expected)} of these are expected to be right.` })),
      el("p", { class: "why", text: why() }), el("p", { class: "soft", text: "Now: " + origin, dir: "auto" }), list);
    (list.children[kept] ?? list.firstChild)?.focus();
    foot();
  }
  /** Why some are ticked and others are not. */
  function why() {
    const limit = percentSure(PROMISE), dark = rows.some((row) => store.items.status[row] === UNSURE) ? DARK : "";
    if (kept === rows.length) return `All are ticked, for at least ${limit} of them are expected to be right. ${dark}`;
    return `${kept ? `The first ${whole(kept)} are ticked: up to there at least ${limit} are expected to be right. The others are` : `None is ticked, for fewer than ${limit} are expected to be right:`} to be looked at one by one. ${dark}`;
  }
  async function take() {
    const right = rows.filter((row) => ticked.has(row)), goes = goesOn(), half = right.length < rows.length / 2;
    if (right.length && !await act([{ op: "assign", rows: right, code }], `${plural(right.length, "item")} added to “${shortName(nameOf(code))}”.`)) { panel.close(); return; }
    rows.forEach((row, at) => { if (at >= kept || !ticked.has(row)) learn(said, chances.get(row), ticked.has(row)); });
    for (const row of rows) if (!ticked.has(row)) passed.add(row);
    if (!right.length) toast("Nothing was taken; the next page is smaller.");
    size = goes ? Math.min(MOST, size * 2) : half ? Math.max(3, Math.floor(size / 2)) : size;
    load();
  }
  load();
}
