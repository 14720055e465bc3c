// The queue: every class with the reason why it is worth a look, the lanes of odd ones, unsure items and junk; search and filters.
import { $, bothEnds, el, onceAFrame, percentSure, plural, whole } from "./dom.js";
import { picture } from "./cells.js";
import { moveTo } from "./grid.js";
import { JUNK } from "./items.js";
import { describeRows, emit, faces, isMixed, laneOf, on, sameView, show, shownRows, sortAnew, store } from "./store.js";

const HEIGHT = 66; // pixels of an entry
const MARGIN_ENTRIES = 6;
const MOST_HITS = 200; // items among which one of the id that was typed is looked for
let last = null; // the view of the list that one was in, or came from
let entries = [], shownFaces = new Map(), nodes = new Map(), scroll, list, hits = null, statusFilter = "all";

const ORDERS = {
  large: (a, b) => b.size - a.size, small: (a, b) => a.size - b.size, doubt: (a, b) => a.confidence - b.confidence,
  loose: (a, b) => (a.coherence ?? 2) - (b.coherence ?? 2), name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
};
/** Whether a class is listed, by the filters. */
export function matches(one, { query, status, low, high, found }) {
  if (status !== "all" && laneOf(one) !== status) return false;
  const size = one.size || 1; // one that has unsure items alone counts as a single
  if (size < low || size > high) return false;
  return !query || [one.name, one.suggested ?? "", ...(one.terms ?? [])].some((text) => text.toLowerCase().includes(query)) || found.has(one.code);
}
function filters() {
  const [low, high] = $("#size").value.split("-").map((value) => value === "" ? Infinity : Number(value));
  const found = new Set(hits?.classes ?? []);
  for (const row of hits?.rows ?? []) found.add(store.items.code[row]);
  return { query: $("#search").value.trim().toLowerCase(), status: statusFilter, low, high, found };
}
/** What is listed: views, each with what it takes to draw it. */
function makeEntries() {
  const wanted = filters(), order = $("#order").value, classes = store.order.map((code) => store.classes.get(code));
  if (order !== "queue") classes.sort((a, b) => ORDERS[order](a, b));
  const named = (one) => one.name.toLowerCase() === wanted.query ? 2 : Number(one.name.toLowerCase().includes(wanted.query)); // the whole name first
  if (wanted.query) classes.sort((a, b) => named(b) - named(a)); // before those that only hold such items, or lie near
  const found = classes.filter((one) => matches(one, wanted)).map((one) => ({ view: { kind: "class", code: one.code }, one }));
  // Those at the end that are accepted stand under a head of their own; others stay among the rest until it is sorted anew.
  const open = found.findLastIndex(({ one }) => !one.accepted) + 1;
  if (order === "queue" && !wanted.query && open && open < found.length) found.splice(open, 0, { view: { kind: "head" }, lane: "head", title: `Accepted (${whole(found.length - open)})` });
  const { counts } = store.state, plain = !wanted.query && wanted.low === 1 && wanted.high === Infinity;
  const lane = (status, title, text) => ({ view: { kind: "lane", status }, lane: status, title, size: counts[status], text });
  if (plain && ["all", "unsure"].includes(wanted.status)) {
    if (store.source.can.odd) found.push({ view: { kind: "lane", status: "odd" }, lane: "odd", title: "Odd ones", text: "Unlike every class: novel ones?" });
    if (counts.unsure) found.push(lane("unsure", "Unsure items", "More likely wrong than right"));
    if (store.state.added) found.push({ ...lane("added", "Added by the last update", "Novel categories first, then unsure items"), size: store.state.added });
    if (store.state.refine?.changed) found.push({ ...lane("changed", "Changed by the last refine", "Their class is another one now"), size: store.state.refine.changed });
    if (counts.junk) found.push(lane("junk", "Junk", "Taken out of every count"));
  }
  if (hits?.rows.length) found.unshift({ view: { kind: "search", q: $("#search").value.trim() }, lane: "search", title: "Items found", size: hits.rows.length, text: "By id or text" });
  if (plain && wanted.status === "all") found.unshift({ view: { kind: "overview" }, lane: "overview", title: "Overview", text: "How many classes, how large" });
  return found;
}

function entryNode({ view, one, lane, title, size, text }) {
  if (lane === "head") return el("li", { class: "entry head", role: "presentation" }, el("h3", { text: title }));
  const node = el("li", { class: "entry " + (one ? laneOf(one) : lane), role: "option", onclick: () => { show(view); document.body.classList.remove("drawer"); } });
  const face = one && shownFaces.get(one.code), { kind } = store.state;
  if (one && face !== undefined && kind === "image") node.append(el("span", { class: "face" }, picture(face, 96)));
  else if (one) node.append(el("span", { class: "face plain" }, el("i", { class: "dot" })));
  else node.append(el("span", { class: "face plain", text: { overview: "◔", odd: "✱", unsure: "?", junk: "✕", added: "＋", changed: "⇄", search: "⌕" }[lane] }));
  const badges = [];
  if (one?.accepted) badges.push(el("span", { class: "badge done", text: "✓", title: "Every sure item is confirmed" }));
  if (one && isMixed(one)) badges.push(el("span", { class: "badge warn", text: `${whole(one.far)} look different`, title: "Select them: they lie far from the items that people gave it", onclick: (event) => { event.stopPropagation(); document.body.classList.remove("drawer"); show(view).then(() => emit("far")); } }));
  const facts = one ? [one.size ? plural(one.size, "item") : "unsure items only", one.size && !isMixed(one) ? `${percentSure(one.confidence)} sure` : ""].filter(Boolean).join(" · ") : size === undefined ? "" : plural(size, "item");
  node.append(el("div", { class: "what" }, el("b", {}, one ? bothEnds(one.name) : el("bdi", { text: title }), one && !one.known && one.suggested ? el("span", { class: "perhaps", text: one.suggested, dir: "auto" }) : null),
    el("p", { class: "facts-line" }, facts, ...badges), el("p", { class: "why", text: one ? one.why ?? "" : text, dir: "auto" })));
  node.title = one ? [one.name.slice(0, 200), one.suggested, one.why].filter(Boolean).join("\n") : "";
  node.setAttribute("aria-label", [one ? one.name.slice(0, 200) : title, one?.accepted ? "accepted" : ""].filter(Boolean).join(", "));
  return node;
}
function rebuild() {
  if (!store.state) return;
  entries = makeEntries();
  shownFaces = faces(store.items);
  for (const node of nodes.values()) node.remove();
  nodes = new Map();
  list.style.height = entries.length * HEIGHT + "px";
  const cards = entries.filter((entry) => entry.lane !== "search").length, classes = entries.filter((entry) => entry.one).length;
  $("#count").textContent = classes === store.classes.size ? plural(classes, "class or category", "classes and categories") : `${whole(classes)} of ${plural(store.classes.size, "class or category", "classes and categories")}`;
  $("#none").hidden = cards > 0 || entries.length > 0;
  $("#resort").hidden = store.sorted || $("#order").value !== "queue";
  draw();
}
function draw() {
  const from = Math.max(0, Math.floor(scroll.scrollTop / HEIGHT) - MARGIN_ENTRIES), to = Math.min(entries.length, Math.ceil((scroll.scrollTop + scroll.clientHeight) / HEIGHT) + MARGIN_ENTRIES);
  for (const [at, node] of nodes) if (at < from || at >= to) { node.remove(); nodes.delete(at); }
  for (let at = from; at < to; at++) {
    let node = nodes.get(at);
    if (!node) {
      node = entryNode(entries[at]);
      node.id = "entry-" + at;
      node.style.transform = `translateY(${at * HEIGHT}px)`;
      node.setAttribute("aria-posinset", at + 1);
      node.setAttribute("aria-setsize", entries.length);
      nodes.set(at, node);
      const after = [...nodes.keys()].filter((other) => other > at).sort((a, b) => a - b)[0];
      list.insertBefore(node, after === undefined ? null : nodes.get(after));
    }
    if (entries[at].lane === "head") continue;
    const here = sameView(entries[at].view, store.view);
    node.setAttribute("aria-selected", String(here));
    if (here) list.setAttribute("aria-activedescendant", node.id);
  }
}
const indexOfView = () => entries.findIndex((entry) => sameView(entry.view, store.view));
function reveal() {
  const at = indexOfView();
  if (at >= 0 && at * HEIGHT < scroll.scrollTop) scroll.scrollTop = at * HEIGHT;
  else if (at >= 0 && (at + 1) * HEIGHT > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = (at + 1) * HEIGHT - scroll.clientHeight;
  draw();
}
/** The next or the previous entry. */
export function goBy(step) {
  if (!entries.length) return;
  const at = indexOfView(), from = last === null ? -1 : entries.findIndex((entry) => sameView(entry.view, last));
  if (at < 0 && from >= 0) { show(last); return; } // back to where one was before a lasso, or what is most like an item
  let to = at < 0 ? (step > 0 ? 0 : entries.length - 1) : at + step;
  if (entries[to]?.lane === "head") to += step; // a head is no place
  show(entries[Math.max(0, Math.min(entries.length - 1, to))].view);
}
/** Go to a class, whatever filter hides it. */
export function openClass(code) {
  if (!store.classes.has(code)) return null;
  if (!entries.some((entry) => entry.view.code === code)) clearFilters();
  return show({ kind: "class", code });
}

// ---------------------------------------------------------------- search and filters
let searching = 0, found = Promise.resolve();
/** Names at once; items by id and text as soon as the source has answered. */
async function search() {
  const typed = $("#search").value.trim(), turn = ++searching;
  hits = null;
  rebuild();
  if (typed.length < 2) return;
  await new Promise((done) => setTimeout(done, store.source.mode === "server" ? 180 : 0));
  if (turn !== searching) return;
  const answer = await store.source.search(typed).catch(() => null);
  if (turn !== searching) return;
  hits = answer;
  rebuild();
}
/** Go to what was searched for: an item of that id, a class of that name, else the items. */
export async function openFound() {
  const typed = $("#search").value.trim(), named = () => entries.find((entry) => entry.one) ?? entries[0];
  const isName = named()?.one?.name.toLowerCase().includes(typed.toLowerCase()); // gone to at once: the next key is about it
  if (!isName) await found;
  const row = isName ? undefined : await rowOfId(typed);
  if (row !== undefined) await goToRow(row);
  else if (named()) show(named().view);
}
/** Row of the item whose id, or the end of it after a slash, was typed. */
async function rowOfId(typed) {
  const rows = (hits?.rows ?? []).slice(0, MOST_HITS), facts = await describeRows(rows).catch(() => []);
  return (facts.find((one) => one.id === typed) ?? facts.find((one) => one.id.endsWith(`/${typed}`)))?.row;
}
/** Show an item where it is, with the keyboard's place on it. */
export async function goToRow(row) {
  await show(store.items.status[row] === JUNK ? { kind: "lane", status: "junk" } : { kind: "class", code: store.items.code[row] });
  const at = shownRows().indexOf(row);
  if (at >= 0) moveTo(at);
  else show({ kind: "lasso", rows: Int32Array.from([row]), like: true }); // what a file has no room to show among its class
}
function setStatus(value) {
  statusFilter = value;
  for (const one of $("#status").children) one.setAttribute("aria-pressed", String(one.value === value));
}
export function clearFilters() {
  $("#search").value = ""; $("#size").value = "1-"; hits = null; searching++;
  setStatus("all");
  rebuild();
}
function countFilters() {
  const counts = { known: 0, novel: 0, unsure: 0 };
  for (const one of store.classes.values()) if (one.size > 0) counts[laneOf(one)]++;
  for (const one of $("#status").children) if (one.value in counts && one.value !== "unsure") one.lastChild.textContent = whole(counts[one.value]);
}
export function startQueue() {
  scroll = $("#entries"); list = $("#list");
  for (const value of ["all", "novel", "unsure", "known"])
    $("#status").append(el("button", { type: "button", value, "aria-pressed": String(value === "all"), onclick: () => { setStatus(value); rebuild(); } }, value[0].toUpperCase() + value.slice(1), el("small")));
  scroll.addEventListener("scroll", onceAFrame(draw), { passive: true });
  new ResizeObserver(draw).observe(scroll);
  $(".tools").addEventListener("submit", (event) => event.preventDefault());
  $("#search").addEventListener("input", () => { found = search(); });
  for (const id of ["#size", "#order"]) $(id).addEventListener("change", rebuild);
  $("#clear").addEventListener("click", () => { clearFilters(); $("#search").focus(); });
  $("#resort").addEventListener("click", sortAnew);
  on("state", () => { countFilters(); rebuild(); });
  on("view", () => {
    if (indexOfView() >= 0) last = store.view;
    reveal();
  });
}
