// Audit: a random sample of a class is checked, which gives its precision with an interval.
import { act } from "./actions.js";
import { strip } from "./cells.js";
import { button, el, percentSure, plural, shortName, whole } from "./dom.js";
import { openPanel, waitFor } from "./panel.js";
import { nameOf, store } from "./store.js";

export function openAudit(code) {
  let answer = null, wrong = new Set(), list = null;
  const panel = openPanel({ title: `Check a sample of “${shortName(nameOf(code))}”`, kind: "wide", keys: { Enter: () => take() } });
  /** One can't tell what was accepted at one go from what was looked at one by one: all of it was confirmed, or corrected. */
  function result() {
    const { checked, right, low, high } = answer, precision = checked ? `${percentSure(right / checked)} precision` : "";
    if (!checked) return answer.rows.length ? nothing() : "There is nothing to check: the fit itself put nothing here that is left.";
    if (!answer.rows.length) return `${checked === 1 ? "Its one item is" : `All ${whole(checked)} items are`} confirmed or corrected, and ${whole(right)} ${right === 1 ? "was" : "were"} right: ${precision}.`;
    return `Of ${plural(checked, "item")} confirmed or corrected, ${whole(right)} ${right === 1 ? "was" : "were"} right: ${precision}, 95 % interval ${percentSure(low)} to ${percentSure(high)}.`;
  }
  /** A sample tells of the class only if chance alone has drawn it: what was said of other items says nothing here. */
  function nothing() {
    const { labelled, given } = store.classes.get(code), said = [labelled ? `${whole(labelled)} labelled` : "", given ? `${whole(given)} confirmed` : ""].filter(Boolean).join(" and ");
    return said ? `Nothing of this sample was checked yet: the ${said} were not drawn for it.` : "Nothing of it was confirmed yet.";
  }
  function foot() {
    panel.act(button(wrong.size ? `${whole(wrong.size)} wrong, the other ${whole(answer.rows.length - wrong.size)} right` : `All ${whole(answer.rows.length)} are right`, "Enter", take, { class: "primary" }),
      el("span", { class: "soft", text: "Click, or x on one, marks what is wrong" }));
  }
  async function draw() {
    answer = await waitFor(panel, () => store.source.audit(code));
    if (!answer) return;
    wrong = new Set();
    if (!answer.rows.length) { panel.fill(el("p", { class: "verdict", text: result() })); panel.act(button("Close", "Esc", panel.close)); return; }
    list = strip(answer.rows, { label: "Sample; marked ones are wrong", onpick: (row) => { if (!wrong.delete(row)) wrong.add(row); list.refresh(); foot(); }, marked: (row) => !wrong.has(row) });
    panel.fill(el("p", { class: "verdict", role: "status", text: result() }), el("p", { class: "soft", text: `${plural(answer.rows.length, "item")} drawn at random: which of them do not belong to it?` }), list);
    list.firstChild?.focus();
    foot();
  }
  async function take() {
    if (!answer?.rows.length) return;
    const right = answer.rows.filter((row) => !wrong.has(row)), events = [];
    if (right.length) events.push({ op: "assign", rows: right, code });
    if (wrong.size) events.push({ op: "reject", rows: [...wrong], code });
    if (await act(events, `Checked ${plural(answer.rows.length, "item")}.`)) draw();
  }
  draw();
}
