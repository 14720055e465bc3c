// The queue: a card for each category, filled when it comes near the window; search, filters and keys.
const cards = new Map(); // by category position, or "unsure"
let chosen = null, listed = [];

function tile(item) {
  const id = ITEMS.ids[item], sure = percentSure(POINTS.confidence[item] / 255), source = picture(item);
  const node = el("li", { title: `${id} · ${sure} confident` });
  node.append(source ? el("img", { src: source, alt: id, decoding: "async" }) : el("span", { class: "no", text: id, dir: "auto" }));
  return node;
}
/** Under which status a card is listed: a novel category without a sure item is not counted as one. */
const lane = (cat) => cat.status === "novel" && cat.size === 0 ? "unsure" : cat.status;
/** Items as pictures, as quotes, or as ids, whatever there is. */
function gallery(items, shape = "") {
  if (ITEMS.texts) return el("ul", { class: "quotes" }, ...items.map((i) => el("li", { text: ITEMS.texts[i], dir: "auto", title: `${ITEMS.ids[i]} · ${percentSure(POINTS.confidence[i] / 255)} confident` })));
  if (DATA.pictures.length) {
    // Where the file had no room for all pictures, those that there are stand for the rest.
    const seen = shape === "wide" ? items : items.filter((i) => PICTURE.has(i));
    return el("ul", { class: "thumbs " + shape }, ...(seen.length ? seen : items.slice(0, 2)).map(tile));
  }
  return el("ul", { class: "ids" }, ...items.map((i) => el("li", { text: ITEMS.ids[i], dir: "auto" })));
}
const group = (title, items, shape) => items.length ? el("div", { class: "group" }, el("h4", { text: title }), gallery(items, shape)) : null;
function stat(name, value, share = null, title = null) {
  const bar = share === null ? null : el("i", {}, el("b"));
  if (bar) bar.firstChild.style.width = Math.max(0, Math.min(1, share)) * 100 + "%";
  return el("div", { title }, el("dt", { text: name }), el("dd", { text: value }, bar));
}
const showButton = (at) => el("button", { type: "button", class: "show", text: "Show on map", onclick: (event) => { event.stopPropagation(); reveal(at); } });

function fillCategory(card, at) {
  const cat = CATS[at], few = cat.size <= 12, e = cat.examples;
  const note = [cat.terms.length ? "" : cat.suggested, cat.labelled ? `${whole(cat.labelled)} labelled` : "", cat.leaning ? `${plural(cat.leaning, "unsure item leans", "unsure items lean")} here` : ""].filter(Boolean).join(" · ");
  card.append(el("header", {},
    el("div", { class: "who" }, el("h3", {}, el("bdi", {}, ...breakable(cat.name)), el("span", { class: "chip " + lane(cat), text: cat.size ? cat.status : "unsure items only" })),
      note ? el("p", { class: "aka", dir: "auto" }, ...breakable(note)) : null),
    el("dl", { class: "stats" }, stat("Items", whole(cat.size)), stat("Confidence", percentSure(cat.confidence), cat.confidence),
      stat("Coherence", cat.coherence === null ? "–" : signed(cat.coherence), cat.coherence ?? 0, cat.coherence === null ? "It takes two items, and a second class or category" : null)),
    showButton(at)));
  if (cat.terms.length) card.append(el("ul", { class: "terms", "aria-label": "Top terms" }, ...cat.terms.map((term) => el("li", { text: term, dir: "auto" }))));
  const groups = few && !ITEMS.texts
    ? [group(cat.size === 1 ? "Its one item" : `All ${cat.size} items`, [...e.centre, ...e.edge, ...e.doubtful], "wide"), group("Unsure, leaning here", e.leaning, "wide")]
    : [group("Centre", e.centre), group("Edge", e.edge), group("Least sure", e.doubtful), group("Unsure, leaning here", e.leaning)];
  card.append(el("div", { class: "groups" + (ITEMS.texts ? " texts" : "") }, ...groups));
  if (cat.nearest.length) card.append(el("div", { class: "near" }, el("h4", { text: "Nearest known classes, by their centres" }),
    el("ol", {}, ...cat.nearest.map(([other, cosine]) => el("li", {},
      el("button", { type: "button", dir: "auto", onclick: (event) => { event.stopPropagation(); openCard(other); } }, ...breakable(CATS[other].name)),
      el("span", { class: "sim", text: signed(cosine), title: "Cosine of the two centres" }),
      gallery(CATS[other].examples.centre.slice(0, ITEMS.texts ? 2 : 4), "row"))))));
}
function fillUnsure(card) {
  card.append(el("header", {},
    el("div", { class: "who" }, el("h3", {}, "Unsure items", el("span", { class: "chip unsure", text: "unsure" })),
      el("p", { class: "aka", text: "More likely wrong than right, so they are in no class or category; each only leans towards one." })),
    el("dl", { class: "stats" }, stat("Items", whole(UNSURE.size)), stat("Confidence", percentSure(UNSURE.confidence), UNSURE.confidence)), showButton("unsure")));
  card.append(el("div", { class: "groups halves" }, group("Least sure", UNSURE.examples.doubtful, "wide"), group("Nearly sure", UNSURE.examples.centre, "wide")));
  card.append(el("div", { class: "near" }, el("h4", { text: "What they lean towards" }), el("div", { class: "towards" }, ...UNSURE.towards.map(([at, n]) =>
    el("span", {}, el("button", { type: "button", class: CATS[at].status, text: CATS[at].name, dir: "auto", onclick: (event) => { event.stopPropagation(); openCard(at); } }), el("small", { text: " " + whole(n) }))))));
}

const near = new IntersectionObserver((entries) => { for (const entry of entries) if (entry.isIntersecting) fill(entry.target); }, { rootMargin: "900px 0px" });
function fill(card) {
  near.unobserve(card);
  if (card.childElementCount) return;
  card.style.minHeight = "";
  if (card.at === "unsure") fillUnsure(card); else fillCategory(card, card.at);
}
function makeCards() {
  const make = (at, status) => {
    const card = el("article", { class: "card " + status, id: "card-" + at, tabindex: "-1", "aria-label": at === "unsure" ? "Unsure items" : CATS[at].name, onclick: () => select(at), onmouseenter: () => map.highlight(at), onmouseleave: () => map.highlight(chosen) });
    card.at = at;
    card.style.minHeight = "300px";
    cards.set(at, card);
  };
  CATS.forEach((cat, at) => make(at, lane(cat)));
  if (UNSURE) make("unsure", "unsure");
}

/** Which cards are listed, in which order. */
function matches(at, query, status, [low, high], hits) {
  const cat = at === "unsure" ? { name: "unsure items", status: "unsure", size: UNSURE.size, terms: [], suggested: "" } : CATS[at];
  if (status !== "all" && lane(cat) !== status) return false;
  const size = cat.size || 1; // one that has unsure items alone counts as a single
  if (size < low || size > high) return false;
  return !query || [cat.name, cat.suggested, ...cat.terms].some((text) => text.toLowerCase().includes(query)) || hits.has(at);
}
const ORDERS = {
  large: (a, b) => b.size - a.size, small: (a, b) => a.size - b.size, doubt: (a, b) => a.confidence - b.confidence,
  loose: (a, b) => (a.coherence ?? 2) - (b.coherence ?? 2), name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
};
let status = "all";
function list() {
  const query = $("#search").value.trim().toLowerCase(), [low, high] = $("#size").value.split("-").map((v) => v === "" ? Infinity : Number(v)), order = $("#order").value;
  const hits = new Set();
  if (query.length >= 2) ITEMS.ids.forEach((id, i) => { if (id.toLowerCase().includes(query) || ITEMS.texts?.[i].toLowerCase().includes(query)) hits.add(POINTS.status[i] === 2 ? "unsure" : POINTS.category[i]); });
  let all = CATS.map((_, at) => at);
  if (order !== "queue") all.sort((a, b) => ORDERS[order](CATS[a], CATS[b]) || a - b);
  if (UNSURE) all.splice(order === "queue" ? UNSURE.after : all.length, 0, "unsure");
  listed = all.filter((at) => matches(at, query, status, [low, high], hits));
  $("#cards").replaceChildren(...listed.map((at) => cards.get(at)));
  for (const at of listed) if (!cards.get(at).childElementCount) near.observe(cards.get(at));
  const total = CATS.length + (UNSURE ? 1 : 0);
  $("#count").textContent = listed.length === total ? plural(total, "card") : `${whole(listed.length)} of ${plural(total, "card")}`;
  $("#none").hidden = listed.length > 0;
  if (chosen !== null && !listed.includes(chosen)) select(null);
}
function select(at) {
  if (chosen !== null) cards.get(chosen).classList.remove("active");
  chosen = at;
  if (at !== null) cards.get(at).classList.add("active");
  map.highlight(at);
}
/** Go to a card; whatever filter hides it is lifted. */
function openCard(at) {
  if (!cards.has(at)) return;
  if (!listed.includes(at)) clear();
  const index = listed.indexOf(at);
  for (const other of listed.slice(Math.max(0, index - 2), index + 3)) fill(cards.get(other));
  select(at);
  const far = Math.abs(cards.get(at).getBoundingClientRect().top) > 2 * innerHeight || matchMedia("(prefers-reduced-motion: reduce)").matches;
  cards.get(at).scrollIntoView({ block: "start", behavior: far ? "instant" : "smooth" });
  cards.get(at).focus({ preventScroll: true });
}
function reveal(at) {
  select(at); map.focusOn(at);
  const box = $("#map").getBoundingClientRect();
  if (box.bottom < 80 || box.top > innerHeight - 80) $("#map").scrollIntoView({ block: "start" });
}
function clear() {
  $("#search").value = ""; $("#size").value = "1-"; setStatus("all"); list();
}
function setStatus(value) {
  status = value;
  for (const button of $("#status").children) button.setAttribute("aria-pressed", String(button.value === value));
}

function startQueue() {
  makeCards();
  const counts = { novel: META.counts.novel, known: META.counts.known };
  for (const value of ["all", "novel", "unsure", "known"]) $("#status").append(el("button", { type: "button", value, "aria-pressed": String(value === "all"), onclick: () => { setStatus(value); list(); } },
    value[0].toUpperCase() + value.slice(1), value in counts ? el("small", { text: whole(counts[value]) }) : null));
  addEventListener("beforeprint", () => { for (const at of listed) fill(cards.get(at)); });
  $(".tools").addEventListener("submit", (event) => event.preventDefault());
  $("#search").addEventListener("input", list);
  for (const id of ["#size", "#order"]) $(id).addEventListener("change", list);
  $("#clear").addEventListener("click", () => { clear(); $("#search").focus(); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "/" && !typing) { event.preventDefault(); $("#search").focus(); $("#search").select(); return; }
    if (event.key === "Escape") { if (typing && $("#search").value) { $("#search").value = ""; list(); } else { event.target.blur?.(); select(null); hideTip(); } return; }
    const step = { ArrowDown: 1, ArrowRight: 1, j: 1, ArrowUp: -1, ArrowLeft: -1, k: -1 }[event.key];
    if (step && (!typing || (event.target.id === "search" && event.key === "ArrowDown")) && listed.length) {
      event.preventDefault();
      const at = listed.indexOf(chosen);
      openCard(listed[at < 0 ? (step > 0 ? 0 : listed.length - 1) : Math.max(0, Math.min(listed.length - 1, at + step))]);
    } else if (event.key === "Enter" && !typing && chosen !== null && event.target.matches("body, .card")) reveal(chosen);
  });
  list();
}
