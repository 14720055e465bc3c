// The header and the two charts.
function header() {
  $("#title").textContent = META.title;
  const { known, novel } = META.counts, beside = " beside " + plural(known, "known class", "known classes");
  $("#headline").append(novel ? el("em", { text: plural(novel, "novel category", "novel categories") }) : "No novel category", beside);
  $("#lead").textContent = META.lead;

  const bar = el("div", { class: "bar", role: "img", "aria-label": STATUS.map((s) => `${s} ${percent(META.status[s] / META.n)}`).join(", ") });
  const keys = el("ul", { class: "keys" });
  for (const status of ["novel", "unsure", "known"]) {
    const n = META.status[status];
    if (n) { const part = el("i", { class: status }); part.style.flex = String(n); bar.append(part); }
    keys.append(el("li", { class: status }, el("span", { class: "dot" }), el("span", { text: status[0].toUpperCase() + status.slice(1) }),
      el("small", { text: plural(n, "item") + " · " + percent(n / META.n) })));
  }
  $("#shares").append(bar, keys);

  const interval = META.low === null ? "" : ` ${whole(META.low)}–${whole(META.high)}`;
  const facts = [["Items", whole(META.n)], ["Known classes", whole(known)], ["Novel categories", whole(novel)],
    ["Estimated classes", META.k === null ? null : whole(META.k), interval], ["Imbalance λ", META.imbalance >= 100 ? whole(Math.round(META.imbalance)) : String(META.imbalance), "", "Size of the largest class or category over that of the smallest"],
    [`Marked ${META.marked} %`, META.right === null ? null : META.right.join("–"), " % right", META.confidences],
    ["Seed", META.seed === null ? null : String(META.seed)], ["ltgcd", META.version]];
  for (const [name, value, note, title] of facts.filter((fact) => fact[1] !== null))
    $("#facts").append(el("div", { title }, el("dt", { text: name }), el("dd", { text: value }, note ? el("small", { text: note }) : null)));
}

/** Draw a chart at the size of its box, and again whenever that changes. */
function chart(id, draw) {
  const box = $(`#${id} .plot`);
  new ResizeObserver(() => { if (box.clientWidth > 40) { box.replaceChildren(); draw(box, box.clientWidth, box.clientHeight); } }).observe(box);
}
const ticksOf = (low, high, count) => {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw), ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-6; t += step) ticks.push(Number(t.toPrecision(10)));
  return ticks;
};

function sizes() {
  const ranked = CATS.map((cat, at) => ({ cat, at })).filter(({ cat }) => cat.size > 0).sort((a, b) => b.cat.size - a.cat.size);
  const rare = ranked.filter(({ cat }) => cat.size <= 5).length, single = ranked.filter(({ cat }) => cat.size === 1).length;
  $("#sizes p").textContent = !ranked.length ? "" : `From ${whole(ranked[0].cat.size)} down to ${plural(ranked.at(-1).cat.size, "item")}` +
    (rare ? `; ${whole(rare)} of ${whole(ranked.length)} have five or fewer` : "") + (single ? `, ${whole(single)} of these just one` : "") + ".";
  chart("sizes", (box, width, height) => {
    if (!ranked.length) { box.append(el("p", { text: "Every item is unsure." })); return; }
    const [left, right, top, bottom] = [34, 4, 8, 20], high = Math.log10(Math.max(ranked[0].cat.size, 2)) * 1.02, low = Math.log10(0.6);
    const y = (n) => top + (height - top - bottom) * (1 - (Math.log10(n) - low) / (high - low)), step = (width - left - right) / ranked.length;
    const root = svg("svg", { role: "img", "aria-label": "Sizes of classes and categories by rank, logarithmic. " + $("#sizes p").textContent });
    const every = high > 5 ? 2 : 1;
    for (let power = 0; power <= high; power++) {
      root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power) }));
      if (power % every === 0) root.append(svg("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, power < 3 ? 10 ** power : 10 ** (power - 3) + "k"));
    }
    root.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
    const bars = step >= 2.5, gap = step > 5 ? 1.5 : step > 3 ? 1 : .5;
    ranked.forEach(({ cat, at }, rank) => {
      const x = left + rank * step, wide = Math.min(step - gap, 34);
      const mark = bars ? svg("rect", { x: x + (step - wide) / 2, y: y(cat.size), width: wide, height: height - bottom - y(cat.size), rx: Math.min(2, wide / 3) })
        : svg("circle", { cx: x + step / 2, cy: y(cat.size), r: 1.8 });
      mark.setAttribute("class", "mark " + cat.status);
      mark.dataset.at = at;
      root.append(mark);
    });
    for (const tick of ticksOf(1, ranked.length, Math.max(2, Math.min(8, width / 90))).filter((t) => t > 1 && t % 1 === 0).concat(1))
      root.append(svg("text", { x: left + (tick - .5) * step, y: height - 4, "text-anchor": "middle" }, whole(tick)));
    root.addEventListener("pointermove", (event) => {
      const rank = Math.floor((event.clientX - root.getBoundingClientRect().left - left) / step);
      if (!ranked[rank]) { hideTip(); return; }
      const { cat } = ranked[rank];
      showTip(event.clientX, event.clientY, el("div", {}, el("b", { text: cat.name, dir: "auto" }), el("p", { text: `rank ${rank + 1} · ${plural(cat.size, "item")} · ${cat.status}` })));
    });
    root.addEventListener("pointerleave", hideTip);
    root.addEventListener("click", (event) => { const mark = event.target.closest(".mark"); if (mark) openCard(Number(mark.dataset.at)); });
    box.append(root);
  });
}

function kCurve() {
  const k = DATA.k, note = $("#kcurve p");
  $("#kcurve").hidden = !k; // the number of classes was given
  if (!k) return;
  note.textContent = `Estimate ${whole(META.k)}` + (META.low === null ? "" : `; 90 % interval ${whole(META.low)} to ${whole(META.high)}`);
  chart("kcurve", (box, width, height) => {
    const [left, right, top, bottom] = [8, 8, 20, 34], points = k.curve;
    const ks = [...points.map((p) => p[0]), META.k, META.low ?? META.k, META.high ?? META.k], scores = points.map((p) => p[1]);
    let [first, last] = [Math.min(...ks), Math.max(...ks)];
    if (first === last) { first -= 1; last += 1; }
    const [worst, best] = scores.length ? [Math.min(...scores), Math.max(...scores)] : [0, 1];
    const x = (v) => left + (width - left - right) * (v - first) / (last - first), y = (v) => top + (height - top - bottom) * (best > worst ? 1 - (v - worst) / (best - worst) : .5);
    const root = svg("svg", { role: "img", "aria-label": `${k.score} against the number of classes. ${note.textContent}` });
    if (META.low !== null) root.append(svg("rect", { class: "band", x: x(META.low), width: Math.max(2, x(META.high) - x(META.low)), y: top - 6, height: height - top - bottom + 6 }));
    root.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
    if (k.n_old !== null && k.n_old >= first && k.n_old <= last) {
      root.append(svg("line", { class: "old", x1: x(k.n_old), x2: x(k.n_old), y1: top - 6, y2: height - bottom }));
      if (Math.abs(x(k.n_old) - x(META.k)) > 76) root.append(svg("text", { x: x(k.n_old), y: top - 10, "text-anchor": x(k.n_old) < 30 ? "start" : "middle" }, "known"));
    }
    if (points.length) root.append(svg("path", { class: "curve", d: points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("") }));
    root.append(svg("line", { class: "best", x1: x(META.k), x2: x(META.k), y1: top - 6, y2: height - bottom }));
    root.append(svg("text", { class: "strong", x: Math.max(36, Math.min(width - 36, x(META.k))), y: top - 10, "text-anchor": "middle" }, "estimate " + whole(META.k)));
    for (const tick of ticksOf(first, last, Math.max(2, Math.min(6, width / 80))).filter((t) => t % 1 === 0))
      root.append(svg("text", { x: x(tick), y: height - bottom + 14, "text-anchor": "middle" }, whole(tick)));
    root.append(svg("text", { x: width / 2, y: height - 3, "text-anchor": "middle" }, `number of classes (curve: ${k.score})`));
    root.addEventListener("pointermove", (event) => {
      if (!points.length) return;
      const at = first + (event.clientX - root.getBoundingClientRect().left - left) / (width - left - right) * (last - first);
      const near = points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
      showTip(event.clientX, event.clientY, el("div", {}, el("b", { text: plural(near[0], "class", "classes") }), el("p", { text: `${k.score}: ${near[1].toPrecision(4)}` })));
    });
    root.addEventListener("pointerleave", hideTip);
    box.append(root);
  });
}
