// The overview: what was found, in one headline, a few sentences, figures and two charts.
import { $, el, percent, plural, whole } from "./dom.js";
import { drawKCurve, drawSizes } from "./charts.js";
import { goBy, openClass } from "./queue.js";
import { emit, nameOf, on, show, store } from "./store.js";

/** A category that got a name in the review: nothing of it came with a label. A file knows of it once items of it are confirmed. */
const isNamed = (one) => !one.labelled && (store.state.mode === "server" || one.given > 0);
function countClasses() {
  const found = { known: 0, named: 0, novel: 0 };
  for (const one of store.classes.values()) if (one.size > 0) found[!one.known ? "novel" : isNamed(one) ? "named" : "known"]++;
  return found;
}
function imbalance() {
  const sizes = [...store.classes.values()].map((one) => one.size).filter((size) => size > 0);
  const value = sizes.length ? Math.max(...sizes) / Math.min(...sizes) : 1;
  return value >= 100 ? whole(Math.round(value)) : String(Math.round(value * 10) / 10);
}
/** Sentences of the file or of the server; a server tells how many classes there are now beside what was estimated. */
function lead({ meta, n, counts, k }) {
  return [meta?.lead ?? `${plural(n, "item")}, ${whole(counts.labelled)} of them labelled.`, k?.sentence].filter(Boolean).join(" ");
}
function draw() {
  const { state } = store, { counts, meta } = state, { known, named, novel } = countClasses(), k = state.k ?? {};
  const fresh = [novel ? plural(novel, "novel category", "novel categories") : "", named ? (novel ? `${whole(named)} with a name` : plural(named, "category with a name", "categories with names")) : ""].filter(Boolean).join(" and ");
  $("#headline").replaceChildren(fresh ? el("em", { text: fresh }) : "No novel category", " beside " + plural(known, "known class", "known classes"));
  $("#lead").textContent = lead(state);
  const shares = ["novel", "unsure", "known", "junk"].filter((status) => counts[status] || status !== "junk");
  const bar = el("div", { class: "bar", role: "img", "aria-label": shares.map((s) => `${s} ${percent(counts[s] / state.n)}`).join(", ") }), keys = el("ul", { class: "keys" });
  for (const status of shares) {
    if (counts[status]) { const part = el("i", { class: status }); part.style.flex = String(counts[status]); bar.append(part); }
    keys.append(el("li", { class: status }, el("span", { class: "dot" }), el("span", { text: status[0].toUpperCase() + status.slice(1) }),
      el("small", { text: plural(counts[status], "item") + " · " + percent(counts[status] / state.n) })));
  }
  $("#shares").replaceChildren(bar, keys);
  const interval = k.low === null || k.low === undefined ? "" : ` ${whole(k.low)}–${whole(k.high)}`;
  const facts = [["Items", whole(meta?.n ?? state.n)], ["Known classes", whole(known + named), named ? ` ${whole(named)} named since` : ""], ["Novel categories", whole(novel)],
    [state.mode === "server" ? "Classes now" : "Estimated classes", k.k ? whole(k.k) : null, interval, k.sentence],
    ["Largest class : smallest", imbalance(), " : 1", "Size of the largest class or category over that of the smallest (the imbalance λ)"],
    [`Items marked ${meta?.marked} %: right in rehearsals`, meta?.right ? meta.right.join("–") : null, " %", meta?.confidences],
    ["Seed", meta?.seed ?? null], ["ltgcd", meta?.version ?? null]];
  $("#facts").replaceChildren(...facts.filter((fact) => fact[1] !== null).map(([name, value, note, title]) =>
    el("div", { title }, el("dt", { text: name }), el("dd", { text: value }, note ? el("small", { text: note }) : null))));
  drawSizes(store.classes.values(), openClass);
  drawKCurve(state.curve ?? null, meta ?? {});
  const first = store.order.find((code) => !store.classes.get(code).accepted);
  $("#begin").replaceChildren(...(first === undefined ? [el("p", { text: "Everything is accepted." })] : [
    el("button", { type: "button", class: "button primary", onclick: () => goBy(1), "aria-keyshortcuts": "j" }, state.mode === "server" ? "Start the review" : "Look through them", el("kbd", { text: "j" })),
    ...(store.source.can.odd ? [el("button", { type: "button", class: "button", onclick: () => show({ kind: "lane", status: "odd" }), "aria-keyshortcuts": "O", title: "Items that are unlike every class, and unlike each other: a class that nobody has found shows there" }, "Odd ones", el("kbd", { text: "O" }))] : []),
    ...(counts.unsure ? [el("button", { type: "button", class: "button", onclick: () => emit("ask"), "aria-keyshortcuts": "q", title: "The likeliest to be right first; a number says which class" }, "Unsure ones, one by one", el("kbd", { text: "q" }))] : []),
    el("p", {}, "First: ", el("bdi", { text: nameOf(first) }), ". ", store.classes.get(first).why ?? "")]));
  $("#confidences").textContent = meta?.confidences ?? "";
  $("#notes").textContent = notes(state).join(" ");
}
function notes({ meta, n, mode }) {
  if (mode === "server" || !meta) return [];
  const found = [`Made by ltgcd ${meta.version}. This file is complete in itself: it needs no network, and nothing leaves it. Edits that you make here are kept in this browser alone: download them as corrections.csv and give them to “ltgcd relabel”, or use “ltgcd review”.`];
  if (meta.n > meta.laid_out) found.push(`The map: t-SNE laid out ${whole(meta.laid_out)} items, everything rare among them; each other item stands beside the nearest of these.`);
  if (meta.n > n) found.push(`${whole(meta.n - n)} items of the largest classes and categories are counted but not in this file.`);
  if (meta.left_out) found.push(`${plural(meta.left_out, "item")} of the source got no assignment and ${meta.left_out === 1 ? "is" : "are"} left out.`);
  return found;
}
export function startOverview() {
  const when = () => { if (store.view.kind === "overview" && store.state) draw(); };
  on("state view", when);
}
