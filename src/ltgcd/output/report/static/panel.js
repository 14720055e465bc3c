// A panel over the page: focus stays inside, Esc closes it, and the focus goes back to where it was.
import { inLine } from "./actions.js";
import { $, clearToast, el, toast } from "./dom.js";
import { on } from "./store.js";

let open = null;
export const panelIsOpen = () => open !== null && open.open;
export function closePanel() { if (panelIsOpen()) shut(open); }
on("loaded", closePanel); // opened while everything was read anew, it is about what was there before

/** What is not there is left out: the document would write it as a word. */
const present = (nodes) => nodes.filter((node) => node !== null && node !== undefined && node !== false && node !== "");

/** Open a panel; `keys` maps keys to what they do while it is open. Gives its body and foot, to be filled. */
export function openPanel({ title, kind = "", keys = {} }) {
  closePanel();
  clearToast(); // it would lie over the panel
  const body = el("div", { class: "panel-body" }), foot = el("footer", { class: "panel-foot" });
  const heading = el("h2", { id: "panel-title", text: title });
  const dialog = el("dialog", { class: "panel-over " + kind, "aria-labelledby": "panel-title" },
    el("header", {}, heading, el("button", { type: "button", class: "close", "aria-label": "Close (Esc)", text: "×", onclick: () => shut(dialog) })), body, foot);
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    if (event.key === "Enter" && event.target.matches("button")) return; // a button with the focus is pressed
    const work = keys[event.key];
    if (work) { event.preventDefault(); work(event); }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) shut(dialog); });
  dialog.addEventListener("close", () => shut(dialog)); // Esc is the browser's own
  document.body.append(dialog);
  foot.before($("#toasts")); // in front of the panel, and above its buttons
  dialog.showModal();
  dialog.tabIndex = -1;
  dialog.focus();
  open = dialog;
  return { dialog, body, foot, heading, close: () => shut(dialog), fill: (...nodes) => body.replaceChildren(...present(nodes)), act: (...nodes) => foot.replaceChildren(...present(nodes)) };
}
/** Close a panel and take it off the page at once: the browser tells of a close later, and a second panel stands beside it till then. */
function shut(dialog) {
  if (open === dialog) open = null;
  if (dialog.contains($("#toasts"))) document.body.append($("#toasts"));
  if (dialog.open) dialog.close(); // gives the focus back
  dialog.remove();
}
/** Fill a panel with what is still to come, asked for when everything before it is done; what fails is said and closes it. */
export async function waitFor(panel, ask) {
  panel.fill(el("p", { class: "wait", role: "status", text: "One moment …" }));
  try {
    return await inLine(ask);
  } catch (error) {
    toast(error.message, { trouble: true });
    panel.close();
    return null;
  }
}
