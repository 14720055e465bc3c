// What the page knows: the classes, the labels of all items, what is looked at and what is selected.
import { GIVEN, JUNK, LABELLED, UNSURE } from "./items.js";

export const store = {
  source: null, state: null, items: null, // the arrays of all items
  classes: new Map(), // by code
  order: [], // codes as the queue shows them
  view: { kind: "overview" }, // or class (code), lane (status), search (q), lasso (rows)
  sections: [], // of the grid: {key, title, rows, note}
  arrange: "doubtful", // order of the grid: doubtful or centre
  selection: new Set(), // rows
  trouble: "", // why the rows of what is looked at are not there
  loads: 0, // how often everything was read anew
  facts: new Map(), // id and text of rows that were shown, by row
};

const listeners = new Map();
export function on(what, listener) {
  for (const one of what.split(" ")) listeners.set(one, [...(listeners.get(one) ?? []), listener]);
}
export function emit(what, detail) {
  for (const listener of listeners.get(what) ?? []) listener(detail);
}

// ---------------------------------------------------------------- small questions
export const nameOf = (code) => store.classes.get(code)?.name ?? "a class that is gone";
export const currentClass = () => store.view.kind === "class" ? store.classes.get(store.view.code) ?? null : null;
/** Under which status a class is listed: a novel category without a sure item is not counted as one. */
export const laneOf = (one) => one.known ? "known" : one.size === 0 ? "unsure" : "novel";
/** Whether enough of a class's items lie far from those that people gave it to say so. */
export const isMixed = (one) => one.contaminated > .15 && one.far > 2;
export const isGiven = (row) => (store.items.flags[row] & (GIVEN | LABELLED)) !== 0;
export const selectedRows = () => [...store.selection];
/** What the grid shows, in its order. */
export const shownRows = () => store.sections.flatMap((section) => Array.from(section.rows));
/** Rows of a section of the grid. */
export const sectionRows = (key) => store.sections.find((section) => section.key === key)?.rows ?? [];
export function whereIs(row) {
  const { code, status } = store.items, name = nameOf(code[row]);
  if (status[row] === JUNK) return "Junk";
  return status[row] === UNSURE ? `Unsure, leans towards ${name}` : name;
}
/** Codes of classes that some rows may be of: those that they are in or lean to, the commonest first, then what is near these. */
export function nearTo(rows, code = null) {
  const counts = new Map(code === null ? [] : [[code, Infinity]]);
  for (const row of rows) counts.set(store.items.code[row], (counts.get(store.items.code[row]) ?? 0) + 1);
  const own = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 20).map(([one]) => one);
  return [...own, ...own.flatMap((one) => (store.classes.get(one)?.nearest ?? []).map(([other]) => other))];
}
/** The surest item of each class, to stand for it in the queue. */
export function faces(items) {
  const best = new Map();
  for (let i = 0; i < items.n; i++) {
    const code = items.code[i], worth = items.status[i] === UNSURE ? items.confidence[i] - 256 : items.confidence[i];
    if (items.status[i] === JUNK || (best.has(code) && best.get(code).worth >= worth)) continue;
    if (store.source.pictured && !store.source.pictured(i)) continue;
    best.set(code, { row: i, worth });
  }
  return new Map([...best].map(([code, { row }]) => [code, row]));
}
function countSettled({ n, flags, status }) {
  let settled = 0;
  for (let i = 0; i < n; i++) settled += (flags[i] & (GIVEN | LABELLED)) !== 0 || status[i] === JUNK;
  return settled;
}

// ---------------------------------------------------------------- what the source says
/** The queue keeps its order while one works; what is new comes beside what is looked at, until it is sorted anew. */
export function keepOrder(order, codes, beside) {
  const left = new Set(codes), kept = order.filter((code) => left.delete(code)), fresh = [...left];
  kept.splice(kept.includes(beside) ? kept.indexOf(beside) + 1 : 0, 0, ...fresh);
  return kept;
}
function takeState(state, sortAnew) {
  store.state = { ...store.state, ...state };
  if (state.classes) {
    const told = new Map(state.classes.map((one) => [one.code, one])); // after an action only those that changed
    const codes = state.order ?? [...told.keys()];
    store.classes = new Map(codes.map((code) => [code, told.get(code) ?? store.classes.get(code)]));
    store.order = sortAnew ? codes : keepOrder(store.order, codes, store.view.code);
    store.sorted = codes.every((code, at) => code === store.order[at]);
  }
}
/** Everything anew: at the start, after a refine, or because another tab was faster. */
export async function load({ sortAnew = true } = {}) {
  const [state, items] = await Promise.all([store.source.state(), store.source.items()]);
  try {
    store.items = items;
    takeState(state, sortAnew);
    store.state.settled = state.settled ?? countSettled(items);
    await afterChange();
  } finally { // shown now: what was begun before it was about something else
    store.loads++;
    emit("loaded");
  }
}
/** What an action changed. */
export async function receive(answer) {
  if (answer.reload) store.items = await store.source.items();
  else {
    const { code, status, flags } = store.items;
    answer.rows.forEach((row, at) => { code[row] = answer.codes[at]; status[row] = answer.statuses[at]; flags[row] = answer.flags[at]; });
  }
  takeState(answer, false);
  store.state.settled = answer.settled ?? countSettled(store.items);
  afterChange();
}
function afterChange() {
  if (store.view.kind === "class" && !store.classes.has(store.view.code)) store.view = { kind: "overview" };
  emit("state");
  emit("items");
  return refreshRows();
}
export function sortAnew() {
  store.order = [...store.classes.keys()];
  store.sorted = true;
  emit("state");
}

// ---------------------------------------------------------------- what is looked at
let asked = 0;
/** Rows of what is looked at, asked for again; where the answer comes too late, it is dropped, and where none comes, nothing of another view stays. */
export async function refreshRows() {
  const { view, source } = store, turn = ++asked;
  let sections = [], trouble = "";
  try { sections = await rowsOf(view, source); } catch (error) { trouble = error.message; }
  if (turn !== asked) return;
  store.trouble = trouble;
  store.sections = sections;
  if (store.selection.size) { // what has left the grid is no longer selected
    const shown = new Set(shownRows());
    for (const row of store.selection) if (!shown.has(row)) store.selection.delete(row);
  }
  emit("rows");
  emit("selection");
}
async function rowsOf(view, source) {
  if (view.kind === "class") {
    const [sure, unsure] = await Promise.all(["sure", "unsure"].map((part) => source.rows(view.code, part, store.arrange)));
    return [{ key: "sure", rows: sure }, { key: "unsure", rows: unsure }];
  }
  if (view.kind === "lane") return [{ key: view.status, rows: await source.lane(view.status) }];
  if (view.kind === "search") return [{ key: "search", rows: Int32Array.from((await source.search(view.q)).rows) }];
  if (view.kind === "lasso") return [{ key: "lasso", rows: view.rows }];
  return [];
}
/** Look at something else. */
export function show(view, { keep = false } = {}) {
  store.view = view;
  if (!keep) store.selection.clear();
  store.sections = [];
  emit("view");
  return refreshRows();
}
export const sameView = (a, b) => a.kind === b.kind && a.code === b.code && a.status === b.status && a.q === b.q;

// ---------------------------------------------------------------- what is selected
export function select(rows, { only = false, off = false } = {}) {
  if (only) store.selection.clear();
  for (const row of rows) if (off) store.selection.delete(row); else store.selection.add(row);
  emit("selection");
}
export const toggle = (row) => select([row], { off: store.selection.has(row) });
export function clearSelection() {
  if (!store.selection.size) return false;
  store.selection.clear();
  emit("selection");
  return true;
}

// ---------------------------------------------------------------- ids and texts of rows, asked for once, many at a time
const MOST = 500; // rows of one question
let wanted = new Set();
const waiting = new Set(); // rows that were asked for
export function factsOf(row) {
  const known = store.facts.get(row);
  if (!known && !wanted.has(row) && !waiting.has(row)) {
    if (!wanted.size) setTimeout(askFacts, 0);
    wanted.add(row);
  }
  return known ?? null;
}
async function askFacts() {
  const rows = [...wanted];
  wanted = new Set();
  for (const row of rows) waiting.add(row);
  for (let at = 0; at < rows.length; at += MOST) await describeRows(rows.slice(at, at + MOST)).catch(() => null);
  for (const row of rows) waiting.delete(row);
}
export async function describeRows(rows) {
  const missing = rows.filter((row) => !store.facts.has(row));
  for (let at = 0; at < missing.length; at += MOST) {
    for (const one of await store.source.describe(missing.slice(at, at + MOST))) store.facts.set(one.row, one);
  }
  if (missing.length) emit("facts");
  return rows.map((row) => store.facts.get(row));
}
