// Edits of a page without a server outlive a reload: the browser keeps them for this file, told by its items, their labels and its classes.
import { remember } from "./dom.js";

/** A short name of a text: another text has another one, but for one chance in 2^53 (cyrb53). */
export function fingerprint(text) {
  let a = 0xdeadbeef, b = 0x41c6ce57;
  for (let i = 0; i < text.length; i++) {
    const letter = text.charCodeAt(i);
    a = Math.imul(a ^ letter, 2654435761);
    b = Math.imul(b ^ letter, 1597334677);
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
  return (4294967296 * (2097151 & b) + (a >>> 0)).toString(36);
}
const plain = (_, value) => ArrayBuffer.isView(value) ? Array.from(value) : value;

/** Where the edits of a file are kept; what can't be read is as if nothing were. */
export function keptEdits({ items: { prefix, ids, code, status, flags }, categories }) {
  const key = "ltgcd-edits-" + fingerprint([prefix, ...ids, code, status, flags, ...categories.map((one) => one.name)].join("\n"));
  return {
    read: () => remember((memory) => JSON.parse(memory.getItem(key))) ?? { done: [], undone: [] },
    /** Whether they are kept now. */
    write: (edits) => Boolean(remember((memory) => { if (edits.done.length || edits.undone.length) memory.setItem(key, JSON.stringify(edits, plain)); else memory.removeItem(key); return true; })),
  };
}
