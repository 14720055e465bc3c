// One item: as large as it gets, what it is called, where it is, what is most like it; a number says which class it is.
import { assign, byClass, confirm, junk, moveRows, redo, reject, undo } from "./actions.js";
import { DARK, picture, strip } from "./cells.js";
import { bothEnds, breakable, button, classButton, copy, el, percentSure, plural, toast, whole } from "./dom.js";
import { GIVEN, LABELLED, JUNK } from "./items.js";
import { neighbourInGrid } from "./grid.js";
import { nameBox } from "./namebox.js";
import { openPanel } from "./panel.js";
import { openClass } from "./queue.js";
import { describeRows, faces, nameOf, nearTo, show, shownRows, store, toggle, whereIs } from "./store.js";
import { zoomable } from "./zoom.js";

const ANSWERS = 5; // classes that have a number

/** The classes that an item may well be of: its own, its second, those of what is most like it, those near its own. */
export function likelyClasses(row, second, like) {
  const votes = new Map();
  for (const other of like) if (store.items.status[other] !== JUNK) votes.set(store.items.code[other], (votes.get(store.items.code[other]) ?? 0) + 1);
  const own = store.items.code[row], around = [...votes].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([code]) => code);
  return [...new Set([own, second, ...around, ...nearTo([row])])].filter((code) => store.classes.has(code)).slice(0, ANSWERS);
}
/** The unsure items one by one, the likeliest to be right first. */
export async function startAsking() {
  await show({ kind: "lane", status: "unsure" });
  openDetail(shownRows()[0], { asking: true });
}

/** Show an item; with `asking`, whatever is said of it brings the next one. */
export function openDetail(first, { asking = false } = {}) {
  if (first === null || first === undefined) return;
  let row = first, answers = [], zoom = null;
  const said = []; // items that something was said of here: an undo comes back to them
  const step = (by) => { const next = neighbourInGrid(row, by); if (next !== null) { row = next; draw(); } };
  const then = (work) => () => { if (asking) goOn(work); else { panel.close(); work([row]); } };
  const keys = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), " ": () => panel.close(), Enter: () => panel.close(), c: then(confirm), d: then(junk), v: () => move(),
    "+": () => zoom?.by(1.5), "=": () => zoom?.by(1.5), "-": () => zoom?.by(1 / 1.5), 0: () => zoom?.reset(),
    u: async () => { await undo(); row = said.pop() ?? row; draw(); }, U: async () => { await redo(); draw(); },
    x: () => { toggle(row); draw(); }, i: () => copy(store.facts.get(row).id, "the id"),
  };
  for (let number = 1; number <= ANSWERS; number++) keys[number] = () => answer(answers[number - 1]);
  if (store.source.can.reject) keys.n = then(reject);
  if (store.source.can.neighbours) keys.g = async () => { const now = row, found = await store.source.neighbours(now).catch(() => null); if (found && row === now && panel.dialog.open) { panel.close(); show({ kind: "lasso", rows: Int32Array.from([now, ...found.rows]), like: true }); } };
  const panel = openPanel({ title: "Item", kind: "wide detail", keys });
  /** Say which class it is, and go on. */
  const answer = (code) => code === undefined ? null : goOn((rows) => assign(rows, code));
  /** Say something of the item, and show the next one. */
  async function goOn(work) {
    const next = neighbourInGrid(row, 1);
    answers = []; // a key that is held down answers once
    const done = await work([row]);
    if (done) said.push(row);
    if (!panel.dialog.open) return;
    if (next === null) { panel.close(); toast("That was the last one here."); }
    else { row = next; draw(); }
  }
  function move() {
    const field = nameBox({ label: "Move to …", near: nearTo([row]), verb: (one) => one ? "" : "make this class", take: (name) => then((rows) => moveRows(rows, name))(), leave: draw });
    panel.act(field.box);
    field.focus();
  }
  async function draw() {
    const now = row, [facts] = await describeRows([row]), { items } = store;
    if (row !== now || !panel.dialog.open) return;
    const said = items.status[row] === JUNK ? "junk" : items.flags[row] & GIVEN ? "confirmed" : items.flags[row] & LABELLED ? "labelled in the source" : `${percentSure(items.confidence[row] / 255)} confident`;
    const large = store.state.kind === "image" ? el("figure", { class: "large" }, picture(row, 1024, facts.id)) : el("blockquote", { class: "whole", dir: "auto", text: facts.text ?? facts.id });
    zoom = store.state.kind === "image" ? zoomable(large, () => store.source.thumb(now, 8192)) : null;
    const place = el("p", {}, el("button", { type: "button", class: "link", onclick: () => { panel.close(); openClass(items.code[row]); } }, el("bdi", {}, ...breakable(whereIs(row)))), ` · ${said}`);
    const second = facts.second === undefined || facts.second === null || !store.classes.has(facts.second) ? null : el("p", { class: "soft" }, "Else: ", el("bdi", { text: nameOf(facts.second) }));
    const near = el("section", { class: "near-items" }), which = el("section", { class: "answers" });
    panel.heading.textContent = "Item";
    panel.fill(el("div", { class: "halves" }, large, el("div", {}, which, el("p", { class: "id" }, el("code", { text: facts.id, dir: "auto" }), el("button", { type: "button", class: "button", text: "Copy", onclick: keys.i })), place, second, near)));
    panel.act(button("Confirm", "c", keys.c, { class: "primary" }), keys.n ? classButton("Not ", nameOf(items.code[row]), 24, "n", keys.n) : null, button("Move to …", "v", keys.v), button("Junk", "d", keys.d),
      button(store.selection.has(row) ? "Deselect" : "Select", "x", keys.x), el("span", { class: "space" }), button("‹", "←", () => step(-1), { "aria-label": "Item before" }), button("›", "→", () => step(1), { "aria-label": "Item after" }));
    if (!panel.dialog.contains(document.activeElement)) panel.dialog.focus(); // a button that was pressed is gone with what it was about
    const found = store.source.can.neighbours ? await store.source.neighbours(row).catch(() => null) : null;
    if (row !== now || !panel.dialog.open) return;
    answers = likelyClasses(row, facts.second, found?.rows ?? []);
    const shownFaces = faces(store.items), ofImages = store.state.kind === "image";
    which.replaceChildren(el("h3", { text: "Which is it? Press its number" }), el("ol", {}, ...answers.map((code, at) => el("li", {}, el("button", { type: "button", class: "answer", "aria-keyshortcuts": String(at + 1), onclick: () => answer(code) },
      el("kbd", { text: String(at + 1) }), ofImages && shownFaces.has(code) ? el("span", { class: "face" }, picture(shownFaces.get(code), 96)) : null, el("b", {}, bothEnds(nameOf(code))))))));
    if (!found) return;
    await describeRows(found.rows);
    const among = [...byClass(found.rows)].sort((a, b) => b[1].length - a[1].length).slice(0, ANSWERS);
    near.replaceChildren(el("h3", { text: plural(found.rows.length, "item") + " most like it" }), el("p", { class: "soft" }, ...among.flatMap(([code, rows], at) => [at ? " · " : "", el("bdi", { text: nameOf(code) }), ` ${whole(rows.length)}`])), el("p", { class: "soft", text: DARK }), strip(found.rows, { label: "Most like it", named: true, onpick: (other) => { row = other; draw(); } }),
      button("Show them all in the grid", "g", keys.g));
  }
  draw();
}
