// A picture to look into: the wheel, two fingers, or + and − make it larger, up to its own pixels; dragged, it moves; 0 shows all.
import { $, el } from "./dom.js";

const MOST = 12; // times as large as it fits

/** Where the picture stands after it was made `factor` times as large around a point, kept over its frame. */
export function zoomed({ scale, x, y }, factor, px, py, width, height) {
  const next = Math.max(1, Math.min(MOST, scale * factor)), grown = next / scale;
  return settled({ scale: next, x: px - (px - x) * grown, y: py - (py - y) * grown }, width, height);
}
/** No edge of the picture comes into its frame. */
export function settled({ scale, x, y }, width, height) {
  return { scale, x: Math.min(0, Math.max(width - width * scale, x)), y: Math.min(0, Math.max(height - height * scale, y)) };
}
/** Let the picture of a figure be looked into; `whole` gives its address with all pixels, asked for when it is first made larger. */
export function zoomable(figure, whole) {
  let view = { scale: 1, x: 0, y: 0 }, asked = false, pinch = 0;
  const fingers = new Map(), image = () => $("img", figure);
  const size = () => [figure.clientWidth, figure.clientHeight];
  function draw() {
    const shown = image();
    if (!shown) return;
    shown.style.transform = `translate(${view.x}px,${view.y}px) scale(${view.scale})`;
    figure.classList.toggle("zoomed", view.scale > 1);
    if (view.scale > 1 && !asked) {
      asked = true;
      const address = whole(), sharp = new Image();
      sharp.addEventListener("load", () => { if (shown.isConnected) shown.src = address; });
      if (address) sharp.src = address;
    }
  }
  function by(factor, px = size()[0] / 2, py = size()[1] / 2) { view = zoomed(view, factor, px, py, ...size()); draw(); }
  function reset() { view = { scale: 1, x: 0, y: 0 }; draw(); }
  const spot = (x, y) => { const box = figure.getBoundingClientRect(); return [x - box.left, y - box.top]; };
  figure.addEventListener("wheel", (event) => { event.preventDefault(); by(Math.exp(-event.deltaY * .0022), ...spot(event.clientX, event.clientY)); }, { passive: false });
  figure.addEventListener("pointerdown", (event) => {
    if (event.button || event.target.closest("button")) return;
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    figure.setPointerCapture(event.pointerId);
  });
  figure.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return;
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()], distance = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (pinch) by(distance / pinch, ...spot((a[0] + b[0]) / 2, (a[1] + b[1]) / 2));
      pinch = distance;
    } else if (view.scale > 1) {
      view = settled({ ...view, x: view.x + event.clientX - last[0], y: view.y + event.clientY - last[1] }, ...size());
      draw();
    }
  });
  for (const end of ["pointerup", "pointercancel"]) figure.addEventListener(end, (event) => { fingers.delete(event.pointerId); pinch = 0; });
  figure.append(el("div", { class: "zoom", role: "group", "aria-label": "Zoom" },
    ...[["+", "Zoom in", "+", () => by(1.5)], ["−", "Zoom out", "-", () => by(1 / 1.5)], ["⤢", "Show all of it", "0", reset]].map(([text, name, key, run]) =>
      el("button", { type: "button", text, "aria-label": name, title: `${name} (${key})`, "aria-keyshortcuts": key, onclick: run }))));
  return { by, reset };
}
