// Elements and words: the few helpers that everything else uses. Text from the data is only ever set as text.
export const $ = (selector, root = document) => root.querySelector(selector);

/** An element: attributes by name (class, text, and on* for events), then children. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
export function svg(tag, attributes = {}, text = null) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  return node;
}
/** A button that says its key, too: both by sight and for a screen reader. */
export function button(label, key, onclick, attributes = {}) {
  const { class: kind = "", ...rest } = attributes;
  return el("button", { type: "button", class: "button " + kind, onclick, "aria-keyshortcuts": key || null, ...rest },
    label, key ? el("kbd", { text: key, "aria-hidden": "true" }) : null);
}
const shown = new WeakMap();
/** Set an element's text, without touching the document where nothing changed. */
export function say(node, text) {
  if (shown.get(node) !== text) { shown.set(node, text); node.textContent = text; }
}

/** A name as it is shown: whatever its length or direction, it stays in its place and in one line. */
export const LONGEST_NAME = 120;
/** A name of at most so many characters; what is left out is its middle, for the ending tells like classes apart. */
export function middleOut(name, most) {
  const letters = name.length > most ? [...name] : [];
  if (letters.length <= most) return name;
  const end = Math.ceil((most - 1) / 2);
  return letters.slice(0, most - 1 - end).join("") + "…" + letters.slice(-end).join("");
}
export const shortName = (name) => middleOut(name, LONGEST_NAME);
/** A button about a class: its name where there is room for all of it, else both ends; the whole is told and read out. */
export function classButton(before, name, most, key, onclick, attributes = {}, after = "") {
  const short = middleOut(name, most), all = before + middleOut(name, 200) + after;
  return button(before + short + after, key, onclick, short === name ? attributes : { title: all, "aria-label": all, ...attributes });
}
const ENDING = 10; // letters of a long name that are seen in any case
/** A name of which, where there is too little room, the middle gives way; a plain one alone, for letters may run leftwards. */
export function bothEnds(name) {
  const text = shortName(name), at = text.length - ENDING;
  if (at < ENDING || !/^[!-~ …]+$/.test(text)) return el("bdi", { text });
  return el("bdi", { class: "ends" }, el("span", { text: text.slice(0, at) }), el("span", { text: text.slice(at) }));
}
/** Text that may break after an underscore, a slash, a dot or a dash. */
export function breakable(text) {
  const parts = shortName(text).split(/(?<=[_/.-])/);
  return parts.flatMap((part, i) => i ? [document.createElement("wbr"), part] : [part]);
}
export const whole = (n) => n.toLocaleString("en");
export const percent = (share) => share > 0 && share < 0.01 ? "< 1 %" : Math.round(share * 100) + " %";
export const percentSure = (confidence) => Math.round(confidence * 100) + " %";
export const plural = (n, one, many = one + "s") => whole(n) + " " + (n === 1 ? one : many);
export const signed = (value) => Math.abs(value) < .005 ? "0.00" : value.toFixed(2).replace("-", "−");
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** Call a function once in the next frame, however often it is asked for. */
export function onceAFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; work(); });
  };
}

/** Something that the browser keeps for this page; a file may have no memory. */
export const remember = (work) => { try { return work(localStorage); } catch { return null; } };

/** A tooltip beside the pointer, kept inside the window. */
export function showTip(x, y, ...children) {
  const tip = $("#tip");
  tip.replaceChildren(...children.filter(Boolean));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(6, Math.min(x + 14, innerWidth - width - 6)) + "px";
  tip.style.top = Math.max(6, y + 16 + height > innerHeight ? y - height - 12 : y + 16) + "px";
}
export const hideTip = () => { $("#tip").hidden = true; };

/** A short message that a screen reader reads out, with or without an offer (a word and what it does); one to `keep` stays until it is closed or something is done. */
export function toast(sentence, { offer = null, act = null, trouble = false, keep = false } = {}) {
  const note = el("div", { class: "toast" + (trouble ? " trouble" : "") }, el("p", { text: sentence, dir: "auto" }));
  const close = () => note.remove();
  if (offer) note.append(el("button", { type: "button", text: offer, onclick: () => { close(); act(); } }));
  note.append(el("button", { type: "button", class: "close", text: "×", "aria-label": "Close this message", onclick: close }));
  $("#toasts").replaceChildren(note); // one at a time, so that its offer is about what was done last
  if (!keep) setTimeout(close, trouble ? 12000 : 6000);
}
export const clearToast = () => $("#toasts").replaceChildren();
/** Copy a text; where the browser allows no clipboard (a file, an old one), by a selection. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const box = el("textarea", { class: "hidden", "aria-hidden": "true" });
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  toast(`Copied ${what}.`);
}
/** Give the person a file. */
export function download(name, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
