// One item: as large as it gets, what it is called, where it is, and what is most like it.
import { confirm, junk, moveRows, reject } from "./actions.js";
import { picture, strip } from "./cells.js";
import { breakable, button, classButton, copy, el, percentSure, plural } from "./dom.js";
import { GIVEN, LABELLED, JUNK } from "./items.js";
import { neighbourInGrid } from "./grid.js";
import { nameBox } from "./namebox.js";
import { openPanel } from "./panel.js";
import { openClass } from "./queue.js";
import { describeRows, nameOf, nearTo, show, store, toggle, whereIs } from "./store.js";

export function openDetail(first) {
  if (first === null || first === undefined) return;
  let row = first;
  const step = (by) => { const next = neighbourInGrid(row, by); if (next !== null) { row = next; draw(); } };
  const then = (work) => () => { panel.close(); work([row]); };
  const keys = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), " ": () => panel.close(), Enter: () => panel.close(), c: then(confirm), d: then(junk), v: () => move(),
    x: () => { toggle(row); draw(); }, i: () => copy(store.facts.get(row).id, "the id"),
  };
  if (store.source.can.reject) keys.n = then(reject);
  if (store.source.can.neighbours) keys.g = async () => { const now = row, found = await store.source.neighbours(now).catch(() => null); if (found && row === now && panel.dialog.open) { panel.close(); show({ kind: "lasso", rows: Int32Array.from([now, ...found.rows]), like: true }); } };
  const panel = openPanel({ title: "Item", kind: "wide detail", keys });
  function move() {
    const field = nameBox({ label: "Move to …", near: nearTo([row]), verb: (one) => one ? "" : "make this class", take: (name) => { panel.close(); moveRows([row], name); }, leave: draw });
    panel.act(field.box);
    field.focus();
  }
  async function draw() {
    const now = row, [facts] = await describeRows([row]), { items } = store;
    if (row !== now || !panel.dialog.open) return;
    const said = items.status[row] === JUNK ? "junk" : items.flags[row] & GIVEN ? "confirmed" : items.flags[row] & LABELLED ? "labelled in the source" : `${percentSure(items.confidence[row] / 255)} confident`;
    const large = store.state.kind === "image" ? el("figure", { class: "large" }, picture(row, 1024, facts.id)) : el("blockquote", { class: "whole", dir: "auto", text: facts.text ?? facts.id });
    const place = el("p", {}, el("button", { type: "button", class: "link", onclick: () => { panel.close(); openClass(items.code[row]); } }, el("bdi", {}, ...breakable(whereIs(row)))), ` · ${said}`);
    const second = facts.second === undefined || facts.second === null || !store.classes.has(facts.second) ? null : el("p", { class: "soft" }, "Else: ", el("bdi", { text: nameOf(facts.second) }));
    const near = el("section", { class: "near-items" });
    panel.heading.textContent = "Item";
    panel.fill(el("div", { class: "halves" }, large, el("div", {}, el("p", { class: "id" }, el("code", { text: facts.id, dir: "auto" }), el("button", { type: "button", class: "button", text: "Copy", onclick: keys.i })), place, second, near)));
    panel.act(button("Confirm", "c", keys.c, { class: "primary" }), keys.n ? classButton("Not ", nameOf(items.code[row]), 24, "n", keys.n) : null, button("Move to …", "v", keys.v), button("Junk", "d", keys.d),
      button(store.selection.has(row) ? "Deselect" : "Select", "x", keys.x), el("span", { class: "space" }), button("‹", "←", () => step(-1), { "aria-label": "Item before" }), button("›", "→", () => step(1), { "aria-label": "Item after" }));
    if (!store.source.can.neighbours) return;
    const found = await store.source.neighbours(row).catch(() => null);
    if (!found || row !== now || !panel.dialog.open) return;
    await describeRows(found.rows);
    near.replaceChildren(el("h3", { text: plural(found.rows.length, "item") + " most like it" }), strip(found.rows, { label: "Most like it", onpick: (other) => { row = other; draw(); } }),
      button("Show them all in the grid", "g", keys.g));
  }
  draw();
}
