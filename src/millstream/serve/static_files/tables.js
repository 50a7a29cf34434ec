// Sorts a table by the column whose heading is clicked: first one way, then the other, then as it was; and filters its
// rows by a text. Both are kept for the session, and applied again after each refresh.
"use strict";

(() => {
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  const storageKey = (table) => `sort:${location.pathname}:${table.dataset.sortable}`;
  const sortValue = (row, column) => row.cells[column]?.querySelector("[data-value]")?.dataset.value
    ?? row.cells[column]?.textContent ?? "";

  function compare(left, right, column, isNumeric) {
    const [a, b] = [sortValue(left, column), sortValue(right, column)];
    if (!isNumeric) return collator.compare(a, b);
    return (a === "" ? -Infinity : Number(a)) - (b === "" ? -Infinity : Number(b));
  }

  // Descending first for numbers: the largest ones matter.
  function apply(table) {
    const [column, order] = (sessionStorage.getItem(storageKey(table)) || "").split(" ");
    const heads = [...table.tHead.rows[0].cells];
    const head = heads[Number(column)];
    for (const other of heads) other.removeAttribute("aria-sort");
    if (column === "" || !head?.querySelector("button")) return;
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const isNumeric = head.classList.contains("num");
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((left, right) => sign * compare(left, right, Number(column), isNumeric));
    body.append(...rows);
  }

  function next(head) {
    const orders = head.classList.contains("num") ? ["descending", "ascending"] : ["ascending", "descending"];
    return orders[orders.indexOf(head.getAttribute("aria-sort")) + 1];
  }

  document.addEventListener("click", (event) => {
    const head = event.target.closest("table[data-sortable] thead button")?.closest("th");
    if (!head) return;
    const table = head.closest("table");
    const order = next(head);
    if (order) sessionStorage.setItem(storageKey(table), `${head.cellIndex} ${order}`);
    else sessionStorage.removeItem(storageKey(table));
    if (order) apply(table);
    else {
      head.removeAttribute("aria-sort");
      const rows = [...table.tBodies[0].rows];
      table.tBodies[0].append(...rows.sort((left, right) => left.dataset.row - right.dataset.row));
    }
  });

  const findKey = (input) => `find:${location.pathname}:${input.dataset.find}`;

  function filter(input) {
    const wanted = input.value.trim().toLowerCase();
    const table = document.querySelector(`table[data-sortable="${input.dataset.find}"]`);
    for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }

  document.addEventListener("input", (event) => {
    if (event.target.dataset.find === undefined) return;
    sessionStorage.setItem(findKey(event.target), event.target.value);
    filter(event.target);
  });

  function applyAll(root) {
    root.querySelectorAll("table[data-sortable]").forEach(apply);
    for (const input of root.querySelectorAll("[data-find]")) {
      input.value = sessionStorage.getItem(findKey(input)) || "";
      filter(input);
    }
  }

  document.addEventListener("refreshed", (event) => applyAll(event.target));
  applyAll(document);
})();
