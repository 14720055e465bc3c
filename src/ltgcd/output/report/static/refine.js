// Refine: the next fit with everything that was said, in the background; its difference is shown before it is taken.
import { inLine, inSight } from "./actions.js";
import { $, button, el, plural, shortName, toast, whole } from "./dom.js";
import { openPanel } from "./panel.js";
import { emit, load, nameOf, show, store } from "./store.js";

const EVERY = 600; // milliseconds between two questions
let watching = null;

const seconds = (value) => value < 90 ? `${Math.round(value)} s` : `${Math.round(value / 60)} min`;
/** What stands on the button before anything runs. */
export const refineLabel = () => ({ running: "Refining …", done: "See the changes" }[store.state.refine?.state] ?? "Refine");
export const refineTime = () => store.state.refine?.expected_seconds && !["running", "done"].includes(store.state.refine.state) ? `(about ${seconds(store.state.refine.expected_seconds)})` : "";
function drawLine(refine) {
  const line = $("#refine-line");
  const done = refine?.state === "done";
  line.hidden = refine?.state !== "running" && !done;
  $("#see-changes").hidden = !done;
  $("span", line).hidden = done;
  if (done) $("p", line).textContent = "The next fit is ready. Nothing is changed until you accept it.";
  if (line.hidden || done) return;
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
  if (before !== refine.state) emit("refine");
  if (refine.state === "running" && watching === null) watching = setTimeout(ask, EVERY);
  // Never opened unasked: whoever types or presses a key at this moment means something else.
  if (before === "running" && refine.state === "done") toast("The next fit is ready.", { offer: "See the changes (R)", act: openRefine, keep: true });
  if (before === "running" && refine.state === "failed") toast(refine.message || "The refine failed.", { trouble: true });
}
const readAgain = () => inLine(() => load({ sortAnew: false })).catch(() => null);
export async function openRefine() {
  const state = store.state.refine?.state;
  if (state === "running") { toast("It is running; you can go on looking meanwhile."); return; }
  if (state === "done") { // whether it can still be taken is asked anew: something may have been said since
    const refine = await store.source.refineState().catch(() => store.state.refine);
    follow(refine);
    if (refine.state === "done") return showDiff(refine.diff ?? {});
  }
  await begin();
}
/** A fit that waits is thrown away by it. It counts as running from here on, not from the answer: a key in between must
 *  neither begin a second one nor show the old. */
async function begin() {
  store.state.refine = { ...store.state.refine, state: "running", message: "", seconds: 0, diff: undefined };
  drawLine(store.state.refine);
  emit("refine");
  try {
    follow(await store.source.refine(store.state));
  } catch (error) {
    store.state.refine.state = "idle"; // or what the server says: nothing was begun, so nothing ended either
    if (error.status === 409) await readAgain();
    await ask();
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
/** A grid of the items that the fit that waits would move: all, or from one class to another. */
async function look(panel, move = null) {
  const found = await store.source.refineMoves(move?.codes).catch((error) => toast(error.message, { trouble: true }));
  if (!found) return;
  const { rows, codes, confidence, names } = found;
  panel.close();
  show({ kind: "lasso", rows: Int32Array.from(rows), goesTo: new Map(rows.map((row, at) => [row, { name: names[codes[at]], sure: confidence[at] }])), moved: move ? `${shortName(move.from)} → ${shortName(move.to)}` : "All that would move" });
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
  const panel = openPanel({ title: "What the next fit changes", kind: "wide" }); // no key accepts: it would mean something else on the page
  const lists = Object.entries(WORDS).filter(([key]) => diff[key]?.length).map(([key, word]) => el("section", { class: "diff " + key }, el("h3", { text: `${word} (${whole(diff[key].length)})` }), el("ul", {}, ...diff[key].slice(0, 40).map((one) => el("li", { text: lineOf(one), dir: "auto" })))));
  const changed = diff.changed ?? diff.items ?? 0, number = typeof changed === "number" ? changed : changed.length;
  const facts = [number === 1 ? "1 item changes its class." : `${whole(number)} items change their class.`, diff.surer ? `${plural(diff.surer, "unsure item becomes", "unsure items become")} sure.` : "", diff.less_sure ? `${plural(diff.less_sure, "sure item becomes", "sure items become")} unsure.` : "", diff.kept ? (diff.kept === 1 ? "The confirmed item keeps its own." : `All ${whole(diff.kept)} confirmed items keep theirs.`) : "", store.state.refine?.stale ? "You have changed something since it began, so it can't be taken any more." : ""];
  const moves = (diff.moves ?? []).map((one) => el("li", {}, el("button", { type: "button", class: "link", dir: "auto", title: "Look at these items", text: moveOf(one), onclick: () => look(panel, one) }), el("small", { text: ` · ${one.sure === one.n ? "all sure" : one.sure ? `${whole(one.sure)} of them sure` : "all unsure"} before` })));
  const rest = number - (diff.moves ?? []).reduce((sum, one) => sum + one.n, 0);
  panel.fill(el("p", { text: facts.filter(Boolean).join(" ") }),
    moves.length ? el("section", { class: "diff moved" }, el("h3", { text: "Moves, unsure items included" }), el("ul", {}, ...moves), rest > 0 ? el("p", { class: "soft", text: `and ${plural(rest, "item")} between other classes` }) : null, number ? button("Look at all that would move", null, () => look(panel)) : null) : "",
    lists.length ? el("section", {}, el("h3", { text: "Sure items: before → after" }), el("p", { class: "soft", text: "An unsure item counts in no class; one that becomes sure where it leaned counts from then on." }), el("div", { class: "diffs" }, ...lists)) : el("p", { class: "soft", text: "No class grew, shrank, came or went." }));
  panel.act(store.state.refine?.stale ? button("Refine again", null, again, { class: "primary" }) : button("Accept this fit", null, () => end(true), { class: "primary" }), button("Throw it away", null, () => end(false)), el("span", { class: "soft", text: "Nothing is changed until you accept; closing keeps it for later." }));
  function again() {
    panel.close();
    begin();
  }
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
