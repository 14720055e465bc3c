// The points by WebGL2: positions go to the card once; a change of labels or of the selection is a byte a point.
import { HUES } from "./map-points.js";

const VERTEX = `#version 300 es
in vec2 place; in int code; in uint state;
uniform vec2 middle, scale; uniform float size; uniform int wanted, byClass; uniform vec3 tones[4]; uniform vec3 hues[12]; uniform vec3 chosen; uniform float alpha;
out vec4 tone; flat out int hollow;
void main() {
  uint status = state & 3u; bool selected = (state & 4u) != 0u, listed = (state & 12u) != 0u;
  bool hit = wanted == -1 ? false : wanted == -2 ? status == 2u : wanted == -3 ? listed : code == wanted && status != 3u;
  gl_Position = vec4((place - middle) * scale * vec2(1.0, -1.0), selected ? 0.0 : hit ? 0.1 : status == 1u ? 0.3 : status == 2u ? 0.4 : 0.5, 1.0);
  gl_PointSize = size * (hit || selected ? 1.35 : 1.0);
  vec3 colour = byClass == 1 && status < 2u ? hues[code % 12] : tones[status];
  tone = vec4(selected ? chosen : colour, selected || hit ? 1.0 : wanted == -1 ? alpha : 0.16);
  hollow = hit && status == 2u && wanted >= 0 ? 1 : 0;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 tone; flat in int hollow; out vec4 colour;
void main() {
  float r = length(gl_PointCoord - 0.5);
  if (r > 0.5 || (hollow == 1 && r < 0.28)) discard;
  colour = vec4(tone.rgb * tone.a, tone.a);
}`;
function compile(gl, kind, text) {
  const shader = gl.createShader(kind);
  gl.shaderSource(shader, text);
  gl.compileShader(shader);
  if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
  return shader;
}
const rgb = (text) => { const n = parseInt(text.slice(1), 16); return [n >> 16 & 255, n >> 8 & 255, n & 255].map((v) => v / 255); };

/** A layer of points on a canvas, or null where there is no WebGL2. */
export function glLayer(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true, preserveDrawingBuffer: true });
  if (!gl) return null;
  let program;
  try {
    program = gl.createProgram();
    gl.attachShader(program, compile(gl, gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(program, compile(gl, gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  } catch (error) { console.warn(`No map by WebGL2: ${error.message}`); return null; }
  gl.useProgram(program);
  const at = (name) => gl.getUniformLocation(program, name), buffers = {};
  let count = 0;
  function upload(name, data, size, type, whole) {
    const where = gl.getAttribLocation(program, name);
    buffers[name] ??= gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(where);
    if (whole) gl.vertexAttribIPointer(where, size, type, 0, 0); else gl.vertexAttribPointer(where, size, type, false, 0, 0);
  }
  gl.enable(gl.DEPTH_TEST); // what stands out is on top, then novel points, unsure ones and known ones
  gl.depthFunc(gl.LEQUAL);
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  return {
    name: "webgl2",
    place: (xy) => { count = xy.length / 2; upload("place", xy, 2, gl.FLOAT, false); },
    label: (code, state) => { upload("code", code, 1, gl.INT, true); upload("state", state, 1, gl.UNSIGNED_BYTE, true); },
    draw({ width, height, ratio, x, y, unit, radius, active, byClass, tones, chosen, alpha }) {
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.uniform2f(at("middle"), x, y);
      gl.uniform2f(at("scale"), 2 * unit / width, 2 * unit / height);
      gl.uniform1f(at("size"), 2 * radius * ratio);
      gl.uniform1i(at("wanted"), active);
      gl.uniform1i(at("byClass"), byClass ? 1 : 0);
      gl.uniform1f(at("alpha"), alpha);
      gl.uniform3fv(at("tones"), tones.flatMap(rgb));
      gl.uniform3fv(at("hues"), HUES.flatMap(rgb));
      gl.uniform3fv(at("chosen"), rgb(chosen));
      gl.drawArrays(gl.POINTS, 0, count);
    },
  };
}
