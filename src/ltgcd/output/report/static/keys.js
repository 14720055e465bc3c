// The keyboard: one listener for the page (panels have their own), and the list of the keys that work now.
import { COMMANDS, shownKey, textOf } from "./commands.js";
import { $, el, hideTip, toast } from "./dom.js";
import { gridCount, step } from "./grid.js";
import { openPanel, panelIsOpen } from "./panel.js";
import { clearFilters, goBy, openFound } from "./queue.js";
import { clearSelection, on, store } from "./store.js";

const MOVES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"];

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !store.state || panelIsOpen()) return;
  const typing = event.target.matches("input:not([type=range]), select, textarea");
  if (event.key === "Escape") { escape(event, typing); return; }
  if (typing) {
    if (event.target.id === "search" && ["ArrowDown", "Enter"].includes(event.key)) { event.preventDefault(); event.target.blur(); document.body.classList.remove("drawer"); openFound(); }
    return;
  }
  if ((event.key === "Enter" || event.key === " ") && event.target.matches("button, a, summary, [type=range]")) return; // what has the focus is pressed
  if (MOVES.includes(event.key)) { if (move(event)) event.preventDefault(); return; }
  const here = COMMANDS.filter((one) => one.key === event.key), command = here.find((one) => one.when());
  if (command) { event.preventDefault(); hideTip(); command.run(); return; }
  const why = here.map((one) => one.unable?.()).find(Boolean);
  if (why) toast(why);
}
/** Arrows move in the grid; in the queue, or where there is no grid, from class to class. */
function move(event) {
  if (event.target.matches("[type=range]") || event.target.closest("#map")) return false;
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.target.closest("#entries") || (!gridCount() && by)) { if (by) goBy(by); return Boolean(by); }
  return step(event.key, event.shiftKey);
}
function escape(event, typing) {
  hideTip();
  if (typing && $("#search").value && event.target.id === "search") { clearFilters(); return; }
  if (typing) { event.target.blur(); return; }
  if (document.body.classList.contains("drawer") || document.body.classList.contains("map-open")) { document.body.classList.remove("drawer", "map-open"); return; }
  if (!clearSelection() && $("#search").value) clearFilters();
}
/** The keys that work now, then those that don't. */
export function openHelp() {
  const panel = openPanel({ title: "Keys", kind: "help", keys: { "?": () => panel.close() } });
  const line = (command) => el("li", { class: command.when() ? "" : "off" }, el("kbd", { text: shownKey(command) }), el("span", { text: textOf(command.label) }));
  const ofPage = ({ needs }) => needs === undefined || needs === store.source.mode, isFile = store.source.mode === "file";
  const [now, later, never] = [COMMANDS.filter((one) => one.when()), COMMANDS.filter((one) => ofPage(one) && !one.when()), COMMANDS.filter((one) => isFile && !ofPage(one))];
  const moves = [["← ↑ → ↓", "Move from item to item (with Shift: select)"], ["Click", "Select or deselect; with Shift a range; drag a box; double click looks at it"]];
  panel.fill(el("h3", { text: "These work now" }), el("ul", { class: "keylist" }, ...moves.map(([key, text]) => el("li", {}, el("kbd", { text: key }), el("span", { text }))), ...now.map(line)),
    later.length ? el("h3", { text: "These work elsewhere" }) : "", el("ul", { class: "keylist" }, ...later.map(line)),
    never.length ? el("h3", { text: "These work on the page of ltgcd review" }) : "", el("ul", { class: "keylist" }, ...never.map(line)));
}
/** What a narrow screen has no room for in its top bar. */
export function openMenu() {
  const panel = openPanel({ title: "More", kind: "menu" });
  const line = (label, run) => el("li", {}, el("button", { type: "button", class: "button", text: label, onclick: () => { panel.close(); run(); } }));
  const wanted = ["q", "A", "E", "D", "h", "?"].map((key) => COMMANDS.find((one) => one.key === key)).filter((one) => one.when());
  panel.fill(el("ul", {}, ...wanted.map((one) => line(textOf(one.label), one.run)), line("Light or dark", () => $("#theme").click())));
}
export function startKeys() {
  document.addEventListener("keydown", press);
  on("help", openHelp);
}
