// Two charts: sizes by rank, and the evidence for the number of classes.
import { $, el, hideTip, plural, showTip, svg, whole } from "./dom.js";

const redraws = new Map();
/** Draw a chart at the size of its box, and again whenever that changes. */
function chart(id, draw) {
  const box = $(`#${id} .plot`), again = () => { if (box.clientWidth > 40) { box.replaceChildren(); draw(box, box.clientWidth, box.clientHeight); } };
  redraws.get(id)?.disconnect();
  const watch = new ResizeObserver(again);
  watch.observe(box);
  redraws.set(id, watch);
}
export function ticksOf(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw), ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-6; t += step) ticks.push(Number(t.toPrecision(10)));
  return ticks;
}

/** Sizes of classes by rank on a logarithmic scale; a click on one opens it. */
export function drawSizes(classes, open) {
  const ranked = [...classes].filter((one) => one.size > 0).sort((a, b) => b.size - a.size);
  const rare = ranked.filter((one) => one.size <= 5).length, single = ranked.filter((one) => one.size === 1).length;
  const note = !ranked.length ? "" : `From ${whole(ranked[0].size)} down to ${plural(ranked.at(-1).size, "item")}` +
    (rare ? `; ${whole(rare)} of ${whole(ranked.length)} ${rare === 1 ? "has" : "have"} five or fewer` : "") + (single ? `, ${whole(single)} of these just one` : "") + ".";
  $("#sizes p").textContent = note;
  chart("sizes", (box, width, height) => {
    if (!ranked.length) { box.append(el("p", { text: "Every item is unsure." })); return; }
    const [left, right, top, bottom] = [34, 4, 8, 20], high = Math.log10(Math.max(ranked[0].size, 2)) * 1.02, low = Math.log10(0.6);
    const y = (n) => top + (height - top - bottom) * (1 - (Math.log10(n) - low) / (high - low)), step = (width - left - right) / ranked.length;
    const root = svg("svg", { role: "img", "aria-label": "Sizes of classes and categories by rank, logarithmic. " + note });
    const every = high > 5 ? 2 : 1;
    for (let power = 0; power <= high; power++) {
      root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power) }));
      if (power % every === 0) root.append(svg("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, power < 3 ? 10 ** power : 10 ** (power - 3) + "k"));
    }
    root.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
    const bars = step >= 2.5, gap = step > 5 ? 1.5 : step > 3 ? 1 : .5;
    ranked.forEach((one, rank) => {
      const x = left + rank * step, wide = Math.min(step - gap, 34);
      const mark = bars ? svg("rect", { x: x + (step - wide) / 2, y: y(one.size), width: wide, height: height - bottom - y(one.size), rx: Math.min(2, wide / 3) })
        : svg("circle", { cx: x + step / 2, cy: y(one.size), r: 1.8 });
      mark.setAttribute("class", "mark " + (one.known ? "known" : "novel"));
      mark.dataset.code = one.code;
      root.append(mark);
    });
    for (const tick of ticksOf(1, ranked.length, Math.max(2, Math.min(8, width / 90))).filter((t) => t > 1 && t % 1 === 0).concat(1))
      root.append(svg("text", { x: left + (tick - .5) * step, y: height - 4, "text-anchor": "middle" }, whole(tick)));
    root.addEventListener("pointermove", (event) => {
      const rank = Math.floor((event.clientX - root.getBoundingClientRect().left - left) / step), one = ranked[rank];
      if (!one) { hideTip(); return; }
      showTip(event.clientX, event.clientY, el("div", {}, el("b", { text: one.name, dir: "auto" }), el("p", { text: `rank ${rank + 1} · ${plural(one.size, "item")} · ${one.known ? "known" : "novel"}` })));
    });
    root.addEventListener("pointerleave", hideTip);
    root.addEventListener("click", (event) => { const mark = event.target.closest(".mark"); if (mark) { hideTip(); open(Number(mark.dataset.code)); } });
    box.append(root);
  });
}

/** The curve behind the estimate of the class number, with its interval; hidden where the number was given. */
export function drawKCurve(curve, { k, low, high }) {
  const note = $("#kcurve p");
  $("#kcurve").hidden = !curve;
  if (!curve) return;
  note.textContent = `Estimate ${whole(k)}` + (low === null ? "" : `; 90 % interval ${whole(low)} to ${whole(high)}`);
  chart("kcurve", (box, width, height) => {
    const [left, right, top, bottom] = [8, 8, 20, 34], points = curve.curve;
    const ks = [...points.map((p) => p[0]), k, low ?? k, high ?? k], scores = points.map((p) => p[1]);
    let [first, last] = [Math.min(...ks), Math.max(...ks)];
    if (first === last) { first -= 1; last += 1; }
    const [worst, best] = scores.length ? [Math.min(...scores), Math.max(...scores)] : [0, 1];
    const x = (v) => left + (width - left - right) * (v - first) / (last - first), y = (v) => top + (height - top - bottom) * (best > worst ? 1 - (v - worst) / (best - worst) : .5);
    const root = svg("svg", { role: "img", "aria-label": `${curve.score} against the number of classes. ${note.textContent}` });
    if (low !== null) root.append(svg("rect", { class: "band", x: x(low), width: Math.max(2, x(high) - x(low)), y: top - 6, height: height - top - bottom + 6 }));
    root.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
    if (curve.n_old !== null && curve.n_old >= first && curve.n_old <= last) {
      root.append(svg("line", { class: "old", x1: x(curve.n_old), x2: x(curve.n_old), y1: top - 6, y2: height - bottom }));
      if (Math.abs(x(curve.n_old) - x(k)) > 76) root.append(svg("text", { x: x(curve.n_old), y: top - 10, "text-anchor": x(curve.n_old) < 30 ? "start" : "middle" }, "known"));
    }
    if (points.length) root.append(svg("path", { class: "curve", d: points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("") }));
    root.append(svg("line", { class: "best", x1: x(k), x2: x(k), y1: top - 6, y2: height - bottom }));
    root.append(svg("text", { class: "strong", x: Math.max(36, Math.min(width - 36, x(k))), y: top - 10, "text-anchor": "middle" }, "estimate " + whole(k)));
    for (const tick of ticksOf(first, last, Math.max(2, Math.min(6, width / 80))).filter((t) => t % 1 === 0))
      root.append(svg("text", { x: x(tick), y: height - bottom + 14, "text-anchor": "middle" }, whole(tick)));
    root.append(svg("text", { x: width / 2, y: height - 3, "text-anchor": "middle" }, `number of classes (curve: ${curve.score})`));
    root.addEventListener("pointermove", (event) => {
      if (!points.length) return;
      const at = first + (event.clientX - root.getBoundingClientRect().left - left) / (width - left - right) * (last - first);
      const near = points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
      showTip(event.clientX, event.clientY, el("div", {}, el("b", { text: plural(near[0], "class", "classes") }), el("p", { text: `${curve.score}: ${near[1].toPrecision(4)}` })));
    });
    root.addEventListener("pointerleave", hideTip);
    box.append(root);
  });
}
