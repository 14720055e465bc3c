// Refine: the next fit with everything that was said, in the background; its difference is shown before it is taken.
import { inLine, inSight } from "./actions.js";
import { $, button, el, plural, shortName, toast, whole } from "./dom.js";
import { openPanel } from "./panel.js";
import { load, nameOf, show, store } from "./store.js";

const EVERY = 600; // milliseconds between two questions
let watching = null;

const seconds = (value) => value < 90 ? `${Math.round(value)} s` : `${Math.round(value / 60)} min`;
/** What stands on the button before anything runs. */
export const refineLabel = () => ({ running: "Refining …", done: "See changes" }[store.state.refine?.state] ?? "Refine");
export const refineTime = () => store.state.refine?.expected_seconds && !["running", "done"].includes(store.state.refine.state) ? `(about ${seconds(store.state.refine.expected_seconds)})` : "";
function drawLine(refine) {
  const line = $("#refine-line");
  line.hidden = refine?.state !== "running";
  if (line.hidden) return;
  const share = refine.expected_seconds ? Math.min(.97, (refine.seconds ?? 0) / refine.expected_seconds) : null;
  const late = refine.seconds > refine.expected_seconds, expected = refine.expected_seconds ? (late ? ", longer than expected" : ` of about ${seconds(refine.expected_seconds)}`) : "";
  $("p", line).textContent = `${refine.message || "Fitting again with your changes"} · ${seconds(refine.seconds ?? 0)}${expected}`;
  $("i", line).style.width = share === null ? "100%" : share * 100 + "%";
}
async function ask() {
  watching = null;
  const refine = await store.source.refineState().catch(() => null);
  if (refine) follow(refine);
  else watching = setTimeout(ask, 4 * EVERY);
}
/** Go along with a refine that runs, whoever started it. */
export function follow(refine) {
  const before = store.state.refine?.state;
  store.state.refine = { ...store.state.refine, ...refine };
  drawLine(refine);
  for (const node of document.querySelectorAll(".refine-label")) node.textContent = refineLabel();
  for (const node of document.querySelectorAll(".refine-time")) node.textContent = refineTime();
  if (refine.state === "running" && watching === null) watching = setTimeout(ask, EVERY);
  if (before === "running" && refine.state === "done") openRefine();
  if (before === "running" && refine.state === "failed") toast(refine.message || "The refine failed.", { trouble: true });
}
const readAgain = () => inLine(() => load({ sortAnew: false })).catch(() => null);
export async function openRefine() {
  const state = store.state.refine?.state;
  if (state === "running") { toast("It is running; you can go on looking meanwhile."); return; }
  if (state === "done") { showDiff(store.state.refine.diff ?? (await store.source.refineState()).diff ?? {}); return; }
  try {
    follow(await store.source.refine(store.state));
  } catch (error) {
    if (error.status === 409) await readAgain();
    toast(error.status === 409 ? "Something was changed elsewhere; look again, then refine." : error.message, { trouble: true });
  }
}

// ---------------------------------------------------------------- the difference
const WORDS = { grown: "Grew", shrunk: "Shrank", appeared: "Appeared", vanished: "Gone" };
/** One line of the difference; the source gives [code, before, after], an object, or a name. */
function lineOf(one) {
  if (typeof one !== "object" || one === null) return typeof one === "number" ? nameOf(one) : String(one);
  const [code, before, after] = Array.isArray(one) ? one : [one.code, one.before, one.after];
  const name = one.name ?? (typeof code === "number" ? nameOf(code) : String(code));
  return `${shortName(name)}${before === undefined ? "" : `: ${whole(before)} → ${whole(after ?? 0)}`}`;
}
function moveOf(one) {
  const [from, to, n] = Array.isArray(one) ? one : [one.from, one.to, one.n], name = (what) => shortName(typeof what === "number" ? nameOf(what) : String(what));
  return `${name(from)} → ${name(to)}: ${whole(n)}`;
}
/** Bring back what was before the last refine that was taken. */
export async function undoRefine() {
  try {
    const done = await inSight(async () => {
      await store.source.refineEnd("undo", store.state);
      store.facts.clear();
      await load({ sortAnew: true });
      return true;
    });
    if (done) toast("The fit before the last refine is back.");
  } catch (error) {
    if (error.status === 409) await readAgain();
    toast(error.message, { trouble: true });
  }
}
function showDiff(diff) {
  const keys = { Enter: () => end(true), a: () => end(true), t: () => end(false) };
  const panel = openPanel({ title: "What the next fit changes", kind: "wide", keys });
  const lists = Object.entries(WORDS).filter(([key]) => diff[key]?.length).map(([key, word]) => el("section", { class: "diff " + key }, el("h3", { text: `${word} (${whole(diff[key].length)})` }), el("ul", {}, ...diff[key].slice(0, 40).map((one) => el("li", { text: lineOf(one), dir: "auto" })))));
  const changed = diff.changed ?? diff.items ?? 0, number = typeof changed === "number" ? changed : changed.length;
  const facts = [number === 1 ? "1 item changes its class." : `${whole(number)} items change their class.`, diff.kept ? (diff.kept === 1 ? "The confirmed item keeps its own." : `All ${whole(diff.kept)} confirmed items keep theirs.`) : "", store.state.refine?.stale ? "You have changed something since it began, so it can't be taken: refine again." : ""];
  if (diff.moves?.length) lists.push(el("section", { class: "diff" }, el("h3", { text: "Most items went" }), el("ul", {}, ...diff.moves.slice(0, 40).map((one) => el("li", { text: moveOf(one), dir: "auto" })))));
  panel.fill(el("p", { text: facts.filter(Boolean).join(" ") }), lists.length ? el("div", { class: "diffs" }, ...lists) : el("p", { class: "soft", text: "No class grew, shrank, came or went." }));
  panel.act(button("Accept this fit", "Enter", () => end(true), { class: "primary" }), button("Throw it away", "t", () => end(false)), el("span", { class: "soft", text: "Nothing is changed until you accept; closing keeps it for later." }));
  async function end(accepted) {
    panel.close();
    try {
      const done = await inSight(async () => {
        await store.source.refineEnd(accepted ? "accept" : "discard", store.state);
        store.state.refine = { ...store.state.refine, state: "idle", diff: undefined };
        if (accepted) { store.facts.clear(); await load({ sortAnew: true }); }
        return true;
      });
      if (!done) return;
      if (accepted) await show({ kind: "overview" });
      else follow({ state: "idle" });
      toast(accepted ? "The fit is taken; the queue is sorted anew." : "Thrown away; everything is as it was.");
    } catch (error) {
      if (error.status === 409) await readAgain();
      toast(error.message, { trouble: true });
    }
  }
}
