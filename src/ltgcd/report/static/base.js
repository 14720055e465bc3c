"use strict";
// Data, and the few helpers that everything else uses. Text from the data is only ever set as text.
const DATA = JSON.parse(document.getElementById("data").textContent);
const { meta: META, categories: CATS, unsure: UNSURE, items: ITEMS } = DATA;
const STATUS = ["known", "novel", "unsure"];
const $ = (selector, root = document) => root.querySelector(selector);

function unpack(text, Type) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Type(bytes.buffer);
}
const POINTS = {
  x: unpack(ITEMS.x, Uint16Array), y: unpack(ITEMS.y, Uint16Array), category: unpack(ITEMS.category, Uint32Array),
  status: unpack(ITEMS.status, Uint8Array), confidence: unpack(ITEMS.confidence, Uint8Array),
};
const PICTURE = new Map(DATA.picture.map((item, at) => [item, at]));
const picture = (item) => PICTURE.has(item) ? "data:image/webp;base64," + DATA.pictures[PICTURE.get(item)] : null;

/** An element: attributes by name (class, text, and on* for events), then children. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
function svg(tag, attributes = {}, text = null) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  return node;
}
/** Text that may break after an underscore, a slash, a dot or a dash. */
const breakable = (text) => text.split(/(?<=[_/.-])/).flatMap((part, i) => i ? [document.createElement("wbr"), part] : [part]);
const whole = (n) => n.toLocaleString("en");
const percent = (share) => share > 0 && share < 0.01 ? "< 1 %" : Math.round(share * 100) + " %";
const plural = (n, one, many = one + "s") => whole(n) + " " + (n === 1 ? one : many);
const signed = (value) => (Math.abs(value) < .005 ? "0.00" : value.toFixed(2).replace("-", "−"));
const percentSure = (confidence) => Math.round(confidence * 100) + " %";
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const tip = $("#tip");
/** A tooltip beside the pointer, kept inside the window. */
function showTip(x, y, ...children) {
  tip.replaceChildren(...children.filter(Boolean));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(6, Math.min(x + 14, innerWidth - width - 6)) + "px";
  tip.style.top = Math.max(6, y + 16 + height > innerHeight ? y - height - 12 : y + 16) + "px";
}
const hideTip = () => { tip.hidden = true; };
