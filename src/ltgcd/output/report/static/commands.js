// Everything a person can do, with its key: the buttons, the keyboard and the help are all made of this one list.
import { accept, acceptable, applyChanges, byClass, codeOf, confirm, junk, moveRows, redo, reject, rename, splitOff, takeBack, undo } from "./actions.js";
import { $, copy, download, el, middleOut, plural, remember, toast, whole } from "./dom.js";
import { GIVEN, JUNK } from "./items.js";
import { cursorRow, gridCount, moveTo, toggleHere } from "./grid.js";
import { openAudit } from "./audit.js";
import { openDetail, startAsking } from "./detail.js";
import { openGrow } from "./grow.js";
import { openHistory } from "./history.js";
import { openMerge } from "./merge.js";
import { nameBox } from "./namebox.js";
import { openPanel } from "./panel.js";
import { goBy } from "./queue.js";
import { openRefine, undoRefine } from "./refine.js";
import { openSplit } from "./split.js";
import { clearSelection, currentClass, describeRows, emit, isMixed, nearTo, refreshRows, sectionRows, select, selectedRows, show, shownRows, store } from "./store.js";

const selected = () => store.selection.size;
const server = () => store.source.mode === "server";
const can = (what) => Boolean(store.source.can[what]);
const sureCount = () => sectionRows("sure").length;
const nothingSelected = () => gridCount() ? "Nothing is selected: x selects the framed item." : "";
/** What the item commands act on: the selection, else where the keyboard stands. */
const chosenRows = () => selected() ? selectedRows() : cursorRow() === null ? [] : [cursorRow()];

/** Rename in place: the title becomes a box with the names that there are. */
export function startRename() {
  const one = currentClass(), title = $("#name");
  if (!one || $(".namefield", title)) return;
  const back = () => { title.replaceChildren(); emit("head"); $("#grid").focus({ preventScroll: true }); };
  const suggestions = [one.suggested, ...(one.terms ?? [])].filter((name) => name && name !== one.name && !name.startsWith("near "));
  const field = nameBox({
    label: "Its name", value: one.known ? one.name : "", but: one.code, first: suggestions.slice(0, 4), near: nearTo([], one.code),
    verb: (other) => other ? "merge with it" : "rename",
    take: (name) => {
      const other = codeOf(name);
      if (other === null) rename(one.code, name).then(back);
      else if (other === one.code) back();
      else { back(); askMerge(one, store.classes.get(other)); }
    }, leave: back,
  });
  title.replaceChildren(field.box);
  field.focus();
}
function askMerge(one, other) {
  openMerge(one.code, { with: other.code });
}
/** Ask for a class by its name, then do something with it. */
export function askName(title, take, rows, but = null) {
  const panel = openPanel({ title, kind: "small" });
  const field = nameBox({ label: "Name of a class", but, near: nearTo(rows, but), verb: (one) => one ? "" : "make this class", take: (name) => { panel.close(); take(name); }, leave: () => panel.close() });
  panel.fill(field.box);
  field.focus();
}
function moveSelected() {
  const rows = chosenRows();
  if (rows.length) askName(`Move ${plural(rows.length, "item")} to …`, (name) => moveRows(rows, name), rows, currentClass()?.code ?? null);
}
/** Take the selection out of its class as a category of its own. */
function splitSelected() {
  const rows = selectedRows(), groups = [...byClass(rows)];
  if (groups.length === 1 && can("split")) splitOff(groups[0][0], rows);
  else askName(`A class of ${plural(rows.length, "item")}`, (name) => moveRows(rows, name), rows);
}
async function copyIds() {
  const rows = selected() ? selectedRows() : shownRows();
  const facts = await describeRows(rows.slice(0, 20000));
  copy(facts.map((one) => one.id).join("\n"), plural(facts.length, "id"));
}
export function saveCorrections() {
  if (!store.source.idsWhole) { toast("The ids in this file had to be shortened; use 'ltgcd review' to correct this run.", { trouble: true }); return; }
  download("corrections.csv", store.source.corrections());
  toast("Give the file to 'ltgcd relabel RUN corrections.csv'.");
}
/** The labels as they are now, as a file that 'ltgcd relabel' and '--labels' take. */
export function saveLabels() {
  el("a", { href: "/api/export", download: "labels.csv" }).click();
  toast("labels.csv holds every item's label as it is now. For folders, COCO or Label Studio: 'ltgcd export'.");
}
/** Pale pictures, such as plankton in grey, are easier to tell apart with more contrast; nothing but the view changes. */
export function toggleContrast() {
  const on = document.body.classList.toggle("contrast");
  $("#contrast").setAttribute("aria-pressed", String(on));
  remember((memory) => memory.setItem("ltgcd-contrast", on ? "on" : "off"));
}
/** Select the items of the class that lie far from those that people gave it, and go to the first. */
export async function selectFar() {
  const one = currentClass();
  if (!one) return;
  const found = await store.source.rows(one.code, "far", store.arrange).catch((error) => toast(error.message, { trouble: true }));
  if (!found || currentClass()?.code !== one.code) return;
  const shown = new Set(shownRows()), rows = found.filter((row) => shown.has(row)); // nothing is selected out of sight
  select(rows, { only: true });
  if (rows.length) moveTo(shownRows().indexOf(rows[0]));
  else toast("None of the items that look different is shown here.");
}
export function setArrange(arrange) {
  store.arrange = arrange;
  emit("head");
  refreshRows();
}
/** Whether a refine is what came before everything that can be undone here. */
const afterRefine = () => !store.state.undo && Boolean(store.state.refine?.can_undo);
export const canGoBack = () => store.state.undo > 0 || afterRefine();
/** Undo the last action; a refine, which is more than one, is asked about. */
export function undoHere() {
  if (afterRefine()) toast("Before this was a refine: undo it (B)?", { offer: "Undo the refine", act: undoRefine });
  else undo();
}
const inClass = () => currentClass() !== null;
const canAccept = () => inClass() && (currentClass().size ? sureCount() > 0 : sectionRows("unsure").length > 0);
function acceptLabel() {
  if (!inClass()) return "Accept all items of the class";
  const n = acceptable().length;
  if (!n) return selected() ? "Others are accepted" : "All accepted";
  return selected() ? `Accept other ${whole(n)}` : currentClass().size ? `Accept all ${whole(n)}` : `Accept the ${whole(n)} unsure`;
}
const inUnsure = () => store.view.status === "unsure";
/** Rows from the first that is selected to the last, as they are shown. */
function between() {
  const rows = shownRows(), chosen = (row) => store.selection.has(row);
  return rows.slice(rows.findIndex(chosen), rows.findLastIndex(chosen) + 1);
}

// key, what it does (a text, or a function that gives one), when it works, what it runs; `bar`: a button above the grid;
// `unable`: what its key answers when it does not work; `needs`: the page that it is of, where it is not of both; `touch`: a button for fingers, or for `narrow` screens, alone.
export const COMMANDS = [
  { key: "a", label: acceptLabel, when: canAccept, off: () => !acceptable().length, run: accept, bar: "first", primary: true, unable: () => inClass() ? "There is nothing in it to accept." : "" },
  { key: "c", label: () => selected() ? `Confirm ${whole(selected())}` : "Confirm the selected items", when: () => selected() > 0, run: () => confirm(), bar: "items", unable: nothingSelected },
  { key: "n", needs: "server", label: () => inClass() ? `Not ${middleOut(currentClass().name, 24)}` : "Not its class", title: () => inClass() ? `Not ${middleOut(currentClass().name, 200)}` : null, when: () => selected() > 0 && can("reject"), run: () => reject(), bar: "items", unable: nothingSelected },
  { key: "v", label: () => selected() ? "Move to …" : "Move this item to …", when: () => gridCount() > 0 && chosenRows().length > 0, run: moveSelected, bar: () => selected() && "items" },
  { key: "d", label: () => selected() ? "Junk" : "This item is junk", when: () => gridCount() > 0 && chosenRows().length > 0, run: () => junk(chosenRows()), bar: () => selected() && "items" },
  { key: "y", label: () => selected() ? "Duplicate" : "Junk: a duplicate", title: "To the junk, as a duplicate", when: () => gridCount() > 0 && chosenRows().length > 0, run: () => junk(chosenRows(), "duplicate"), bar: () => selected() && "last" },
  { key: "S", label: () => can("split") && byClass(selectedRows()).size === 1 ? "Split off" : "Make a class of these", when: () => selected() > 0, run: splitSelected, bar: "items", unable: nothingSelected },
  { key: "b", label: "Take back", title: "What was said of these items", when: () => selected() > 0 && selectedRows().some((row) => store.items.flags[row] & GIVEN || store.items.status[row] === JUNK), run: () => takeBack(), bar: "items" },
  { key: "r", label: "Rename", when: inClass, run: startRename, bar: "class" },
  { key: "m", label: "Merge", when: inClass, run: () => openMerge(currentClass().code), bar: "class" },
  { key: "s", needs: "server", label: "Split", when: () => inClass() && can("split") && sureCount() > 1, run: () => openSplit(currentClass().code), bar: "class", unable: () => inClass() && can("split") ? "It has no two sure items to part. Select unsure ones, and split these off (S)." : "" },
  { key: "g", needs: "server", label: "Grow", when: () => inClass() && can("grow"), run: () => openGrow(currentClass().code), bar: "class" },
  { key: "p", needs: "server", label: "Check", title: "A random sample gives its precision", when: () => inClass() && can("audit") && sureCount() > 0, run: () => openAudit(currentClass().code), bar: "class" },
  { key: "i", label: "Copy ids", when: () => gridCount() > 0, run: copyIds, bar: () => selected() ? "last" : !server() && "class" },
  { key: "Escape", shown: "Esc", label: "Deselect", when: () => selected() > 0, run: clearSelection, bar: "last" },
  { key: "x", label: "Select or deselect the item", when: () => gridCount() > 0, run: toggleHere },
  { key: "f", label: () => inClass() && isMixed(currentClass()) ? `Select the ${whole(currentClass().far)} that look different` : "Select the items that look different", when: () => inClass() && isMixed(currentClass()) && can("far"), run: selectFar, unable: () => inClass() ? "None of its items looks different from those that people gave it." : "" },
  { key: "X", label: "Select all", title: "Everything that is shown here", when: () => gridCount() > 0, run: () => select(shownRows()), bar: () => selected() ? "last" : "class", touch: () => selected() > 0 },
  { key: "w", label: "All between", title: "Select what is between the first and the last selected item (with the mouse: Shift and a click)", when: () => selected() > 1 && selected() < gridCount(), run: () => select(between()), bar: "last", touch: () => true },
  { key: "Enter", shown: "↵", label: "Look", title: "Look at the item: large, what is most like it, which class (also a double click)", when: () => gridCount() > 0, run: () => openDetail(cursorRow()), bar: () => selected() && "items" },
  { key: " ", shown: "Space", label: "Look at the item", when: () => gridCount() > 0, run: () => openDetail(cursorRow()) },
  { key: "q", label: () => inUnsure() ? "One by one" : "Unsure items one by one", title: "The likeliest to be right first; a number says which class", when: () => store.state.counts.unsure > 0, run: startAsking, bar: () => inUnsure() && !selected() && "first", primary: true },
  { key: "O", needs: "server", label: "Odd ones: unlike every class, perhaps a novel one", when: () => can("odd"), run: () => show({ kind: "lane", status: "odd" }) },
  { key: "o", label: () => store.arrange === "doubtful" ? "Centre first" : "Least sure first", when: inClass, run: () => setArrange(store.arrange === "doubtful" ? "centre" : "doubtful") },
  { key: "j", label: "Next", when: () => true, run: () => goBy(1) },
  { key: "k", label: "Previous", when: () => true, run: () => goBy(-1) },
  { key: "u", label: "Undo", when: canGoBack, run: undoHere, unable: () => "There is nothing to undo." },
  { key: "B", needs: "server", label: "Undo the last refine", when: afterRefine, run: undoRefine },
  { key: "U", label: "Redo", when: () => store.state.redo > 0, run: redo, unable: () => "There is nothing to redo." },
  { key: "h", label: "History", when: () => true, run: openHistory },
  { key: "A", needs: "server", label: "Apply: write the changes to the run", when: () => server() && store.state.unapplied > 0, run: applyChanges },
  { key: "R", needs: "server", label: "Refine: fit again with your changes", when: server, run: openRefine },
  { key: "D", needs: "file", label: "Download corrections.csv", when: () => !server() && store.state.changes > 0, run: saveCorrections },
  { key: "E", needs: "server", label: "Export: download the labels as they are now", when: server, run: saveLabels },
  { key: "t", label: () => document.body.classList.contains("contrast") ? "Pictures as they are" : "More contrast in the pictures", when: () => store.state.kind === "image", run: toggleContrast },
  { key: "l", label: "Lasso on the map", when: () => true, run: () => emit("lasso") },
  { key: "z", label: "Show or hide the map", when: () => true, run: () => emit("map") },
  { key: "/", label: "Search", when: () => true, run: () => { document.body.classList.add("drawer"); $("#search").focus(); $("#search").select(); } },
  { key: "?", label: "Keys", when: () => true, run: () => emit("help") },
];
export const textOf = (text) => typeof text === "function" ? text() : text;
export const barOf = (command) => command.when() ? textOf(command.bar) : null;
export const shownKey = (command) => command.shown ?? command.key;
