// The page put together: the top bar, the theme, and everything started in its order.
import { applyChanges, redo } from "./actions.js";
import { startCategory, startTitles } from "./category.js";
import { canGoBack, saveCorrections, saveLabels, toggleContrast, undoHere } from "./commands.js";
import { $, button, el, percent, plural, remember, toast, whole } from "./dom.js";
import { startConnection } from "./connection.js";
import { openDetail, startAsking } from "./detail.js";
import { startGrid } from "./grid.js";
import { openHistory } from "./history.js";
import { openHelp, openMenu, startKeys } from "./keys.js";
import { startMap } from "./map.js";
import { startNews } from "./news.js";
import { startOverview } from "./overview.js";
import { startPlaces, viewOfAddress } from "./places.js";
import { startQueue } from "./queue.js";
import { follow, openRefine, refineLabel, refineTime } from "./refine.js";
import { emit, load, on, show, store } from "./store.js";

function drawTop() {
  const { state } = store, { settled, n, changes, unapplied, redo: forth } = state, server = state.mode === "server";
  $("#title").textContent = state.title;
  $("#progress i").style.width = 100 * settled / Math.max(1, n) + "%";
  $("#progress p").textContent = `${whole(settled)} of ${whole(n)} labelled or confirmed`;
  $("#progress p").dataset.short = percent(settled / Math.max(1, n));
  $("#progress").setAttribute("aria-valuenow", String(Math.round(100 * settled / Math.max(1, n))));
  $("#progress").setAttribute("aria-valuetext", $("#progress p").textContent);
  const parts = [el("span", { class: "changes", role: "status", text: plural(changes, "change") + (server && changes && !unapplied ? ", applied" : ""), title: "In force since the last refine" })];
  if (server) parts.push(button("Apply", "A", applyChanges, { disabled: !unapplied, title: "Write the names and labels to the run, at once" }),
    el("button", { type: "button", class: "button" + (changes || state.refine?.state === "done" ? " primary" : ""), onclick: openRefine, "aria-keyshortcuts": "R", title: "Fit again with your changes as constraints; you see what it changes before it is taken" }, el("span", { class: "refine-label", text: refineLabel() }), el("span", { class: "refine-time", text: refineTime() }), el("kbd", { text: "R", "aria-hidden": "true" })),
    button("Export", "E", saveLabels, { class: "export", title: "Download labels.csv: every item's label as it is now" }));
  else if (changes) parts.push(button("Download corrections.csv", "D", saveCorrections, { class: "primary" }));
  const had = document.activeElement?.closest?.("#work") && document.activeElement.getAttribute("aria-keyshortcuts");
  $("#work").replaceChildren(...parts);
  if (had) $(`#work [aria-keyshortcuts="${had}"]`)?.focus();
  $("#undo").disabled = !canGoBack();
  $("#redo").disabled = !forth;
}
/** The theme: as the system has it, until it is chosen here. */
function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  const set = () => { root.dataset.theme = remember((memory) => memory.getItem("ltgcd-theme")) ?? (system.matches ? "dark" : "light"); emit("theme"); };
  system.addEventListener("change", set);
  $("#theme").addEventListener("click", () => {
    const wanted = root.dataset.theme === "dark" ? "light" : "dark";
    remember((memory) => memory.setItem("ltgcd-theme", wanted));
    root.dataset.theme = wanted;
    emit("theme");
  });
  set();
}
/** On a narrow screen the map stands in the overview, and elsewhere comes over the page. */
function startNarrow() {
  const narrow = matchMedia("(max-width: 900px)");
  const arrange = () => { const home = narrow.matches && store.view.kind === "overview" ? $("#maphome") : $("#main"); if ($("#map").parentNode !== home) home.append($("#map")); };
  narrow.addEventListener("change", arrange);
  on("view", arrange);
  arrange();
  const toggleMap = () => document.body.classList.toggle(narrow.matches ? "map-open" : "no-map");
  on("map", toggleMap);
  $("#mapbutton").addEventListener("click", toggleMap);
  $("#queuebutton").addEventListener("click", () => document.body.classList.toggle("drawer"));
  $("#veil").addEventListener("click", () => document.body.classList.remove("drawer", "map-open"));
  on("view", () => document.body.classList.remove("map-open"));
}

export async function start(source) {
  store.source = source;
  store.zoom = 104;
  document.body.classList.add(source.mode);
  startTheme();
  startTitles(); // before the grid, which shows what the sections are called
  startGrid(openDetail);
  startQueue();
  startCategory();
  startOverview();
  startMap();
  startKeys();
  startNarrow();
  startPlaces();
  startConnection();
  $("#undo").addEventListener("click", undoHere);
  $("#redo").addEventListener("click", redo);
  $("#history").addEventListener("click", openHistory);
  $("#help").addEventListener("click", openHelp);
  $("#menu").addEventListener("click", openMenu);
  $("#contrast").addEventListener("click", toggleContrast);
  if (remember((memory) => memory.getItem("ltgcd-contrast")) === "on") toggleContrast();
  on("ask", startAsking);
  $("#see-changes").addEventListener("click", openRefine);
  on("state refine", drawTop);
  on("state", () => { if (store.state.refine && source.mode === "server") follow(store.state.refine); });
  try {
    await load();
  } catch (error) {
    toast(error.message, { trouble: true });
    $("#lead").textContent = error.message;
    return;
  }
  document.title = `${store.state.title} · ltgcd ${source.mode === "server" ? "review" : "report"}`;
  if (store.state.tiny) document.body.classList.add("pixels");
  const begun = source.mode === "server" && store.state.undo > 0 && store.order.length;
  await show(viewOfAddress() ?? (begun ? { kind: "class", code: store.order[0] } : { kind: "overview" }));
  if (source.news) startNews();
  if (source.restored) toast(`${plural(source.restored, "change")} from before ${source.restored === 1 ? "is" : "are"} here again: this browser keeps them for this file.`, { offer: "Download corrections.csv", act: saveCorrections, keep: true });
  addEventListener("beforeunload", (event) => { if (source.mayBeLost?.()) event.preventDefault(); });
  document.documentElement.dataset.ready = "true";
}
