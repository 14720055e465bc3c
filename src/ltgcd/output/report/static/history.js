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
    const found = await waitFor(panel, () => store.source.history());
    if (!found) return;
    const can = store.state.refine?.can_undo, now = found.filter((one) => !one.past), past = found.filter((one) => one.past);
    panel.act(button("Undo", "u", () => go(-1), { disabled: !store.state.undo }), button("Redo", "U", () => go(1), { disabled: !store.state.redo }), can ? button("Undo the last refine", "B", back) : "");
    if (!found.length) { panel.fill(el("p", { class: "none", text: "Nothing has been done yet." })); return; }
    const undone = now.filter((one) => !one.active).length, active = now.length - undone;
    const lines = now.map((one, at) => {
      const steps = one.active ? -(at - undone) : undone - at; // how far to go until this one is the last that holds
      return line(one, { title: one.active ? (steps ? "Undo everything after this" : "This is where you are") : "Do everything again up to this", onclick: () => go(steps) });
    });
    if (active < store.state.undo) lines.push(line({ sentence: "Older actions are not listed", active: true }, null));
    else if (!past.length) lines.push(line({ sentence: "Before everything", active: true }, { onclick: () => go(-active) }));
    else if (active) lines.push(line({ sentence: `Before ${active === 1 ? "this" : `these ${active}`}`, active: true }, { onclick: () => go(-active) }));
    // What a refine or an update has taken up stays in sight; the way back to it leads over the last refine alone.
    for (const [at, one] of past.entries()) lines.push(line(one, at === 0 && can ? { title: "Undo this refine, and have what was before it back (B)", onclick: back } : null));
    panel.fill(el("p", { class: "soft", text: "A click on a line goes there: what stands above it is undone, and can be done again." }), el("ol", { class: "steps" }, ...lines));
  }
  /** One step as a line of the list; without anything to do it is text alone. */
  function line(one, does) {
    const small = [one.time ? when(one.time) : "", one.author, one.active ? "" : "undone"].filter(Boolean).join(" · ");
    const parts = [el("span", { text: sentenceOf(one), dir: "auto" }), small ? el("small", { text: small }) : null];
    return el("li", { class: [one.active ? "" : "undone", one.past ? "past" : "", one.by ? "turn" : ""].filter(Boolean).join(" ") }, does ? el("button", { type: "button", ...does }, ...parts) : el("div", {}, ...parts));
  }
  draw();
}
/** A time as people say it; the source gives seconds or a text. */
export function when(time) {
  const at = new Date(typeof time === "number" ? time * 1000 : time);
  return Number.isNaN(at.getTime()) ? String(time) : at.toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}
