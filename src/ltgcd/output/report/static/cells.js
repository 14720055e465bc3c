// One item as a cell: a picture, a line of text, or an id with a bar for its confidence.
import { $, el, middleOut, percentSure, say } from "./dom.js";
import { GIVEN, JUNK, LABELLED, UNSURE } from "./items.js";
import { factsOf, nameOf, on, store, whereIs } from "./store.js";

const LONGEST_TAG = 60;
export const DARK = "Framed ones are unsure: more likely wrong than right, and in no class yet.";
const LONGEST_LINE = 600; // characters of a text in a cell; the whole is in the item's detail

/** What a screen reader says of an item: how sure its class is, or how likely another one that it is shown for. */
export function sentenceOf(row, chance) {
  const { confidence, flags } = store.items, facts = store.facts.get(row);
  const said = chance !== undefined ? percentSure(chance) + " likely" : flags[row] & GIVEN ? "confirmed" : flags[row] & LABELLED ? "labelled" : percentSure(confidence[row] / 255) + " confident";
  return `${facts?.text?.slice(0, LONGEST_LINE) ?? facts?.id ?? "item " + row}, ${said}`;
}
/** A cell for a row, to be filled. */
export function makeCell(row, kind) {
  const node = el("div", { class: "cell " + kind, role: "option", "data-row": row });
  if (kind === "image") node.append(picture(row, 192), el("span", { class: "mark" }), el("span", { class: "tag", dir: "auto" }));
  else node.append(el("span", { class: "mark" }), el("span", { class: "line", dir: "auto" }), el("span", { class: "tag", dir: "auto" }), el("span", { class: "sure" }, el("b"), el("i")));
  return node;
}
/** The picture of an item; where there is none, its id. */
export function picture(row, size, alt = "") {
  const source = store.source.thumb(row, size);
  if (source === null) return el("span", { class: "no", dir: "auto", text: store.facts.get(row)?.id ?? "" });
  const image = el("img", { src: source, alt, decoding: "async", draggable: "false" });
  image.addEventListener("error", () => image.replaceWith(el("span", { class: "no", dir: "auto", text: store.facts.get(row)?.id ?? "no picture" })));
  return image;
}
/** Bring a cell up to date: marks, text and label. */
export function fillCell(node, row, kind) {
  const { code, status, flags, confidence } = store.items, facts = factsOf(row);
  const state = status[row] === JUNK ? "junk" : flags[row] & GIVEN ? "given" : flags[row] & LABELLED ? "labelled" : status[row] === UNSURE ? "unsure" : "";
  if (node.dataset.state !== state) {
    node.dataset.state = state;
    say($(".mark", node), { given: "✓", labelled: "L", junk: "✕" }[state] ?? "");
  }
  const next = node.chances === undefined ? store.view.goesTo?.get(row) : undefined; // in the grid: where the next fit would move it
  const isPlain = (store.view.kind === "class" && !node.named) || state === "junk"; // only where classes are mixed they are named
  say($(".tag", node), next ? `${percentSure(next.sure)} → ${middleOut(next.name, LONGEST_TAG)}` : isPlain ? "" : middleOut(nameOf(code[row]), LONGEST_TAG));
  const chance = node.chances?.get(row), sure = confidence[row] / 255;
  const sentence = sentenceOf(row, chance) + (next ? `, would go to ${next.name}, ${percentSure(next.sure)} confident` : "");
  if (node.ariaLabel !== sentence) {
    node.setAttribute("aria-label", sentence);
    node.title = `${facts?.id ?? ""}\n${whereIs(row)} · ${percentSure(sure)} confident${chance === undefined ? "" : `\n${percentSure(chance)} likely to belong here`}${next ? `\nNext fit: ${next.name} · ${percentSure(next.sure)} confident` : ""}`.trim();
  }
  if (kind === "image") { const missing = $(".no", node); if (missing && facts) say(missing, facts.id); return; }
  say($(".line", node), (facts?.text ?? facts?.id ?? "").slice(0, LONGEST_LINE));
  say($(".sure b", node), percentSure(chance ?? sure));
  $(".sure i", node).style.width = Math.max(2, 40 * (chance ?? sure)) + "px";
}
/** Keys in a strip: x or space picks, arrows go from item to item, up and down by a line. */
function pickByKey(event, node, pick) {
  const all = [...node.parentNode.children], at = all.indexOf(node), columns = all.filter((one) => one.offsetTop === all[0].offsetTop).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  if (event.key === "x" || event.key === " ") pick();
  else if (step) all[Math.max(0, Math.min(all.length - 1, at + step))].focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
/** A few items side by side, for a panel; a click on one calls `onpick` with its row. What is not `marked` is crossed out, or `plain` where nobody has looked at it yet; `named` ones say their class, and those with `chances` by row how likely they belong to what the panel is about. */
export function strip(rows, { onpick = null, label = "Items", marked = null, plain = false, named = false, chances = null } = {}) {
  const { kind } = store.state, box = el("div", { class: "strip " + kind, role: onpick ? "listbox" : "list", "aria-label": label, "aria-multiselectable": onpick ? "true" : null });
  const nodes = Array.from(rows, (row) => {
    const node = makeCell(row, kind);
    [node.named, node.chances] = [named, chances];
    if (!onpick) node.setAttribute("role", "listitem");
    else {
      node.tabIndex = 0;
      node.addEventListener("click", () => onpick(row));
      node.addEventListener("keydown", (event) => pickByKey(event, node, () => onpick(row)));
      if (marked) node.prepend(el("span", { class: "tick", "aria-hidden": "true" }));
    }
    return node;
  });
  box.append(...nodes);
  box.refresh = () => nodes.forEach((node) => {
    const row = Number(node.dataset.row);
    fillCell(node, row, kind);
    if (marked) { node.setAttribute("aria-selected", String(marked(row))); node.classList.toggle(plain ? "open" : "off", !marked(row)); say($(".tick", node), marked(row) ? "✓" : plain ? "" : "✕"); }
  });
  box.refresh();
  strips.add(box);
  return box;
}
const strips = new Set(); // those in the document get the texts that come later
on("facts", () => { for (const box of strips) if (box.isConnected) box.refresh(); else strips.delete(box); });
