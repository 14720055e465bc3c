// Split: a class in parts. Their numbers pick those that belong together; they go to a class beside, get a name, or are confirmed.
import { redo, split, takeParts, undo } from "./actions.js";
import { DARK, strip } from "./cells.js";
import { button, classButton, el, middleOut, plural, shortName, toast, whole } from "./dom.js";
import { UNSURE } from "./items.js";
import { nameBox } from "./namebox.js";
import { openPanel, waitFor } from "./panel.js";
import { isGiven, nameOf, on, selectedRows, store } from "./store.js";

const MOST = 9; // parts: each has a key
const SHOWN = 24; // items of a part, evenly from its centre to its edge
const LETTERS = ["f", "g", "h", "j", "k"]; // of the classes beside

/** Items evenly over a part, so that its strip is as mixed as the part is. */
export function evenly(rows, n = SHOWN) {
  if (rows.length <= n) return rows;
  const places = new Set(Array.from({ length: n }, (_, i) => Math.round(i * (rows.length - 1) / (n - 1))));
  return [...places].map((place) => rows[place]);
}

/** How many items a part has, and what of them is not shown or not sure. */
export function countsOf({ rows, shown }) {
  const given = rows.filter((row) => isGiven(row)).length, unsure = rows.filter((row) => store.items.status[row] === UNSURE).length, open = rows.length - given;
  const parts = [given ? `${whole(given)} labelled or confirmed (not shown)` : "", unsure ? `${whole(unsure)} unsure` : "", shown.length < open ? `${whole(shown.length)} of ${whole(open)} open ones shown` : ""].filter(Boolean);
  return plural(rows.length, "item") + (parts.length ? ": " + parts.join(", ") : "");
}
let again = () => null; // the parts anew, of the panel that was opened last
on("state", () => again());

export function openSplit(code) {
  const chosen = selectedRows().filter((row) => store.items.code[row] === code);
  let parts = [], picked = new Set(), flipped = new Set(), number = null, busy = false;
  const keys = { X: () => tickAll(), u: undo, U: redo, Enter: () => take(), a: () => confirm(), r: () => ask(), ArrowRight: () => look(Math.min(MOST, parts.length + 1)), ArrowLeft: () => look(Math.max(2, parts.length - 1)) };
  for (let n = 1; n <= MOST; n++) keys[String(n)] = () => pick(n - 1);
  LETTERS.forEach((letter, at) => { keys[letter] = () => beside()[at] !== undefined && give(nameOf(beside()[at])); });
  const panel = openPanel({ title: `Split “${shortName(nameOf(code))}”`, kind: "wide", keys });
  const pickedParts = () => [...picked].sort((a, b) => a - b).map((at) => parts[at]);
  const beside = () => picked.size ? pickedParts()[0].alike : [];
  /** Sure items are ticked until somebody unticks one, unsure ones once somebody ticks them. */
  const isTicked = (row) => flipped.has(row) === (store.items.status[row] === UNSURE);
  const ticked = (some) => some.flatMap((part) => part.shown).filter(isTicked);
  const some = () => picked.size ? pickedParts() : parts;
  /** Tick all that is shown of the picked parts, or of all. */
  function tickAll() {
    for (const row of some().flatMap((part) => part.shown)) if (!isTicked(row) && !flipped.delete(row)) flipped.add(row);
    draw();
  }
  again = () => { if (!busy && panel.dialog.open) look(number); }; // undone, or done again
  /** What was picked becomes one category; where nothing was, every part but the first becomes one. */
  async function take() {
    if (parts.length < 2) return;
    if (picked.size) return done(() => split(code, [pickedParts().flatMap((part) => part.rows)]));
    panel.close();
    await split(code, parts.slice(1).map((part) => part.rows));
  }
  /** What was picked goes to a class, and what is shown and ticked of it is confirmed there. */
  const give = (name) => done(() => takeParts(code, pickedParts().flatMap((part) => part.rows), ticked(pickedParts()), name));
  /** What is shown and ticked is of this class: of the picked parts, or of all. */
  function confirm() {
    if (number === 0) return;
    const rows = ticked(some());
    if (!rows.length) return toast("Nothing that is shown and ticked is left to confirm.");
    if (!picked.size) picked = new Set(parts.keys());
    return done(() => takeParts(code, [], rows, nameOf(code)));
  }
  function ask() {
    if (!picked.size) return;
    const field = nameBox({ label: "They are …", but: code, near: beside(), verb: (one) => one ? "" : "make this class", take: give, leave: () => { draw(); panel.dialog.focus(); } });
    panel.act(field.box);
    field.focus();
  }
  /** Go on with the parts that are left. */
  async function done(work) {
    busy = true;
    const went = await work();
    busy = false;
    if (!went) return panel.close();
    parts = parts.filter((_, at) => !picked.has(at));
    picked = new Set();
    if (!parts.length || number === 0) return panel.close();
    draw();
    panel.dialog.focus();
  }
  function pick(at) {
    if (at >= parts.length || number === 0) return;
    if (!picked.delete(at)) picked.add(at);
    draw();
    panel.dialog.focus();
    panel.dialog.querySelectorAll(".part")[at].scrollIntoView({ block: "nearest" }); // what a letter will confirm is in sight
  }
  async function look(n) {
    number = n;
    [picked, flipped, parts] = [new Set(), new Set(), []];
    panel.act();
    let answer;
    if (n === 0) {
      const sure = store.sections.find((section) => section.key === "sure").rows, mine = new Set(chosen);
      answer = { parts: [Array.from(sure).filter((row) => !mine.has(row)), chosen] };
    } else answer = await waitFor(panel, () => store.source.split(code, n ?? 0));
    if (!answer || number !== n || !panel.dialog.open) return;
    parts = answer.parts.map((rows, at) => ({ rows, shown: evenly(answer.open?.[at] ?? rows.filter((row) => !isGiven(row))), alike: (answer.alike?.[at] ?? []).slice(0, LETTERS.length) })).filter((part) => part.rows.length);
    draw();
  }
  function partNode(part, at) {
    const text = `${at + 1}. ${countsOf(part)}` + (picked.has(at) ? " · picked" : at === 0 && number !== 0 ? ` · stays “${middleOut(nameOf(code), 40)}”` : "");
    const list = strip(part.shown, { label: `Part ${at + 1}`, plain: true, onpick: (row) => { if (!flipped.delete(row)) flipped.add(row); list.refresh(); foot(); }, marked: isTicked });
    const title = el("button", { type: "button", class: "button", text, "aria-pressed": String(picked.has(at)), "aria-keyshortcuts": String(at + 1), onclick: () => pick(at) });
    return el("section", { class: "part" }, el("h3", {}, title), part.shown.length ? list : el("p", { class: "soft", text: "Every item of it is labelled or confirmed." }));
  }
  function draw() {
    const n = parts.length, one = store.classes.get(code), leaning = one?.leaning ?? 0;
    panel.fill(el("p", {}, `${plural(one?.size ?? 0, "item")}${leaning && number !== 0 ? ` and ${plural(leaning, "unsure one that leans", "unsure ones that lean")} here. ${DARK} A click ticks one that belongs.` : "."}`, n < 2 ? " One part alone can't be split." : ""),
      el("p", { class: "choose" }, "Parts: ", button("Fewer", "←", keys.ArrowLeft), whole(n), button("More", "→", keys.ArrowRight),
        chosen.length ? el("button", { type: "button", text: "Selection", "aria-pressed": String(number === 0), onclick: () => look(0) }) : null,
        el("span", { class: "soft", text: number === 0 ? "" : "Press the numbers of the parts that belong together. A click unticks what does not belong." })),
      ...parts.map(partNode));
    foot();
    if (!panel.dialog.contains(document.activeElement)) panel.dialog.focus(); // a button that was pressed is gone
  }
  function foot() {
    const open = some().flatMap((part) => part.shown).some((row) => !isTicked(row)) ? button("Tick all", "X", tickAll) : "";
    if (picked.size) {
      panel.act(...beside().map((other, at) => classButton("", nameOf(other), 28, LETTERS[at], keys[LETTERS[at]])), button("Another name …", "r", ask),
        button(picked.size === 1 ? "A category of its own" : `One category of the ${picked.size}`, "Enter", take, { class: "primary" }), open,
        el("span", { class: "soft", text: `A class or a name also confirms the ${whole(ticked(pickedParts()).length)} that are shown and ticked.` }));
    } else {
      const n = ticked(parts).length;
      panel.act(button(number === 0 ? "Split off" : parts.length < 2 ? "Split" : `Split in ${parts.length}`, "Enter", take, { class: "primary", disabled: parts.length < 2 }), number === 0 || !n ? "" : button(`Confirm the ${whole(n)} ticked`, "a", confirm), open);
    }
  }
  look(chosen.length ? 0 : null);
}
