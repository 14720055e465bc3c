// Edits of a page without a server: kept as events in the page alone, replayed on the labels that the file came with.
import { GIVEN, JUNK, KNOWN, NOVEL, UNSURE } from "./items.js";

/** Labels after some events; `base` has code, status and flags of the items, `classes` a map by code. */
export function replay(base, classes, events) {
  const now = { code: base.code.slice(), status: base.status.slice(), flags: base.flags.slice() };
  const live = new Map([...classes].map(([code, one]) => [code, { ...one }]));
  for (const event of events) { checkName(classes, live, event); applyEvent(now, live, base, event); }
  for (let i = 0; i < now.code.length; i++)
    if (now.status[i] < UNSURE) now.status[i] = live.get(now.code[i])?.known ? KNOWN : NOVEL;
  return { ...now, classes: recount(base, classes, now, live) };
}

/** What 'ltgcd relabel' would refuse is refused here already (review/names.py): numbers, and names that other classes had. */
function checkName(classes, live, { op, code, name }) {
  if (!["create", "rename"].includes(op) || live.get(code)?.name === name) return;
  if (/^novel-\d+$/i.test(name)) throw new Error(`“${name}” is how ltgcd numbers novel categories, and a number is given once; call it something else.`);
  if (/^unsure$/i.test(name)) throw new Error("Unsure is what items in no class are; a class needs a name of its own.");
  for (const one of classes.values()) if (one.name === name && one.code !== code) throw new Error(`“${name}” was the name of another class; no name is given twice.`);
}
function applyEvent(now, live, base, { op, rows, code, into, name }) {
  if (op === "assign") for (const i of rows) { now.code[i] = code; now.status[i] = NOVEL; now.flags[i] |= GIVEN; }
  else if (op === "junk") for (const i of rows) { now.status[i] = JUNK; now.flags[i] |= GIVEN; }
  else if (op === "clear") for (const i of rows) { now.code[i] = base.code[i]; now.status[i] = base.status[i]; now.flags[i] &= ~GIVEN; }
  else if (op === "rename") Object.assign(live.get(code), { name, known: true });
  else if (op === "create") live.set(code, { code, name, known: true, size: 0, given: 0, leaning: 0, labelled: 0, confidence: 1, coherence: null, suggested: "", terms: [], nearest: [], why: "You made it.", contaminated: 0 });
  else if (op === "merge") { for (let i = 0; i < now.code.length; i++) if (now.code[i] === code) now.code[i] = into; live.delete(code); }
  else throw new Error(`This needs 'ltgcd review' (${op}).`);
}

/** Sizes of the classes: what the file says, more or less what changed among the items that it has. */
function recount(base, classes, now, live) {
  const count = (labels) => {
    const sizes = new Map();
    for (let i = 0; i < labels.code.length; i++) {
      let one = sizes.get(labels.code[i]);
      if (!one) sizes.set(labels.code[i], one = { size: 0, given: 0, leaning: 0 });
      if (labels.status[i] === UNSURE) one.leaning++;
      else if (labels.status[i] !== JUNK) { one.size++; if (labels.flags[i] & GIVEN) one.given++; }
    }
    return sizes;
  };
  const before = count(base), after = count(now), none = { size: 0, given: 0, leaning: 0 };
  return [...live.values()].map((one) => {
    const was = before.get(one.code) ?? none, is = after.get(one.code) ?? none, start = classes.get(one.code) ?? none;
    const sum = (key) => start[key] - was[key] + is[key];
    const size = sum("size"), given = sum("given");
    const accepted = size > 0 && given >= size, said = given !== (start.given ?? 0) || accepted;
    const why = !said ? one.why : accepted ? "Every item is labelled or confirmed." : `${given} of its ${size} items are confirmed.`;
    return { ...one, size, given, leaning: sum("leaning"), accepted, why };
  });
}

/** A cell that no spreadsheet runs as a formula; the commands take the apostrophe away again (common/spreadsheet.py). */
const quoted = (text) => `"${String(text).replace(/^'*[=+\-@\t\r\n＝＋－＠]/, "'$&").replaceAll('"', '""')}"`;

/** The file for 'ltgcd relabel': what was said of categories in its order, then what was said of items. */
export function corrections(base, classes, events, ids) {
  const lines = ["id,label,category,name"], names = new Map([...classes.values()].map((one) => [one.code, one.name]));
  for (const { op, code, into, name } of events) {
    if (op === "rename") lines.push(`,,${quoted(names.get(code))},${quoted(name)}`);
    if (op === "merge") lines.push(`,,${quoted(names.get(code))},${quoted(names.get(into))}`);
    if (op === "rename" || op === "create") names.set(code, name);
    if (op === "merge") names.delete(code);
  }
  const now = replay(base, classes, events);
  const touched = new Set(events.flatMap((event) => event.rows ?? []));
  for (const i of [...touched].sort((a, b) => a - b)) {
    const given = now.flags[i] & GIVEN;
    if (!given && !(base.flags[i] & GIVEN)) continue; // said, and taken back
    lines.push(`${quoted(ids[i])},${given ? quoted(now.status[i] === JUNK ? "junk" : names.get(now.code[i])) : ""},,`);
  }
  return lines.join("\n") + "\n";
}
