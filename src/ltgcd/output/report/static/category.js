// The centre: what is looked at, its name and facts, the buttons, and what the sections of its grid are called.
import { $, breakable, button, el, onceAFrame, percentSure, plural, signed, whole } from "./dom.js";
import { barOf, COMMANDS, selectFar, setArrange, shownKey, startRename, textOf } from "./commands.js";
import { moveTo } from "./grid.js";
import { panelIsOpen } from "./panel.js";
import { openClass } from "./queue.js";
import { byClass, confirm } from "./actions.js";
import { currentClass, emit, isMixed, laneOf, nameOf, on, sectionRows, select, store } from "./store.js";

const DOUBLE_CLICK = 450; // milliseconds between the two

/** What the sections of the grid say above themselves. */
function titleSections() {
  const one = currentClass(), doubtful = store.arrange === "doubtful" ? "least sure first" : "from the centre outwards";
  for (const section of store.sections) {
    const n = section.rows.length;
    if (section.key === "sure") {
      section.title = `${plural(n, "item")}, ${doubtful}`;
      if (one && n < one.size) Object.assign(section, { title: `${whole(n)} of ${whole(one.size)} are in this file`, note: doubtful });
    } else if (section.key === "unsure" && store.view.kind === "class") {
      section.title = one && n < one.leaning ? `${whole(n)} of ${whole(one.leaning)} unsure items that lean here` : `${plural(n, "unsure item leans", "unsure items lean")} here`;
      section.note = "Confirm those that belong to it";
    } else if (section.key === "odd") section.title = `${plural(n, "item")}, the oddest first`;
    else if (section.key === "unsure") section.title = n < store.state.counts.unsure ? `${whole(n)} of ${plural(store.state.counts.unsure, "item")} are in this file, the likeliest first` : `${plural(n, "item")}, the likeliest first`;
  }
}
const stat = (text, title) => el("span", { text, title });
const ACCEPT = COMMANDS.find((one) => one.key === "a");
const goToUnsure = () => moveTo(sectionRows("sure").length);
const link = (text, label, onclick) => el("button", { type: "button", class: "link", text, "aria-label": label, onclick });
/** What can be said of all unsure items that lean to the class. */
function forUnsure(one) {
  if (!one.leaning) return null;
  return el("span", { class: "for-unsure" }, one.why ? " · " : null, "Unsure ones: ", link("select all", "Select all unsure items of it", () => { select(sectionRows("unsure"), { only: true }); goToUnsure(); }),
    one.size ? ", " : null, one.size ? link("confirm all", "Confirm all unsure items of it", () => confirm(Array.from(sectionRows("unsure")))) : null);
}

function drawHead() {
  const { view } = store, one = currentClass();
  document.body.dataset.view = view.kind;
  $("#overview").hidden = view.kind !== "overview";
  $("#head").hidden = view.kind === "overview";
  $("#sheet").hidden = view.kind === "overview";
  if (view.kind === "overview") return;
  if (one) drawClass(one);
  else drawOther(view);
  $("#arrange").hidden = !one;
  $("#zoom").hidden = $("#contrast").hidden = store.state.kind !== "image";
  for (const node of $("#arrange").children) node.setAttribute("aria-pressed", String(node.value === store.arrange));
}
function drawClass(one) {
  const lane = laneOf(one);
  // Whoever is typing a name goes on typing, whatever has changed meanwhile.
  if (!$("#name .namefield")) $("#name").replaceChildren(el("button", { type: "button", class: "name", title: "Rename (r)", onclick: startRename }, el("bdi", {}, ...breakable(one.name))));
  $("#badges").replaceChildren(...[
    el("span", { class: "chip " + lane, text: one.size ? (one.known ? "known" : "novel") : "unsure items only" }),
    one.accepted ? el("span", { class: "chip done", text: "✓ accepted" }) : null,
    isMixed(one) ? el("button", { type: "button", class: "chip warn", text: `${whole(one.far)} look different`, "aria-keyshortcuts": "f", title: "Select them (f): they lie far from the items that people gave it, and are perhaps of another class", onclick: selectFar }) : null].filter(Boolean));
  const facts = [one.size ? stat(plural(one.size, "item")) : null, one.size ? stat(percentSure(one.confidence) + " confident", "Mean probability that the label is right, over its sure items") : null,
    one.coherence === null || one.coherence === undefined ? null : stat(`coherence ${signed(one.coherence)}`, "How much nearer the items are to their own centre than to the nearest other one, from −1 to 1"),
    one.labelled ? stat(`${whole(one.labelled)} labelled`) : null, one.given ? stat(`${whole(one.given)} confirmed`) : null,
    one.leaning ? link(plural(one.leaning, "unsure item leans here", "unsure items lean here"), null, goToUnsure) : null];
  $("#about").replaceChildren(el("p", { class: "facts-row" }, ...facts.filter(Boolean)), one.why || one.leaning ? el("p", { class: "why" }, el("bdi", { text: one.why ?? "" }), forUnsure(one)) : "");
  const more = [];
  if (one.terms?.length) more.push(el("ul", { class: "terms", "aria-label": "Top terms" }, ...one.terms.map((term) => el("li", { text: term, dir: "auto" }))));
  const near = (one.nearest ?? []).filter(([code]) => store.classes.has(code)).slice(0, 3);
  if (near.length) more.push(el("p", { class: "near" }, "Nearest known: ", ...near.flatMap(([code, cosine], i) => [i ? " · " : "",
    el("button", { type: "button", class: "known", dir: "auto", onclick: () => openClass(code) }, ...breakable(nameOf(code))), el("small", { text: " " + signed(cosine), title: "Cosine of the two centres" })])));
  $("#more").replaceChildren(...more);
}
function drawOther(view) {
  const texts = {
    unsure: ["Unsure items", "More likely wrong than right, so they are in no class; each only leans towards one. Select those that are alike, then move or confirm them."],
    odd: ["Odd ones", "Farther from every class than half of the labelled items are from theirs, and unlike each other: a rare class that was taken for a part of another one shows here. Look at one (Enter) to see what is most like it, select those that belong together, and move them (v) to a class with a name of its own; put what belongs nowhere to the junk (d)."],
    junk: ["Junk", "Taken out of training and of every count. Select and take back what does belong somewhere."],
    search: ["Items found", `By id or text: “${(view.q ?? "").slice(0, 80)}”`],
    like: ["Most like it", "The item that you looked at, and what is most like it. Select those that belong together, and move them."],
    moved: [view.moved, "The next fit would move these, each with where to and how sure it is, the least sure first; they still are where they were. R shows its changes again, to accept or throw away. What you say of an item now is kept, but then it has to be fitted anew."],
    added: ["Added by the last update", "In novel categories first, then unsure, then in known classes; of each class the least sure first. Their labels were given by the fit that was there."],
    changed: ["Changed by the last refine", "Items whose class is another one since then, and nobody but the fit said so. h and B take the refine back."],
    lasso: ["Lasso", "All items inside it, drawn or not. Move them, put them to the junk, or make a class of them."],
  }[view.like ? "like" : view.moved ? "moved" : view.status ?? view.kind];
  $("#name").replaceChildren(el("span", { class: "name", text: texts[0] }));
  $("#badges").replaceChildren();
  $("#about").replaceChildren(el("p", { class: "why", text: texts[1], dir: "auto" }));
  $("#more").replaceChildren();
  if (view.kind === "lasso") drawClassesOf(view);
}
/** Which classes the lasso caught; a click selects the items of one alone. */
function drawClassesOf(view) {
  const groups = [...byClass(view.rows)].sort((a, b) => b[1].length - a[1].length).slice(0, 12);
  $("#more").replaceChildren(el("p", { class: "near" }, "Select only: ", ...groups.map(([code, rows]) => el("button", { type: "button", class: "pick", dir: "auto", onclick: () => select(rows, { only: true }) }, ...breakable(nameOf(code)), el("small", { text: " " + whole(rows.length) }))),
    el("button", { type: "button", class: "pick", text: "all", onclick: () => select(view.rows) })));
}
/** The buttons: those of the class above the grid, those of the selection over its lower end. */
function drawActions() {
  const n = store.selection.size, groups = { first: [], items: [], class: [], last: [] };
  const focused = document.activeElement?.closest?.("#actions, #picked") && document.activeElement.dataset.key;
  $("#actions").hidden = store.view.kind === "overview";
  const was = $("#picked").hidden;
  $("#picked").hidden = !n || store.view.kind === "overview";
  if (was && !$("#picked").hidden) letBe($("#picked"));
  document.body.classList.toggle("picking", !$("#picked").hidden);
  for (const command of COMMANDS) {
    const group = barOf(command);
    if (group) groups[group].push(button(textOf(command.label), shownKey(command), command.run, { class: [command.primary ? "primary" : "", command.touch?.() ? "touch" : ""].join(" "), title: textOf(command.title), "aria-label": typeof command.title === "function" ? command.title() : null, "data-key": command.key, disabled: Boolean(command.off?.()) }));
  }
  $("#actions").replaceChildren(...groups.first, ...groups.class);
  // Where there is no room for both bars, that of the selection has what accepts the others, too.
  const others = n && barOf(ACCEPT) ? [button(textOf(ACCEPT.label), shownKey(ACCEPT), ACCEPT.run, { class: "primary narrow", disabled: ACCEPT.off() })] : [];
  $("#picked").replaceChildren(el("b", { role: "status", text: `${whole(n)} selected` }), ...others, ...groups.items, ...groups.last);
  document.body.style.setProperty("--picked", `${$("#picked").offsetHeight}px`); // messages stand above it
  fade($("#actions"));
  fade($("#picked"));
  if (focused) ([...document.querySelectorAll("#actions button, #picked button")].find((one) => one.dataset.key === focused) ?? $("#grid")).focus({ preventScroll: true });
}
/** What has just come up under the pointer takes no click yet: the second of a double click was meant for what was there. */
function letBe(bar) {
  bar.classList.add("fresh");
  setTimeout(() => bar.classList.remove("fresh"), DOUBLE_CLICK);
}
/** A bar that has more than is seen fades out at its end, until one has come there. */
const fade = (bar) => bar.classList.toggle("goes-on", bar.scrollWidth - bar.clientWidth - bar.scrollLeft > 2);
const NOTHING = { odd: "Something was said of each of them.", unsure: "No item is unsure.", junk: "Nothing is junk.", search: "No item has that in its id or text.", class: "No item is in it. Move some here (v), or merge it with another (m)." };
let byKey = false; // whether a key was the last thing that the person used
/** Whoever works with the keyboard never loses the place: where what had the focus is gone, the items get it. */
const keepFocus = onceAFrame(() => {
  const active = document.activeElement, lost = active === document.body || !active?.getClientRects().length;
  if (byKey && lost && !panelIsOpen()) $(store.view.kind === "overview" ? "#centre" : "#grid").focus({ preventScroll: true });
});
export function startCategory() {
  addEventListener("keydown", () => { byKey = true; }, true);
  addEventListener("pointerdown", () => { byKey = false; }, true);
  for (const node of $("#arrange").children) node.addEventListener("click", () => setArrange(node.value));
  for (const bar of [$("#actions"), $("#picked")]) {
    bar.addEventListener("scroll", () => fade(bar), { passive: true });
    new ResizeObserver(() => fade(bar)).observe(bar);
  }
  const zoom = $("#zoom input");
  zoom.addEventListener("input", () => { store.zoom = Number(zoom.value); emit("zoom"); });
  on("far", selectFar);
  on("state view head", () => { if (store.state) drawHead(); });
  on("view rows selection state", () => { if (store.state) { drawActions(); keepFocus(); } });
  on("rows", () => {
    const nothing = store.view.kind !== "overview" && store.sections.every((section) => !section.rows.length);
    $("#empty").hidden = !nothing;
    if (nothing) $("#empty").textContent = store.trouble || (currentClass()?.size && store.source.mode === "file" ? "None of its items are in this file." : NOTHING[store.view.status ?? store.view.kind] ?? "There is nothing in it.");
  });
}
/** Before the grid lays them out: sections get their titles. */
export function startTitles() { on("rows", titleSections); }
