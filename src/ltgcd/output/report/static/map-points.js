// Points of the map without any drawing: where they are, which is nearest to a place, which are inside a polygon.

/** The middle and half the extent of all points, so that a view can fit them; `xy` is x0, y0, x1, y1, … */
export function extent(xy) {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < xy.length; i += 2) {
    if (xy[i] < left) left = xy[i];
    if (xy[i] > right) right = xy[i];
    if (xy[i + 1] < top) top = xy[i + 1];
    if (xy[i + 1] > bottom) bottom = xy[i + 1];
  }
  if (!xy.length) [left, right, top, bottom] = [0, 1, 0, 1];
  return { x: (left + right) / 2, y: (top + bottom) / 2, wide: Math.max(right - left, 1e-6), tall: Math.max(bottom - top, 1e-6), left, top };
}
const CELLS = 256; // squares a side of the index

/** Points sorted into squares, so that the nearest one is found among a few. */
export function pointIndex(xy, box) {
  const n = xy.length / 2, side = Math.max(box.wide, box.tall) / CELLS;
  const squareOf = (i) => Math.min(CELLS - 1, Math.max(0, Math.floor((xy[2 * i + 1] - box.top) / side))) * CELLS + Math.min(CELLS - 1, Math.max(0, Math.floor((xy[2 * i] - box.left) / side)));
  const starts = new Uint32Array(CELLS * CELLS + 1), rows = new Uint32Array(n);
  for (let i = 0; i < n; i++) starts[squareOf(i) + 1]++;
  for (let s = 0; s < CELLS * CELLS; s++) starts[s + 1] += starts[s];
  const next = starts.slice();
  for (let i = 0; i < n; i++) rows[next[squareOf(i)]++] = i;
  return { starts, rows, side, box };
}
/** The point nearest to a place, within a distance; -1 for none. */
export function nearestPoint({ starts, rows, side, box }, xy, x, y, reach) {
  const clamp = (v) => Math.min(CELLS - 1, Math.max(0, Math.floor(v / side)));
  const [x0, x1, y0, y1] = [clamp(x - reach - box.left), clamp(x + reach - box.left), clamp(y - reach - box.top), clamp(y + reach - box.top)];
  let best = -1, least = reach * reach;
  for (let cy = y0; cy <= y1; cy++) for (let at = starts[cy * CELLS + x0]; at < starts[cy * CELLS + x1 + 1]; at++) {
    const i = rows[at], d = (xy[2 * i] - x) ** 2 + (xy[2 * i + 1] - y) ** 2;
    if (d <= least) { least = d; best = i; }
  }
  return best;
}
/** Rows of all points inside a polygon ([x, y] corners), by the even-odd rule. */
export function inside(xy, polygon) {
  const box = extent(polygon.flat()), right = box.left + box.wide, bottom = box.top + box.tall, found = [];
  for (let i = 0; i < xy.length / 2; i++) {
    const x = xy[2 * i], y = xy[2 * i + 1];
    if (x < box.left || x > right || y < box.top || y > bottom) continue;
    let odd = false;
    for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
      const [ax, ay] = polygon[a], [bx, by] = polygon[b];
      if ((ay > y) !== (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax) odd = !odd;
    }
    if (odd) found.push(i);
  }
  return Int32Array.from(found);
}
/** A place for each class's name: its point that is nearest to the median of all. */
export function namePlaces({ n, xy, code, status }) {
  const groups = new Map();
  for (let i = 0; i < n; i++) if (status[i] < 2) { if (!groups.has(code[i])) groups.set(code[i], []); groups.get(code[i]).push(i); }
  const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
  return new Map([...groups].map(([one, rows]) => {
    const some = rows.length > 2000 ? rows.filter((_, at) => at % Math.ceil(rows.length / 2000) === 0) : rows;
    const mx = middle(some.map((i) => xy[2 * i])), my = middle(some.map((i) => xy[2 * i + 1]));
    const best = some.reduce((a, b) => (xy[2 * b] - mx) ** 2 + (xy[2 * b + 1] - my) ** 2 < (xy[2 * a] - mx) ** 2 + (xy[2 * a + 1] - my) ** 2 ? b : a);
    return [one, [xy[2 * best], xy[2 * best + 1]]];
  }));
}
export const HUES = ["#4e79a7", "#e0812b", "#5a9e4b", "#c94c50", "#8a6bb1", "#a0715e", "#d276ac", "#3d9a96", "#b3a12d", "#6f7fb8", "#cf6d4e", "#6b9f9c"];
