// Where one has been: each view is a step of the browser's own way back and forth, and stands in the address where it has a name.
import { on, sameView, show, store } from "./store.js";

const seen = new Map(); // views by the number that the browser keeps with each step: a lasso has no address
let number = 0, here = null, turning = false;

/** What the address names, so that a reload comes back to it. */
export function viewOfAddress() {
  const [, code] = location.hash.match(/^#class-(\d+)$/) ?? [];
  if (code && store.classes.has(Number(code))) return { kind: "class", code: Number(code) };
  const [, status] = location.hash.match(/^#(odd|unsure|junk|added|changed)$/) ?? [];
  return status ? { kind: "lane", status } : null;
}
function addressOf({ kind, code, status }) {
  return kind === "class" ? `#class-${code}` : kind === "lane" ? `#${status}` : location.href.split("#")[0];
}
function step() {
  const { view } = store, again = here !== null && sameView(here, view) && view.rows === here.rows;
  const isNew = here !== null && !again && !turning, at = isNew ? ++number : history.state?.place ?? ++number;
  seen.set(at, view);
  here = view;
  history[isNew ? "pushState" : "replaceState"]({ place: at }, "", addressOf(view));
}
/** The browser went back or forth, or somebody changed the address. */
function turn(event) {
  turning = true;
  try {
    const view = seen.get(event.state?.place) ?? viewOfAddress() ?? { kind: "overview" };
    show(view.kind === "class" && !store.classes.has(view.code) ? { kind: "overview" } : view);
  } finally { turning = false; }
}
export function startPlaces() {
  number = history.state?.place ?? 0; // after a reload steps of before are still there: their numbers are not given twice
  on("view", step);
  addEventListener("popstate", turn);
}
