// A box to type a name into, with the names that there are: a combobox as screen readers know it.
import { bothEnds, el, plural, shortName } from "./dom.js";
import { meansJunk } from "./items.js";
import { on, store } from "./store.js";

const MOST = 8; // names offered

/** Names that fit what is typed: those that begin with it first, then larger classes. */
export function fitting(classes, typed, but = null) {
  const wanted = typed.trim().toLowerCase();
  const rank = (one) => { const name = one.name.toLowerCase(); return name === wanted ? 0 : name.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3; };
  return [...classes].filter((one) => one.code !== but).map((one) => [rank(one), one]).filter(([found]) => found < 3)
    .sort((a, b) => a[0] - b[0] || b[1].known - a[1].known || b[1].size - a[1].size).slice(0, MOST).map(([, one]) => one);
}

/** Before anything is typed: the classes nearest to what is named (their codes), then the others as the queue has them. */
export function likely(near, but = null) {
  return [...new Set([...near, ...store.order])].filter((code) => code !== but && store.classes.has(code)).slice(0, MOST).map((code) => store.classes.get(code));
}

let boxes = 0, giveUp = () => null; // of the box that was opened last
on("loaded", () => giveUp()); // what it is about may have another name now
/**
 * The box; `take` is called with the name once, `leave` when it is given up. `first` are names to offer before anything is
 * typed, `near` codes of classes. Enter takes the class that fits best; a new one is made where none fits, where its entry,
 * the last, is chosen, or with Shift. Where a name is changed (`value`), what is typed is the name, but for that of a class.
 */
export function nameBox({ label, value = "", but = null, first = [], near = [], fresh = true, take, leave = () => null, verb = (one) => one ? "" : "make it" }) {
  const list = "names-" + ++boxes;
  const input = el("input", { type: "text", class: "namebox", role: "combobox", "aria-label": label, "aria-expanded": "false", "aria-controls": list, "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", placeholder: label, dir: "auto", maxlength: 20000 });
  const options = el("ul", { class: "options", role: "listbox", id: list, "aria-label": "Names", hidden: true });
  const box = el("div", { class: "namefield" }, input, options);
  let offered = [], at = -1;
  input.value = value;

  function offer() {
    const typed = input.value.trim(), told = typed !== "" && typed !== value;
    const found = told ? fitting(store.classes.values(), typed, but) : [...first.map((name) => ({ name })), ...(value ? [] : likely(near, but))].slice(0, MOST);
    offered = found.map((one) => ({ name: one.name, one: one.code === undefined ? null : one }));
    const equal = offered[0]?.name.toLowerCase() === typed.toLowerCase();
    if (told && fresh && meansJunk(typed)) offered.push({ name: "junk", one: null, junk: true });
    else if (told && fresh && !offered.some((one) => one.name === typed)) offered.push({ name: typed, one: null, fresh: true });
    at = !told ? -1 : offered.at(-1)?.junk ? offered.length - 1 : equal || !value ? Math.min(0, offered.length - 1) : offered.length - 1;
    draw();
  }
  function draw() {
    options.hidden = !offered.length;
    input.setAttribute("aria-expanded", String(offered.length > 0));
    options.replaceChildren(...offered.map(({ name, one, fresh, junk }, i) => {
      const note = one ? [verb(one), one.known ? "known" : "novel", plural(one.size, "item")].filter(Boolean).join(" · ") : junk ? "takes them out" : fresh ? [verb(null), offered.length > 1 && i !== at ? "Shift + Enter" : ""].filter(Boolean).join(" · ") : "";
      return el("li", { role: "option", id: `${list}-${i}`, "aria-label": [shortName(name), note].filter(Boolean).join(", "), "aria-selected": String(i === at), onpointerdown: (event) => { event.preventDefault(); choose(i); } },
        bothEnds(name), el("small", { text: note }));
    }));
    if (at >= 0) input.setAttribute("aria-activedescendant", `${list}-${at}`); else input.removeAttribute("aria-activedescendant");
  }
  let over = false;
  function end(work) { if (!over) { over = true; work(); } }
  giveUp = () => end(leave);
  function choose(i) { end(() => take(offered[i].name)); }
  input.addEventListener("input", offer);
  input.addEventListener("focus", () => { over = false; offer(); }); // one that stays where it is may be come back to
  input.addEventListener("blur", () => setTimeout(() => { if (document.activeElement !== input) { options.hidden = true; end(leave); } }, 150));
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && offered.length) { event.preventDefault(); at = (at + step + offered.length) % offered.length; draw(); }
    else if (event.key === "Enter") {
      event.preventDefault();
      if (event.shiftKey && offered.at(-1)?.fresh) choose(offered.length - 1);
      else if (at >= 0) choose(at); else if (input.value.trim()) end(() => take(input.value.trim())); else end(leave);
    } else if (event.key === "Tab" && at >= 0 && offered[at]) { event.preventDefault(); input.value = offered[at].name; offer(); }
    else if (event.key === "Escape") { event.preventDefault(); end(leave); if (input.isConnected) (input.closest("dialog") ?? input).focus(); }
  });
  return { box, focus: () => { input.focus(); input.select(); } };
}
