// Every header of a table sorts it: once upwards, once downwards, then as it was. What was not run stays at the end.
"use strict";
const said = document.getElementById("said");
const value = (row, at) => row.cells[at].dataset.v;
const compare = (a, b) => {
  const [x, y] = [Number(a), Number(b)];
  if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  return a < b ? -1 : a > b ? 1 : 0;
};
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    head.firstElementChild.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const next = before === "ascending" ? "descending" : before === "descending" ? null : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      const rows = [...original];
      if (next) {
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        rows.sort((a, b) => {
          const [x, y] = [value(a, at), value(b, at)];
          if (!x || !y) return (x ? 0 : 1) - (y ? 0 : 1);
          return sign * compare(x, y);
        });
      }
      body.append(...rows);
      said.textContent = next ? `${head.innerText.trim()}: ${next}` : "as it was";
    });
  });
}
for (const cell of document.querySelectorAll("td")) if (cell.textContent.length > 34) cell.classList.add("long");
if (window.matchMedia("(max-width: 40rem)").matches) document.querySelector("nav details").open = false;
