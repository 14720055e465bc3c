// Merge: the most alike class side by side with this one; one key makes them one, another keeps them apart for good.
import { distinct, merge, mergeOrder } from "./actions.js";
import { strip } from "./cells.js";
import { breakable, button, classButton, el, percentSure, plural, shortName, signed, toast, whole } from "./dom.js";
import { nameBox } from "./namebox.js";
import { openPanel, waitFor } from "./panel.js";
import { store } from "./store.js";

const SHOWN = 12; // items of each side

/** Proposals for a class: the source's, else the nearest known ones. */
async function proposals(code) {
  if (store.source.can.merges) return store.source.merges(code);
  return (store.classes.get(code).nearest ?? []).map(([other, similarity]) => ({ code, other, similarity }));
}
async function side(code) {
  const one = store.classes.get(code), rows = await store.source.rows(code, "sure", "centre");
  const shown = rows.length ? rows : await store.source.rows(code, "unsure", "centre");
  return el("section", { class: "half" }, el("h3", {}, el("bdi", {}, ...breakable(one.name)), el("span", { class: "chip " + (one.known ? "known" : "novel"), text: one.known ? "known" : "novel" })),
    el("p", { class: "soft", text: `${plural(one.size, "item")} · ${percentSure(one.confidence)} confident` }), strip(Array.from(shown.subarray(0, SHOWN)), { label: one.name }));
}
export async function openMerge(code, { with: wanted = null } = {}) {
  let pairs = [], at = 0, asking = false; // about two classes that the source has labelled
  const pair = () => pairs[at], otherOf = (one) => one.code === code ? one.other : one.code;
  const keys = {
    m: () => pair() && take(), Enter: () => pair() && take(), y: () => asking && really(), n: () => pair() && store.source.can.merges && never(),
    j: () => go(1), ArrowRight: () => go(1), k: () => go(-1), ArrowLeft: () => go(-1), "/": () => field.focus(),
  };
  const panel = openPanel({ title: "Merge: are these the same?", kind: "wide", keys });
  const field = nameBox({ label: "Another class … ( / )", but: code, near: (store.classes.get(code).nearest ?? []).map(([other]) => other), fresh: false, verb: () => "", take: (name) => {
    const other = [...store.classes.values()].find((one) => one.name === name && one.code !== code);
    if (!other) { openMerge(code); toast("There is no class of that name."); return; }
    openMerge(code, { with: other.code });
  } });
  function go(step) { if (pairs.length) { at = (at + step + pairs.length) % pairs.length; draw(); } }
  const both = () => [code, otherOf(pair())].map((one) => store.classes.get(one));
  /** What becomes of the two: the one that goes, the one that stays, and how many items that has then. */
  function result() { const [from, into] = mergeOrder(...both()); const unsure = from.leaning + into.leaning; return { from, into, size: plural(from.size + into.size, "item") + (unsure ? `, ${whole(unsure)} unsure` : "") }; }
  /** Two classes that the source tells apart are merged by another key than the one that opens this, and only when asked. */
  function take() {
    if (asking) return null;
    if (!both().every((one) => one.labelled)) return really();
    asking = true;
    const { from, into, size } = result();
    panel.act(el("p", { class: "why", role: "alert", text: `The source labelled ${plural(from.labelled, "item")} as “${shortName(from.name)}” and ${whole(into.labelled)} as “${shortName(into.name)}”. Make them one class all the same?` }),
      button(`Yes, one class (${size})`, "y", really, { class: "primary" }), button("No", "", draw));
    return null;
  }
  async function really() { const other = otherOf(pair()); panel.close(); await merge(code, other); }
  async function never() {
    const other = otherOf(pair());
    await distinct(code, other);
    pairs.splice(at, 1);
    at = Math.min(at, pairs.length - 1);
    if (pairs.length) draw(); else panel.close();
  }
  async function draw() {
    const one = pair();
    asking = false;
    if (!one) {
      panel.fill(el("p", { class: "none", text: "No other class is alike enough to be proposed. Type a name to compare with." }), field.box);
      panel.act();
      return;
    }
    const halves = await waitFor(panel, () => Promise.all([side(code), side(otherOf(one))]));
    if (!halves || one !== pair()) return;
    const { from, into, size } = result(), words = one.why ?? (one.similarity === undefined ? "" : `Alike: ${signed(one.similarity)} of 1.`);
    panel.fill(el("p", { class: "soft", text: `${words} “${shortName(from.name)}” would become a part of “${shortName(into.name)}”, which keeps its name.`.trim(), dir: "auto" }), el("div", { class: "halves" }, ...halves));
    panel.act(classButton("Merge into ", into.name, 28, "m", take, { class: "primary" }, ` (${size})`), store.source.can.merges ? button("Never merge", "n", never) : "",
      pairs.length > 1 ? button(`Next (${at + 1} of ${pairs.length})`, "j", () => go(1)) : "", el("span", { class: "space" }), field.box);
    if (!panel.dialog.contains(document.activeElement)) panel.dialog.focus(); // a button that was pressed is gone
  }
  if (wanted !== null) pairs = [{ code, other: wanted }];
  else pairs = (await waitFor(panel, () => proposals(code)) ?? []).filter((one) => store.classes.has(otherOf(one)));
  if (panel.dialog.open) draw();
}
