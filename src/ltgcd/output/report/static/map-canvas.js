// The same points by Canvas2D, where there is no WebGL2: slower, but everything works.
import { HUES } from "./map-points.js";

/** A layer of points on a canvas; the same methods as that of WebGL2. */
export function canvasLayer(canvas) {
  const context = canvas.getContext("2d");
  let xy = new Float32Array(), code = new Int32Array(), state = new Uint8Array();
  return {
    name: "canvas",
    place: (places) => { xy = places; },
    label: (codes, states) => { code = codes; state = states; },
    draw({ width, height, ratio, x, y, unit, radius, active, byClass, tones, chosen, alpha }) {
      const ox = width / 2 - x * unit, oy = height / 2 - y * unit, groups = new Map();
      const put = (tone, i) => { if (!groups.has(tone)) groups.set(tone, []); groups.get(tone).push(i); };
      for (let i = 0; i < state.length; i++) {
        const sx = xy[2 * i] * unit + ox, sy = xy[2 * i + 1] * unit + oy;
        if (sx < -6 || sy < -6 || sx > width + 6 || sy > height + 6) continue;
        const status = state[i] & 3, selected = (state[i] & 4) !== 0, listed = (state[i] & 12) !== 0;
        const hit = active === -1 ? false : active === -2 ? status === 2 : active === -3 ? listed : code[i] === active && status !== 3;
        put(selected ? "4" + chosen : (hit ? 3 : [0, 2, 1, 0][status]) + (byClass && status < 2 ? HUES[code[i] % HUES.length] : tones[status]), i);
      }
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      const square = state.length > 12000;
      for (const key of [...groups.keys()].sort()) {
        const large = key[0] > "2", r = radius * (large ? 1.3 : 1);
        context.fillStyle = key.slice(1);
        context.globalAlpha = large ? 1 : active === -1 ? alpha : .16;
        context.beginPath();
        for (const i of groups.get(key)) {
          const sx = xy[2 * i] * unit + ox, sy = xy[2 * i + 1] * unit + oy;
          if (square && r < 2.2) context.rect(sx - r, sy - r, 2 * r, 2 * r);
          else { context.moveTo(sx + r, sy); context.arc(sx, sy, r, 0, 6.2832); }
        }
        context.fill();
      }
      context.globalAlpha = 1;
    },
  };
}
