// The connection to the server: while there is none, a line says so and what helps, and it is asked for again and again.
import { $, el, toast } from "./dom.js";
import { on, refreshRows, store } from "./store.js";

const EVERY = 2000; // milliseconds between two questions
let lost = null, asking = null;

/** What stands in the line: nobody answers, or another start of the server does, which does not know this page. */
function words(trouble) {
  if (trouble === "refused") return ["Not connected: “ltgcd review” was started again since this page was opened. Go on in the page that it opened, or open the address that it printed; nothing that was said is lost."];
  return ["Not connected: start ", el("code", { text: `ltgcd review ${store.state?.run ?? "RUN"}`, dir: "auto" }), " again, and go on in the page that it opens; nothing that was said is lost."];
}
const ask = () => (store.state ? store.source.news(store.state) : store.source.state()).catch(() => null); // whether it answers is told by the source

function tell(trouble) {
  if (trouble === lost) return;
  lost = trouble;
  $("#connection").hidden = !trouble;
  if (trouble) {
    $("#connection").replaceChildren(...words(trouble));
    asking ??= setInterval(ask, EVERY);
    return;
  }
  clearInterval(asking);
  asking = null;
  if (!store.state) { location.reload(); return; }
  toast("Connected again.");
  refreshRows();
}
export function startConnection() { on("connection", tell); }
