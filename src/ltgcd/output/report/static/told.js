// What an action did, in a sentence: the source's own, else one made of its events.
import { middleOut, plural, shortName } from "./dom.js";
import { nameOf } from "./store.js";

const WORDS = { junk: "put to the junk", clear: "taken back" };

/** `names` are those that the classes had at the time, by code, where the source knows them. */
export function sentenceOf({ sentence, events = [], names = {} }) {
  if (sentence) return middleOut(sentence, 300);
  const called = (code) => `“${shortName(names[code] ?? nameOf(code))}”`;
  return events.map(({ op, rows, code, name, into }) => {
    if (WORDS[op]) return `${plural(rows.length, "item")} ${WORDS[op]}`;
    if (op === "assign") return `${plural(rows.length, "item")} confirmed as ${called(code)}`;
    if (op === "rename") return `${called(code)} called “${shortName(name)}”`;
    if (op === "create") return `“${shortName(name)}” made`;
    return op === "merge" ? `${called(code)} merged into ${called(into)}` : op;
  }).join(", ");
}
