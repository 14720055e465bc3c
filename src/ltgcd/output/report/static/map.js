// The map: like items side by side. Zoom, pan, hover, a click opens a class, a lasso selects items, drawn or not.
import { $, css, el, hideTip, middleOut, onceAFrame, percentSure, plural, showTip, toast, whole } from "./dom.js";
import { cursorRow, goTo } from "./grid.js";
import { DRAWN, JUNK, STATUS } from "./items.js";
import { canvasLayer } from "./map-canvas.js";
import { glLayer } from "./map-gl.js";
import { extent, inside, namePlaces, nearestPoint, pointIndex } from "./map-points.js";
import { openClass } from "./queue.js";
import { describeRows, nameOf, on, select, show, store, whereIs } from "./store.js";

const FAR = 80; // how far one can zoom in
let box, canvas, over, layer, names = new Map(), around = extent([]), index = null, drawn = null; // drawn: rows of the points, null for all
let width = 0, height = 0, view = { scale: 1, x: 0, y: 0 }, byClass = false, hovered = -1, path = null, lassoing = false;
let points = { xy: new Float32Array() };

const unit = () => Math.min((width - 30) / around.wide, (height - 30) / around.tall) * view.scale;
const toScreen = (px, py) => [(px - view.x) * unit() + width / 2, (py - view.y) * unit() + height / 2];
const toMap = (sx, sy) => [(sx - width / 2) / unit() + view.x, (sy - height / 2) / unit() + view.y];
/** What stands out: the class that is looked at, the unsure items, or what else the grid shows, and the selection. */
function active() {
  const { kind, code, status } = store.view;
  return kind === "class" ? code : status === "unsure" ? -2 : isListed() ? -3 : -1;
}

/** Whether the grid shows items that are no class and no status of the map's own: odd ones, junk, what was found, caught or is most like one. */
function isListed() {
  const { kind, status } = store.view;
  return ["lasso", "search"].includes(kind) || (kind === "lane" && status !== "unsure");
}
/** The point of an item; -1 for one that is not drawn. */
function pointOf(row) {
  if (!drawn || row === null) return row ?? -1;
  let low = 0, high = drawn.length;
  while (low < high) { const middle = (low + high) >> 1; if (drawn[middle] < row) low = middle + 1; else high = middle; }
  return drawn[low] === row ? low : -1;
}

// ---------------------------------------------------------------- what is drawn
function place() {
  const { n, xy, flags } = store.items;
  let all = true;
  for (let i = 0; i < n && all; i++) all = (flags[i] & DRAWN) !== 0;
  drawn = null;
  if (!all) { const rows = []; for (let i = 0; i < n; i++) if (flags[i] & DRAWN) rows.push(i); drawn = Int32Array.from(rows); }
  points = { xy: drawn ? Float32Array.from({ length: 2 * drawn.length }, (_, i) => xy[2 * drawn[i >> 1] + (i & 1)]) : xy };
  around = extent(points.xy);
  index = pointIndex(points.xy, around);
  view = { scale: 1, x: around.x, y: around.y };
  layer.place(points.xy);
  const shown = points.xy.length / 2;
  $("#map .caption p").textContent = shown < (store.state.meta?.n ?? n) ? `${whole(shown)} of ${whole(store.state.meta?.n ?? n)} items` : plural(n, "item");
  over.setAttribute("aria-label", `Map of ${whole(shown)} items, like ones side by side. Plus and minus zoom, arrow keys move, 0 shows all. Every class is also in the queue.`);
}
function label() {
  const { code, status } = store.items, n = points.xy.length / 2, codes = drawn ? new Int32Array(n) : code, states = new Uint8Array(n);
  for (let i = 0; i < n; i++) { const row = drawn ? drawn[i] : i; states[i] = status[row]; if (drawn) codes[i] = code[row]; }
  for (const row of store.selection) { const point = pointOf(row); if (point >= 0) states[point] |= 4; }
  if (isListed()) for (const { rows } of store.sections) for (const row of rows) { const point = pointOf(row); if (point >= 0) states[point] |= 8; }
  layer.label(codes, states);
  draw();
}
const draw = onceAFrame(() => {
  if (!width || !store.items) return;
  const n = points.xy.length / 2, ratio = devicePixelRatio || 1;
  const radius = Math.max(1.1, Math.min(3.4, 150 / Math.sqrt(n))) * Math.min(2.2, Math.sqrt(view.scale));
  layer.draw({
    width, height, ratio, x: view.x, y: view.y, unit: unit(), radius, active: active(), byClass,
    tones: ["--known", "--novel", "--unsure", "--junk"].map(css), chosen: css("--chosen"), alpha: n > 12000 ? .62 : .78,
  });
  drawOver(radius);
});
/** Names where there is room, the rings around what is pointed at and where the keyboard stands in the grid, the lasso. */
function drawOver(radius) {
  const context = over.getContext("2d"), ratio = devicePixelRatio || 1, tones = { surface: css("--surface"), novel: css("--novel"), ink: css("--ink") };
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const taken = [], room = Math.max(8, Math.round(width * height / 9000)), chosen = active();
  const wanted = chosen >= 0 ? [chosen] : [...names.keys()].filter((code) => store.classes.has(code))
    .sort((a, b) => store.classes.get(a).known - store.classes.get(b).known || store.classes.get(b).size - store.classes.get(a).size);
  context.font = "600 11.5px " + css("--sans"); context.textAlign = "center"; context.textBaseline = "middle"; context.lineJoin = "round";
  for (const code of wanted) {
    if (!names.has(code) || taken.length >= room) continue;
    const [sx, sy] = toScreen(...names.get(code)), name = middleOut(nameOf(code), 24);
    const half = context.measureText(name).width / 2 + 4, cx = Math.max(half, Math.min(width - half, sx)), boxed = [cx - half, sy - 9, cx + half, sy + 9];
    if (sx < -10 || sx > width + 10 || sy < 10 || sy > height - 6 || taken.some((t) => t[0] < boxed[2] && boxed[0] < t[2] && t[1] < boxed[3] && boxed[1] < t[3])) continue;
    taken.push(boxed);
    context.lineWidth = 3.5; context.strokeStyle = tones.surface; context.strokeText(name, cx, sy);
    context.fillStyle = store.classes.get(code)?.known ? tones.ink : tones.novel; context.fillText(name, cx, sy);
  }
  context.strokeStyle = tones.ink; context.lineWidth = 1.5;
  if (hovered >= 0) { const [sx, sy] = toScreen(points.xy[2 * hovered], points.xy[2 * hovered + 1]); context.beginPath(); context.arc(sx, sy, Math.max(5, radius * 1.8), 0, 6.2832); context.stroke(); }
  const here = store.view.kind === "overview" ? -1 : pointOf(cursorRow());
  if (here >= 0) {
    const [sx, sy] = toScreen(points.xy[2 * here], points.xy[2 * here + 1]);
    context.strokeStyle = css("--focus"); context.lineWidth = 2.5; context.beginPath(); context.arc(sx, sy, Math.max(7, radius * 2.2), 0, 6.2832); context.stroke();
    context.strokeStyle = tones.ink; context.lineWidth = 1.5;
    over.dataset.ring = `${Math.round(sx)} ${Math.round(sy)}`;
  } else delete over.dataset.ring;
  if (path?.length > 1) {
    context.beginPath();
    for (const [px, py] of path) context.lineTo(...toScreen(px, py));
    context.closePath();
    context.globalAlpha = .1; context.fillStyle = tones.ink; context.fill();
    context.globalAlpha = 1; context.setLineDash([4, 3]); context.stroke(); context.setLineDash([]);
  }
}

// ---------------------------------------------------------------- zoom and pan
function zoomTo(scale, sx = width / 2, sy = height / 2) {
  const before = toMap(sx, sy);
  view.scale = Math.max(1, Math.min(FAR, scale));
  const after = toMap(sx, sy);
  view.x += before[0] - after[0]; view.y += before[1] - after[1];
  settle();
}
function settle() {
  const reach = (1 - .6 / view.scale) / 2, clamp = (value, middle, size) => Math.max(middle - size * reach - size / 8, Math.min(middle + size * reach + size / 8, value));
  view.x = view.scale === 1 ? around.x : clamp(view.x, around.x, around.wide);
  view.y = view.scale === 1 ? around.y : clamp(view.y, around.y, around.tall);
  hideTip();
  hovered = -1;
  draw();
}

// ---------------------------------------------------------------- pointing
const found = (sx, sy) => index ? nearestPoint(index, points.xy, ...toMap(sx, sy), 12 / unit()) : -1;
const rowOf = (point) => drawn ? drawn[point] : point;
async function tell(point, x, y) {
  const row = rowOf(point), [facts] = await describeRows([row]), { status, confidence } = store.items;
  if (hovered !== point) return;
  const source = store.state.kind === "image" ? store.source.thumb(row, 192) : null;
  showTip(x, y, source ? el("img", { src: source, alt: "" }) : null, el("div", {}, el("b", { text: whereIs(row), dir: "auto" }),
    facts.text ? el("p", {}, el("q", { text: facts.text.slice(0, 240), dir: "auto" })) : null, el("p", { text: facts.id, dir: "auto" }), el("p", { text: `${STATUS[status[row]]} · ${percentSure(confidence[row] / 255)} confident` })));
}
export function setLasso(wanted) {
  lassoing = wanted;
  path = null;
  $("#lasso").setAttribute("aria-pressed", String(wanted));
  over.classList.toggle("lassoing", wanted);
  draw();
}
/** Select everything inside the lasso, of all items. */
function closeLasso() {
  const rows = path?.length > 3 ? inside(store.items.xy, path) : [];
  setLasso(false);
  if (!rows.length) { toast("No item is inside the lasso."); return; }
  show({ kind: "lasso", rows });
  select(rows, { only: true });
}
/** Go to that very item, in the class that it is in or leans to. */
async function openItem(row) {
  await (store.items.status[row] === JUNK ? show({ kind: "lane", status: "junk" }) : openClass(store.items.code[row]));
  goTo(row);
}
function listen() {
  const fingers = new Map();
  let moved = 0, pinch = 0;
  const spot = (event) => { const rect = over.getBoundingClientRect(); return [event.clientX - rect.left, event.clientY - rect.top]; };
  over.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    moved = 0;
    if (event.pointerType === "mouse" || lassoing) over.setPointerCapture(event.pointerId);
    if (event.shiftKey && !lassoing) setLasso(true);
    if (lassoing) path = [toMap(...spot(event))];
  });
  over.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (last && path) { path.push(toMap(...spot(event))); draw(); return; }
    if (last) {
      const step = [event.clientX - last[0], event.clientY - last[1]];
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
      moved += Math.abs(step[0]) + Math.abs(step[1]);
      if (fingers.size === 2) {
        const [a, b] = [...fingers.values()], distance = Math.hypot(a[0] - b[0], a[1] - b[1]), rect = over.getBoundingClientRect();
        if (pinch) zoomTo(view.scale * distance / pinch, (a[0] + b[0]) / 2 - rect.left, (a[1] + b[1]) / 2 - rect.top);
        pinch = distance;
      } else if (moved > 4 && view.scale > 1) { view.x -= step[0] / unit(); view.y -= step[1] / unit(); settle(); }
      return;
    }
    const point = found(...spot(event));
    if (point !== hovered) { hovered = point; draw(); }
    if (point >= 0) tell(point, event.clientX, event.clientY); else hideTip();
  });
  const lift = (event) => { fingers.delete(event.pointerId); pinch = 0; };
  over.addEventListener("pointercancel", lift);
  over.addEventListener("pointerup", (event) => {
    lift(event);
    if (path) { closeLasso(); return; }
    if (moved > 6) return;
    const point = found(...spot(event));
    if (point < 0) return;
    if (event.pointerType === "touch") { hovered = point; draw(); tell(point, event.clientX, event.clientY); return; }
    hideTip();
    openItem(rowOf(point));
  });
  over.addEventListener("pointerleave", () => { if (hovered >= 0) { hovered = -1; draw(); } hideTip(); });
  over.addEventListener("dblclick", (event) => zoomTo(view.scale * 2, ...spot(event)));
  over.addEventListener("wheel", (event) => { event.preventDefault(); zoomTo(view.scale * Math.exp(-event.deltaY * .0022), ...spot(event)); }, { passive: false });
  over.addEventListener("keydown", (event) => {
    const pan = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (pan && view.scale > 1) { view.x += pan[0] * 40 / unit(); view.y += pan[1] * 40 / unit(); settle(); }
    else if (event.key === "+" || event.key === "=") zoomTo(view.scale * 1.5);
    else if (event.key === "-") zoomTo(view.scale / 1.5);
    else if (event.key === "0") zoomTo(1);
    else if (event.key === "Escape" && lassoing) setLasso(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}
function legend() {
  const { counts } = store.state;
  $("#legend").replaceChildren(...(byClass ? [el("span", { text: "A colour for each class or category, some used more than once; grey is unsure." })]
    : STATUS.filter((status) => counts[status]).map((status) => el("span", {}, el("i", { class: "dot " + status }), status))));
}
export function startMap() {
  box = $("#map .canvas"); canvas = $("#points"); over = $("#over");
  layer = glLayer(canvas);
  if (!layer) { // a canvas that was asked for WebGL once gives nothing else
    canvas.replaceWith(canvas = canvas.cloneNode());
    layer = canvasLayer(canvas);
  }
  canvas.dataset.layer = layer.name;
  listen();
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zoomTo({ in: view.scale * 1.6, out: view.scale / 1.6, all: 1 }[button.dataset.zoom]));
  for (const button of document.querySelectorAll("[data-colour]")) button.addEventListener("click", () => {
    byClass = button.dataset.colour === "category";
    for (const other of document.querySelectorAll("[data-colour]")) other.setAttribute("aria-pressed", String(other === button));
    legend();
    draw();
  });
  $("#lasso").addEventListener("click", () => setLasso(!lassoing));
  new ResizeObserver(() => {
    width = box.clientWidth; height = box.clientHeight;
    for (const one of [canvas, over]) { one.width = Math.max(1, width * (devicePixelRatio || 1)); one.height = Math.max(1, height * (devicePixelRatio || 1)); }
    draw();
  }).observe(box);
  let placed = null;
  on("items", () => { if (store.items.xy !== placed) { placed = store.items.xy; place(); } names = namePlaces(store.items); legend(); label(); });
  on("selection", onceAFrame(label));
  on("rows", onceAFrame(label));
  on("view theme cursor", draw);
  on("lasso", () => { document.body.classList.remove("no-map"); document.body.classList.toggle("map-open", innerWidth < 900); over.focus(); setLasso(true); });
}
