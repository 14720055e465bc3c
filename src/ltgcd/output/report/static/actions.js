// What a person can do: each becomes one action of one or more events, which the source keeps and can undo.
import { clearToast, plural, shortName, toast, whole } from "./dom.js";
import { JUNK, meansJunk } from "./items.js";
import { currentClass, isGiven, load, nameOf, receive, sectionRows, selectedRows, store } from "./store.js";
import { sentenceOf } from "./told.js";

const spoken = (name) => `“${shortName(name)}”`;
let line = Promise.resolve(); // one after the other, so that each knows the version that it is about

/** Do something when everything before it is done, and nothing else meanwhile. */
export function inLine(work) {
  const turn = line.then(work);
  line = turn.catch(() => null);
  return turn;
}
const CHANGED = "Something was changed elsewhere (another tab?), so this was not done. You now see the newest state: please look again.";
/** Do something in its turn, if the page still shows then what it shows now; else say so. The version alone does not tell: it is that of what was read meanwhile. */
export function inSight(work) {
  const { loads } = store;
  return inLine(() => {
    if (store.loads === loads) return work();
    toast(CHANGED, { trouble: true });
    return false;
  });
}
/** Do one thing, in its turn; where another tab was faster, everything is read again and nothing is overwritten. */
function inTurn(work) {
  clearToast(); // what it offers to undo is no longer the last
  return inSight(() => work().then(() => true).catch(async (error) => {
    if (error.status === 409) {
      await load({ sortAnew: false });
      toast(CHANGED, { trouble: true });
    } else toast(error.message, { trouble: true });
    return false;
  }));
}
/** What an undo or redo was about, if its answer says so. */
const turned = ({ sentence, action }) => sentence || action ? sentenceOf({ sentence, ...action }) : "";
export const act = (events, sentence) => inTurn(async () => {
  await receive(await store.source.act(events, store.state));
  toast(typeof sentence === "function" ? sentence() : sentence, { offer: "Undo", act: undo });
});
export const undo = () => store.state.undo ? inTurn(async () => {
  const answer = await store.source.undo(store.state), what = turned(answer);
  await receive(answer);
  toast(what ? `Undone: ${what}.` : "Undone.", { offer: "Redo", act: redo });
}) : toast("There is nothing to undo.");
export const redo = () => store.state.redo ? inTurn(async () => {
  const answer = await store.source.redo(store.state), what = turned(answer);
  await receive(answer);
  toast(what ? `Done again: ${what}.` : "Done again.", { offer: "Undo", act: undo });
}) : toast("There is nothing to redo.");
/** Go back, or forward, by some actions at once. */
export const travel = (steps) => inTurn(async () => {
  for (let i = 0; i < Math.abs(steps); i++)
    await receive(await (steps < 0 ? store.source.undo : store.source.redo)(store.state));
  toast(steps < 0 ? `Undid ${plural(-steps, "action")}.` : `Did ${plural(steps, "action")} again.`);
});
export const applyChanges = () => inTurn(async () => {
  const answer = await store.source.apply(store.state);
  await receive({ rows: [], ...answer });
  toast("Written to the run: its assignments and its report say what you said.");
});

// ---------------------------------------------------------------- about items
/** Rows in groups by their class. */
export function byClass(rows) {
  const groups = new Map();
  for (const row of rows) {
    const code = store.items.code[row];
    if (!groups.has(code)) groups.set(code, []);
    groups.get(code).push(row);
  }
  return groups;
}
/** Rows that no person has said anything about: neither here nor in the source. */
export const unsaid = (rows) => Array.from(rows).filter((row) => !isGiven(row) && store.items.status[row] !== JUNK);

/** What accepting confirms: the sure items of the class, or the unsure ones where it has no other, without what is selected. */
export function acceptable() {
  const one = currentClass();
  return one ? unsaid(sectionRows(one.size ? "sure" : "unsure")).filter((row) => !store.selection.has(row)) : [];
}
/** Accept what is in the class, but for what is selected. */
export function accept() {
  const one = currentClass(), rows = acceptable(), left = store.selection.size;
  if (!one) return;
  if (!rows.length) toast(`Everything in ${spoken(one.name)} is confirmed already.`);
  else act([{ op: "assign", rows, code: one.code }], `Accepted ${plural(rows.length, "item")} of ${spoken(one.name)}${left ? `, not the ${whole(store.selection.size)} selected` : ""}.`);
}
/** Say of items that they are of the class that they are in, or lean towards. */
export function confirm(rows = selectedRows()) {
  const events = [...byClass(rows)].map(([code, part]) => ({ op: "assign", rows: part, code }));
  return events.length ? act(events, `Confirmed ${plural(rows.length, "item")}.`) : null;
}
/** Say which class some items are of: the one that they are in is confirmed. */
export function assign(rows, code) {
  const stays = Array.from(rows).every((row) => store.items.code[row] === code);
  return act([{ op: "assign", rows, code }], `${plural(rows.length, "item")} ${stays ? "confirmed as" : "moved to"} ${spoken(nameOf(code))}.`);
}
export function reject(rows = selectedRows()) {
  const groups = [...byClass(rows)];
  return !groups.length ? null : act(groups.map(([code, part]) => ({ op: "reject", rows: part, code })), `${plural(rows.length, "item is", "items are")} not ${groups.length === 1 ? spoken(nameOf(groups[0][0])) : "of their classes"}.`);
}
export function junk(rows = selectedRows(), why = null) {
  return !rows.length ? null : act([{ op: "junk", rows, ...(why ? { why } : {}) }], `${plural(rows.length, "item")} put to the junk${why ? ` (${why})` : ""}.`);
}
export function takeBack(rows = selectedRows()) {
  if (rows.length) act([{ op: "clear", rows }], `What was said of ${plural(rows.length, "item")} is taken back.`);
}
/** Put items into a class by its name; one that is not there is made, and junk is no class. */
export function moveRows(rows, name) {
  if (meansJunk(name)) return junk(rows);
  const found = codeOf(name), code = found ?? nextCode();
  const events = [{ op: "assign", rows, code }];
  if (found === null) events.unshift({ op: "create", code, name });
  return act(events, `Moved ${plural(rows.length, "item")} to ${spoken(name)}.`);
}

// ---------------------------------------------------------------- about classes
/** Every item of a class, sure and unsure. */
function rowsOf(code) {
  const { items } = store, rows = [];
  for (let row = 0; row < items.n; row++) if (items.code[row] === code && items.status[row] !== JUNK) rows.push(row);
  return rows;
}
export function codeOf(name) {
  for (const one of store.classes.values()) if (one.name === name) return one.code;
  return null;
}
const nextCode = () => store.state.next_code ?? Math.max(-1, ...store.classes.keys()) + 1;
/** Name a class; to call it junk takes all of its items out. */
export const rename = async (code, name) => meansJunk(name) ? junk(rowsOf(code)) : act([{ op: "rename", code, name }], `${spoken(nameOf(code))} is called ${spoken(name)} now.`);
/** Which of two classes takes the other in: the known one, else the larger. */
export function mergeOrder(a, b) {
  if (a.known !== b.known) return a.known ? [b, a] : [a, b];
  return a.size > b.size ? [b, a] : [a, b];
}
export function merge(code, other) {
  const [from, into] = mergeOrder(store.classes.get(code), store.classes.get(other));
  if (store.view.code === from.code) store.view = { kind: "class", code: into.code };
  return act([{ op: "merge", code: from.code, into: into.code }], `${spoken(from.name)} is part of ${spoken(into.name)} now.`);
}
export const distinct = (code, other) => act([{ op: "distinct", code, other }], `${spoken(nameOf(code))} and ${spoken(nameOf(other))} stay apart: this is not proposed again.`);
export const split = (code, parts) => act([{ op: "split", code, parts }], `${spoken(nameOf(code))} is split: ${plural(parts.length, "category", "categories")} beside it.`);
/** Picked items become a category of their own, and are confirmed in it: who picks each by hand has looked at it. */
export function splitOff(code, rows) {
  const fresh = nextCode();
  return act([{ op: "split", code, parts: [rows], codes: [fresh] }, { op: "assign", rows, code: fresh }], () => `${plural(rows.length, "item")} of ${spoken(nameOf(code))}: ${spoken(nameOf(fresh))} now.`);
}
/** Parts of a class go to the class of a name, and the items `right` of them are confirmed there. */
export function takeParts(code, rows, right, name) {
  if (meansJunk(name)) return junk(rows);
  const found = codeOf(name), fresh = nextCode(), home = found ?? fresh, events = [];
  if (rows.length) events.push({ op: "split", code, parts: [rows], codes: [fresh] }, found === null ? { op: "rename", code: fresh, name } : { op: "merge", code: fresh, into: found });
  if (right.length) events.push({ op: "assign", rows: right, code: home });
  return act(events, `${rows.length ? `${plural(rows.length, "item")} of ${spoken(nameOf(code))} went to ${spoken(name)}` : spoken(name)}: ${plural(right.length, "item")} confirmed.`);
}
