// The map: points on a canvas, names where there is room, hover, zoom and pan.
const map = (() => {
  const box = $("#map .canvas"), canvas = $("#map canvas"), hint = $("#map .hint"), context = canvas.getContext("2d");
  const HUES = ["#4e79a7", "#e0812b", "#5a9e4b", "#c94c50", "#8a6bb1", "#a0715e", "#d276ac", "#3d9a96", "#b3a12d", "#6f7fb8", "#cf6d4e", "#6b9f9c"];
  const n = ITEMS.n, { x: X, y: Y, category, status } = POINTS;
  let width = 0, height = 0, view = { scale: 1, x: 0, y: 0 }, colour = "status", active = null, over = -1, waiting = false;
  // Novel points lie on top of unsure ones, and those on top of the known.
  const layer = [0, 2, 1], order = Uint32Array.from({ length: n }, (_, i) => i).sort((a, b) => layer[status[a]] - layer[status[b]] || a - b);
  const byCategory = new Map();
  for (let i = 0; i < n; i++) { if (status[i] === 2) continue; if (!byCategory.has(category[i])) byCategory.set(category[i], []); byCategory.get(category[i]).push(i); }
  const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
  const places = new Map([...byCategory].map(([cat, rows]) => {
    const [mx, my] = [middle(rows.map((i) => X[i])), middle(rows.map((i) => Y[i]))];
    const best = rows.reduce((a, b) => (X[b] - mx) ** 2 + (Y[b] - my) ** 2 < (X[a] - mx) ** 2 + (Y[a] - my) ** 2 ? b : a);
    return [cat, [X[best], Y[best]]];
  }));
  const span = (values) => Math.max(1, 2 * values.reduce((most, v) => Math.max(most, Math.abs(v - 32767.5)), 0)), wide = span(X), tall = span(Y);
  const unit = () => Math.min((width - 28) / wide, (height - 28) / tall) * view.scale;
  const toScreen = (px, py) => [(px - 32767.5 - view.x) * unit() + width / 2, (py - 32767.5 - view.y) * unit() + height / 2];
  const grouped = {};
  /** Points of one colour together: by status code, or by the hue of the category. */
  function groups() {
    if (grouped[colour]) return grouped[colour];
    const found = new Map();
    for (const i of order) {
      const tone = colour === "category" && status[i] !== 2 ? HUES[category[i] % HUES.length] : status[i];
      if (!found.has(tone)) found.set(tone, []);
      found.get(tone).push(i);
    }
    return grouped[colour] = found;
  }
  const belongs = (i) => active === "unsure" ? status[i] === 2 : category[i] === active;

  function draw() {
    waiting = false;
    const ratio = devicePixelRatio || 1, k = unit(), ox = width / 2 - (32767.5 + view.x) * k, oy = height / 2 - (32767.5 + view.y) * k;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const tones = [css("--known"), css("--novel"), css("--unsure")];
    const radius = Math.max(1.1, Math.min(3.4, 150 / Math.sqrt(n))) * Math.min(2.2, Math.sqrt(view.scale)), square = n > 12000;
    const paint = (i, r) => {
      const sx = X[i] * k + ox, sy = Y[i] * k + oy;
      if (sx < -5 || sy < -5 || sx > width + 5 || sy > height + 5) return;
      if (square && r < 2.2) context.fillRect(sx - r, sy - r, 2 * r, 2 * r);
      else { context.moveTo(sx + r, sy); context.arc(sx, sy, r, 0, 6.2832); }
    };
    for (const [tone, rows] of groups()) {
      context.fillStyle = typeof tone === "number" ? tones[tone] : tone;
      context.globalAlpha = active !== null ? .16 : n > 12000 ? .62 : .78;
      context.beginPath();
      for (const i of rows) paint(i, radius);
      context.fill();
    }
    if (active !== null) {
      context.globalAlpha = 1;
      context.fillStyle = active === "unsure" ? tones[2] : tones[STATUS.indexOf(CATS[active].status)];
      context.beginPath();
      for (const i of order) if (belongs(i) && (active === "unsure" || status[i] !== 2)) paint(i, Math.max(2.4, radius * 1.25));
      context.fill();
      context.lineWidth = 1.4; context.strokeStyle = context.fillStyle;
      context.beginPath();
      if (active !== "unsure") for (const i of order) if (belongs(i) && status[i] === 2) paint(i, Math.max(2.4, radius * 1.25));
      context.stroke();
    }
    context.globalAlpha = 1;
    names();
    if (over >= 0) {
      const [sx, sy] = toScreen(X[over], Y[over]);
      context.strokeStyle = css("--ink"); context.lineWidth = 1.5;
      context.beginPath(); context.arc(sx, sy, Math.max(5, radius * 1.8), 0, 6.2832); context.stroke();
    }
  }

  /** Names, novel ones and large ones first, each only where it covers no other. */
  function names() {
    const surface = css("--surface"), novel = css("--novel"), ink = css("--ink"), taken = [], room = Math.max(8, Math.round(width * height / 9000));
    const wanted = active !== null && active !== "unsure" ? [active] : [...places.keys()].sort((a, b) =>
      (CATS[b].status === "novel") - (CATS[a].status === "novel") || CATS[b].size - CATS[a].size);
    context.font = "600 11.5px " + css("--sans"); context.textAlign = "center"; context.textBaseline = "middle"; context.lineJoin = "round";
    for (const cat of wanted) {
      if (!places.has(cat) || taken.length >= room) continue;
      const [sx, sy] = toScreen(...places.get(cat)), name = CATS[cat].name.length > 24 ? CATS[cat].name.slice(0, 23) + "…" : CATS[cat].name;
      const half = context.measureText(name).width / 2 + 4, cx = Math.max(half, Math.min(width - half, sx)), boxed = [cx - half, sy - 9, cx + half, sy + 9];
      if (sx < -10 || sx > width + 10 || sy < 10 || sy > height - 6 || taken.some((t) => t[0] < boxed[2] && boxed[0] < t[2] && t[1] < boxed[3] && boxed[1] < t[3])) continue;
      taken.push(boxed);
      context.lineWidth = 3.5; context.strokeStyle = surface; context.strokeText(name, cx, sy);
      context.fillStyle = CATS[cat].status === "novel" ? novel : ink; context.fillText(name, cx, sy);
    }
  }
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };

  function zoomTo(scale, sx = width / 2, sy = height / 2) {
    const before = [(sx - width / 2) / unit(), (sy - height / 2) / unit()];
    view.scale = Math.max(1, Math.min(60, scale));
    const after = [(sx - width / 2) / unit(), (sy - height / 2) / unit()];
    view.x += before[0] - after[0]; view.y += before[1] - after[1];
    settle();
  }
  function settle() {
    const reach = 32767.5 * (1 - .7 / view.scale);
    view.x = view.scale === 1 ? 0 : Math.max(-reach - 9000, Math.min(reach + 9000, view.x)); view.y = view.scale === 1 ? 0 : Math.max(-reach - 9000, Math.min(reach + 9000, view.y));
    hideTip(); over = -1; redraw();
  }
  function nearestPoint(sx, sy) {
    const k = unit(), ox = width / 2 - (32767.5 + view.x) * k, oy = height / 2 - (32767.5 + view.y) * k;
    let best = -1, least = 12 * 12;
    for (const i of order) { const d = (X[i] * k + ox - sx) ** 2 + (Y[i] * k + oy - sy) ** 2; if (d <= least) { least = d; best = i; } }
    return best;
  }
  function tell(i, clientX, clientY) {
    const cat = CATS[category[i]], source = picture(i), sure = percentSure(POINTS.confidence[i] / 255);
    const where = status[i] === 2 ? `Unsure, leans towards ${cat.name}` : cat.name;
    showTip(clientX, clientY, source ? el("img", { src: source, alt: "" }) : null,
      el("div", {}, el("b", { text: where, dir: "auto" }), ITEMS.texts ? el("p", {}, el("q", { text: ITEMS.texts[i], dir: "auto" })) : null,
        el("p", { text: ITEMS.ids[i], dir: "auto" }), el("p", { text: `${STATUS[status[i]]} · ${sure} confident` })));
  }

  const fingers = new Map();
  let moved = 0, pinch = 0;
  canvas.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, [event.clientX, event.clientY]); moved = 0; if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId), rect = canvas.getBoundingClientRect();
    if (last) {
      const step = [event.clientX - last[0], event.clientY - last[1]];
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
      moved += Math.abs(step[0]) + Math.abs(step[1]);
      if (fingers.size === 2) {
        const [a, b] = [...fingers.values()], distance = Math.hypot(a[0] - b[0], a[1] - b[1]);
        if (pinch) zoomTo(view.scale * distance / pinch, (a[0] + b[0]) / 2 - rect.left, (a[1] + b[1]) / 2 - rect.top);
        pinch = distance;
      } else if (moved > 4 && view.scale > 1) { view.x -= step[0] / unit(); view.y -= step[1] / unit(); settle(); }
      return;
    }
    const found = nearestPoint(event.clientX - rect.left, event.clientY - rect.top);
    if (found !== over) { over = found; redraw(); }
    if (found >= 0) tell(found, event.clientX, event.clientY); else hideTip();
  });
  const lift = (event) => { fingers.delete(event.pointerId); pinch = 0; };
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerup", (event) => {
    lift(event);
    if (moved > 6) return;
    const rect = canvas.getBoundingClientRect(), found = nearestPoint(event.clientX - rect.left, event.clientY - rect.top);
    if (found < 0) { select(null); return; }
    if (event.pointerType === "touch") { over = found; redraw(); tell(found, event.clientX, event.clientY); return; }
    hideTip(); openCard(status[found] === 2 ? "unsure" : category[found]);
  });
  canvas.addEventListener("pointerleave", () => { if (over >= 0) { over = -1; redraw(); } hideTip(); });
  canvas.addEventListener("dblclick", (event) => { const rect = canvas.getBoundingClientRect(); zoomTo(view.scale * 2, event.clientX - rect.left, event.clientY - rect.top); });
  canvas.addEventListener("wheel", (event) => {
    // A plain wheel scrolls the page, unless the map has been chosen by a click or by Tab.
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) {
      hint.textContent = "Click the map, or hold Ctrl, to zoom"; hint.classList.add("on");
      clearTimeout(hint.timer); hint.timer = setTimeout(() => hint.classList.remove("on"), 1200);
      return;
    }
    event.preventDefault();
    const rect = canvas.getBoundingClientRect();
    zoomTo(view.scale * Math.exp(-event.deltaY * .0022), event.clientX - rect.left, event.clientY - rect.top);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const pan = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (pan && view.scale > 1) { view.x += pan[0] * 40 / unit(); view.y += pan[1] * 40 / unit(); settle(); }
    else if (event.key === "+" || event.key === "=") zoomTo(view.scale * 1.5);
    else if (event.key === "-") zoomTo(view.scale / 1.5);
    else if (event.key === "0") zoomTo(1);
    else return;
    event.preventDefault(); event.stopPropagation();
  });
  for (const button of document.querySelectorAll("[data-zoom]"))
    button.addEventListener("click", () => zoomTo({ in: view.scale * 1.6, out: view.scale / 1.6, all: 1 }[button.dataset.zoom]));
  for (const button of document.querySelectorAll("[data-colour]")) button.addEventListener("click", () => {
    colour = button.dataset.colour;
    for (const other of document.querySelectorAll("[data-colour]")) other.setAttribute("aria-pressed", String(other === button));
    legend(); redraw();
  });
  function legend() {
    const what = colour === "status" ? STATUS.filter((s) => META.status[s]).map((s) => el("span", {}, el("i", { class: "dot " + s }), s))
      : [el("span", { text: "A colour for each class or category, some used more than once; grey is unsure." })];
    $("#legend").replaceChildren(...what);
  }
  function focusOn(target) {
    const rows = target === "unsure" ? [] : byCategory.get(target) ?? [];
    if (!rows.length) return;
    const xs = rows.map((i) => X[i]).sort((a, b) => a - b), ys = rows.map((i) => Y[i]).sort((a, b) => a - b), q = (v, p) => v[Math.floor((v.length - 1) * p)];
    view.x = (q(xs, .05) + q(xs, .95)) / 2 - 32767.5; view.y = (q(ys, .05) + q(ys, .95)) / 2 - 32767.5;
    view.scale = Math.max(1.4, Math.min(8, 65535 / (2.6 * Math.max(q(xs, .95) - q(xs, .05), q(ys, .95) - q(ys, .05), 2500))));
    settle();
  }
  const start = () => {
    $("#map figcaption p").textContent = `${whole(n)}${n < META.n ? " of " + whole(META.n) : ""} items by likeness`;
    canvas.setAttribute("aria-label", `Map of ${whole(n)} items, like ones side by side. Plus and minus zoom, arrow keys move, 0 shows all. Classes and categories are also listed after it.`);
    new ResizeObserver(() => {
      width = box.clientWidth; height = box.clientHeight;
      canvas.width = width * (devicePixelRatio || 1); canvas.height = height * (devicePixelRatio || 1);
      draw();
    }).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    legend();
  };
  return { start, focusOn, highlight: (target) => { if (active !== target) { active = target; redraw(); } } };
})();
