// What is done elsewhere while the page is open, by a command or in another tab: it is shown, and said in a sentence.
import { inLine } from "./actions.js";
import { toast } from "./dom.js";
import { load, store } from "./store.js";

const EVERY = 4000; // milliseconds between two questions
let asking = false;

/** An open panel, or a name that is being typed, is about what was there: it stays, and is refused if that has changed. */
const isBusy = () => document.visibilityState !== "visible" || document.querySelector("dialog[open], .namebox");

/** One question at a time, beside what a person does: only what it finds waits for its turn. */
async function ask() {
  if (asking || isBusy()) return;
  asking = true;
  try {
    const { state } = store, found = await store.source.news(state);
    if (found.sentence) await inLine(() => take(found, state));
  } finally { asking = false; }
}
async function take({ sentence, base }, state) {
  if (store.state !== state || isBusy()) return; // the person did something meanwhile, which may be the news: asked again
  store.facts.clear();
  await load({ sortAnew: base !== state.base });
  toast(sentence, { keep: true });
}
/** Ask now and then; where nobody answers, a line says so (connection.js). */
export function startNews() {
  const again = () => ask().catch(() => null);
  setInterval(again, EVERY);
  document.addEventListener("visibilitychange", again);
}
