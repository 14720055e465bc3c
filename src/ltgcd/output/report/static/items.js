// What the numbers of an item mean, as the server and the file send them.
export const KNOWN = 0; // status of an item
export const NOVEL = 1;
export const UNSURE = 2;
export const JUNK = 3;
export const STATUS = ["known", "novel", "unsure", "junk"];
export const GIVEN = 1; // flags of an item: a person said so,
export const LABELLED = 2; // the source did,
export const DRAWN = 4; // it is drawn on the map,
export const FAR = 8; // it looks different from those that people gave its class: in a file, which has no server to ask
/** Whether a name that somebody types for items takes them out: no class is called that. */
export const meansJunk = (name) => name.trim().toLowerCase() === "junk";
/** A column of numbers out of base64. */
export function unpack(text, Type) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Type(bytes.buffer);
}
