// The grid: every item of what is looked at, in sections; only the cells in sight are in the document.
import { $, el, onceAFrame, plural, whole } from "./dom.js";
import { fillCell, makeCell } from "./cells.js";
import { emit, on, select, store, toggle } from "./store.js";

const HEAD = 34; // pixels of a section's title
const PAGE = 100_000; // items of a section in the document's height; browsers allow no more than some million pixels
const MARGIN = 400; // pixels above and below the window that are filled, too
const cursor = { at: 0, from: 0 }; // where the keyboard stands, and where a range began
let grid, sheet, scroller, places = { sections: [], height: 0, count: 0 }, cells = new Map(), heads = new Map(), pages = new Map();

// ---------------------------------------------------------------- where everything is
/** Width, height and number in a row of the cells, for a kind of items and a width of the grid. */
export function cellSize(kind, width, zoom, phone) {
  const gap = kind === "text" ? 0 : 5;
  if (kind === "text") return { columns: 1, width, height: phone ? 66 : 46, gap };
  const wanted = kind === "image" ? zoom : 230;
  const columns = phone && kind === "image" ? 3 : Math.max(1, Math.floor((width + gap) / (wanted + gap)));
  const wide = Math.floor((width - (columns - 1) * gap) / columns);
  return { columns, width: wide, height: kind === "image" ? wide : 38, gap };
}
/** Top of each section, and the height of all; sections without items are left out. */
export function layOut(sections, size) {
  let top = 0, first = 0;
  const placed = [];
  for (const section of sections) {
    if (!section.rows.length) continue;
    const lines = Math.ceil(section.rows.length / size.columns), head = top;
    top += HEAD;
    placed.push({ ...section, head, top, first, bottom: top + lines * (size.height + size.gap) });
    top += lines * (size.height + size.gap) + 14;
    first += section.rows.length;
  }
  return { sections: placed, height: top, count: first, size };
}
export function boxOf({ sections, size }, at) {
  const section = sections.findLast((one) => one.first <= at), i = at - section.first;
  return { left: i % size.columns * (size.width + size.gap), top: section.top + Math.floor(i / size.columns) * (size.height + size.gap), section };
}
const rowAt = (at) => { const section = places.sections.findLast((one) => one.first <= at); return section.rows[at - section.first]; };
/** Positions of the cells that a box touches. */
export function within({ sections, size }, { left, top, right, bottom }) {
  const found = [];
  for (const one of sections) {
    if (bottom < one.top || top > one.bottom) continue;
    const from = Math.max(0, Math.floor((top - one.top) / (size.height + size.gap))), to = Math.floor((bottom - one.top) / (size.height + size.gap));
    const start = Math.max(0, Math.floor(left / (size.width + size.gap))), end = Math.min(size.columns - 1, Math.floor(right / (size.width + size.gap)));
    for (let line = from; line <= to; line++) for (let column = start; column <= end; column++) {
      const i = line * size.columns + column;
      if (i < one.rows.length) found.push(one.first + i);
    }
  }
  return found;
}

// ---------------------------------------------------------------- what is in sight
function arrange() {
  const sections = store.sections.map((section) => {
    const page = Math.min(pages.get(section.key) ?? 0, Math.max(0, Math.ceil(section.rows.length / PAGE) - 1));
    return { ...section, all: section.rows.length, page, rows: section.rows.length > PAGE ? section.rows.subarray(page * PAGE, (page + 1) * PAGE) : section.rows };
  });
  const phone = innerWidth < 640;
  places = layOut(sections, cellSize(store.state.kind, grid.clientWidth, store.zoom, phone));
  grid.style.height = places.height + "px";
  cursor.at = Math.max(0, Math.min(cursor.at, places.count - 1));
  cursor.from = Math.max(0, Math.min(cursor.from, places.count - 1));
  for (const [key, head] of heads) if (!places.sections.some((one) => one.key === key)) { head.remove(); heads.delete(key); }
  for (const section of places.sections) drawHead(section);
  draw();
}
function drawHead(section) {
  let head = heads.get(section.key);
  if (!head) { head = el("div", { class: "section" }); heads.set(section.key, head); $("#heads").append(head); }
  head.style.transform = `translateY(${section.head}px)`;
  const parts = [el("h3", { text: section.title ?? plural(section.all, "item") }), section.note ? el("p", { text: section.note }) : null];
  if (section.all > PAGE) {
    const turn = (step) => () => { pages.set(section.key, section.page + step); arrange(); };
    const last = Math.ceil(section.all / PAGE) - 1;
    parts.push(el("span", { class: "pager" }, el("button", { type: "button", text: "‹", "aria-label": "Items before these", disabled: section.page === 0, onclick: turn(-1) }),
      `${whole(section.page * PAGE + 1)}–${whole(Math.min(section.all, (section.page + 1) * PAGE))} of ${whole(section.all)}`,
      el("button", { type: "button", text: "›", "aria-label": "Items after these", disabled: section.page === last, onclick: turn(1) })));
  }
  head.replaceChildren(...parts.filter(Boolean));
}
function draw() {
  if (!places.count) { for (const cell of cells.values()) cell.remove(); cells.clear(); return; }
  const offset = sheet.offsetTop, top = scroller.scrollTop - offset - MARGIN, bottom = scroller.scrollTop - offset + scroller.clientHeight + MARGIN;
  const { kind } = store.state, { size } = places, wanted = new Map();
  for (const at of within(places, { left: 0, right: grid.clientWidth, top, bottom })) wanted.set(rowAt(at), at);
  for (const [row, cell] of cells) if (!wanted.has(row)) { cell.remove(); cells.delete(row); }
  const fresh = [];
  for (const [row, at] of wanted) {
    let cell = cells.get(row);
    if (!cell) { cell = makeCell(row, kind); cells.set(row, cell); fresh.push(cell); }
    const box = boxOf(places, at), place = `translate(${box.left}px,${box.top}px)`;
    if (cell.place !== place) { cell.style.transform = cell.place = place; }
    if (cell.wide !== size.width || cell.tall !== size.height) { cell.wide = size.width; cell.tall = size.height; cell.style.width = size.width + "px"; cell.style.height = size.height + "px"; }
    cell.at = at;
    dress(cell, row);
  }
  grid.append(...fresh);
}
function dress(cell, row) {
  fillCell(cell, row, store.state.kind);
  const selected = String(store.selection.has(row)), here = cell.at === cursor.at;
  if (cell.getAttribute("aria-selected") !== selected) cell.setAttribute("aria-selected", selected);
  if (cell.classList.contains("here") !== here) cell.classList.toggle("here", here);
  cell.id = "item-" + row;
  cell.setAttribute("aria-posinset", cell.at + 1);
  cell.setAttribute("aria-setsize", places.count);
  if (here) grid.setAttribute("aria-activedescendant", cell.id);
}
const redress = () => { for (const [row, cell] of cells) dress(cell, row); };

// ---------------------------------------------------------------- keyboard
export const cursorRow = () => places.count ? rowAt(cursor.at) : null;
export const gridCount = () => places.count;
/** Pixels at the lower end that the bar of the selection covers. */
const below = () => 12 + ($("#picked").hidden ? 0 : $("#picked").offsetHeight + 14);
/** Move the keyboard's place, and with `range` select what is passed. */
export function moveTo(at, { range = false, focus = true } = {}) {
  if (!places.count) return;
  cursor.at = Math.max(0, Math.min(places.count - 1, at));
  if (range) selectRange(cursor.from, cursor.at); else cursor.from = cursor.at;
  const { top } = boxOf(places, cursor.at), y = top + sheet.offsetTop, bar = $("#actions").offsetHeight + 12;
  if (y - bar < scroller.scrollTop) scroller.scrollTop = y - bar;
  else if (y + places.size.height + below() > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + places.size.height + below() - scroller.clientHeight;
  draw();
  if (focus) grid.focus({ preventScroll: true });
  emit("cursor");
}
/** Go to an item, whatever page of its section it is on; false where the grid does not have it. */
export function goTo(row) {
  const section = store.sections.find((one) => one.rows.includes(row)), i = section?.rows.indexOf(row) ?? -1;
  if (i < 0) return false;
  if (section.rows.length > PAGE) { pages.set(section.key, Math.floor(i / PAGE)); arrange(); }
  moveTo(places.sections.find((one) => one.key === section.key).first + i % PAGE);
  return true;
}
export function step(key, range) {
  const { columns, height, gap } = places.size ?? {}, screen = Math.max(1, Math.floor(scroller.clientHeight / (height + gap)) - 1) * columns;
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -screen, PageDown: screen, Home: -Infinity, End: Infinity }[key];
  if (by === undefined || !places.count) return false;
  moveTo(key === "Home" ? 0 : key === "End" ? places.count - 1 : cursor.at + by, { range });
  return true;
}
/** The row after or before another in the grid, for the detail of an item. */
export function neighbourInGrid(row, by) {
  const at = places.sections.flatMap((one) => Array.from(one.rows)).indexOf(row) + by;
  if (at < 0 || at >= places.count) return null;
  moveTo(at, { focus: false });
  return rowAt(at);
}
function selectRange(a, b) {
  const rows = [];
  for (let at = Math.min(a, b); at <= Math.max(a, b); at++) rows.push(rowAt(at));
  select(rows);
}
export function toggleHere() {
  if (!places.count) return;
  cursor.from = cursor.at;
  toggle(rowAt(cursor.at));
}

// ---------------------------------------------------------------- mouse
function listen(open) {
  const frame = el("div", { class: "frame", hidden: true });
  let start = null, before = null, last = null;
  const place = (event) => { const box = grid.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  grid.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch") return;
    start = place(event); before = new Set(store.selection); last = null;
  });
  addEventListener("pointermove", (event) => {
    if (!start) return;
    const [x, y] = place(event);
    if (!last && Math.hypot(x - start[0], y - start[1]) < 6) return;
    if (!last) { grid.append(frame); frame.hidden = false; document.body.classList.add("dragging"); }
    last = [x, y];
    const box = { left: Math.max(0, Math.min(x, start[0])), top: Math.min(y, start[1]), right: Math.max(x, start[0]), bottom: Math.max(y, start[1]) };
    frame.style.transform = `translate(${box.left}px,${box.top}px)`;
    frame.style.width = box.right - box.left + "px"; frame.style.height = box.bottom - box.top + "px";
    select([...before, ...within(places, box).map(rowAt)], { only: true });
    const edge = scroller.getBoundingClientRect();
    if (event.clientY > edge.bottom - 30) scroller.scrollTop += 18; else if (event.clientY < edge.top + 70) scroller.scrollTop -= 18;
  });
  addEventListener("pointerup", () => { setTimeout(() => { start = last = null; }); frame.hidden = true; document.body.classList.remove("dragging"); });
  grid.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell");
    if (!cell || last) return;
    const row = Number(cell.dataset.row);
    cursor.at = cell.at;
    if (event.shiftKey) selectRange(cursor.from, cursor.at);
    else { cursor.from = cursor.at; toggle(row); }
    grid.focus({ preventScroll: true });
    redress();
    emit("cursor");
  });
  grid.addEventListener("dblclick", (event) => { const cell = event.target.closest(".cell"); if (cell) open(Number(cell.dataset.row)); });
}

export function startGrid(open) {
  grid = $("#grid"); sheet = $("#sheet"); scroller = $("#centre");
  const redraw = onceAFrame(draw), refresh = onceAFrame(redress);
  scroller.addEventListener("scroll", redraw, { passive: true });
  let width = 0;
  new ResizeObserver(() => { if (grid.clientWidth !== width) { width = grid.clientWidth; if (store.state) arrange(); } else redraw(); }).observe(scroller);
  listen(open);
  on("view", () => { cursor.at = cursor.from = 0; pages = new Map(); scroller.scrollTop = 0; });
  on("rows zoom", arrange);
  on("selection facts items", refresh);
}
