// History: everything that was done, newest first; a click goes back, or forward, to any point.
import { travel } from "./actions.js";
import { button, el } from "./dom.js";
import { openPanel, waitFor } from "./panel.js";
import { undoRefine } from "./refine.js";
import { store } from "./store.js";
import { sentenceOf } from "./told.js";

export async function openHistory() {
  const panel = openPanel({ title: "History", kind: "side-panel", keys: { h: () => panel.close(), u: () => go(-1), U: () => go(1), B: () => back() } });
  function back() { if (store.state.refine?.can_undo) { panel.close(); undoRefine(); } }
  async function go(steps) { if (steps) await travel(steps); if (panel.dialog.open) draw(); }
  async function draw() {
    const found = await waitFor(panel, store.source.history());
    if (!found) return;
    const refined = store.state.refine?.can_undo ? button("Undo the last refine", "B", back) : "";
    panel.act(button("Undo", "u", () => go(-1), { disabled: !store.state.undo }), button("Redo", "U", () => go(1), { disabled: !store.state.redo }), refined);
    if (!found.length) { panel.fill(el("p", { class: "wait", text: store.state.refine?.can_undo ? "Nothing has been done since the last refine." : "Nothing has been done yet." })); return; }
    const undone = found.filter((one) => !one.active).length;
    panel.fill(el("ol", { class: "steps" }, ...found.map((one, at) => {
      const steps = one.active ? -(at - undone) : undone - at; // how far to go until this one is the last that holds
      return el("li", { class: one.active ? "" : "undone" }, el("button", { type: "button", title: one.active ? (steps ? "Undo everything after this" : "This is where you are") : "Do everything again up to this", onclick: () => go(steps) },
        el("span", { text: sentenceOf(one), dir: "auto" }), el("small", { text: [one.time ? when(one.time) : "", one.author, one.active ? "" : "undone"].filter(Boolean).join(" · ") })));
    }), el("li", {}, el("button", { type: "button", onclick: () => go(-found.filter((one) => one.active).length) }, el("span", { text: "Before everything" })))));
  }
  draw();
}
/** A time as people say it; the source gives seconds or a text. */
export function when(time) {
  const at = new Date(typeof time === "number" ? time * 1000 : time);
  return Number.isNaN(at.getTime()) ? String(time) : at.toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}
