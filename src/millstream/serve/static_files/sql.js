// Sends the statements of the editor to the API and shows their rows as they arrive, as text only.
"use strict";

(() => {
  const csrf = document.querySelector('meta[name="csrf"]').content;
  const form = document.getElementById("sql");
  const editor = document.getElementById("sql-text");
  const earliest = document.getElementById("sql-earliest");
  const stopButton = document.getElementById("sql-stop");
  const state = document.getElementById("sql-state");
  const problem = document.getElementById("sql-error");
  const result = document.getElementById("sql-result");
  const storageKey = `sql:${form.dataset.app ?? ""}`;
  const NUMBERS = /^(INTEGER|BIGINT|DOUBLE|DECIMAL)/;
  let running = null;

  // Numbers stay as the server wrote them: JavaScript would round large ones.
  const exact = (_, value, context) =>
    typeof value === "number" && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;

  function make(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  // The rows of one statement: those of a result from its first row on, changes with the newest one at the top.
  class Rows {
    constructor(columns, isChanges) {
      this.columns = columns;
      this.isChanges = isChanges;
      this.count = 0;
      this.most = Number(form.dataset.maxRows);
      this.note = make("p", undefined, "note");
      const head = make("tr");
      for (const column of columns) {
        const th = make("th", column.name, NUMBERS.test(column.type) ? "num" : "");
        th.scope = "col";
        th.title = column.is_key ? `${column.type}, key` : column.type;
        head.append(th);
      }
      const table = make("table");
      table.createTHead().append(head);
      this.body = table.createTBody();
      const box = make("div", undefined, "table");
      box.tabIndex = 0; // so that the keyboard can scroll it
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Rows");
      box.append(table);
      result.append(this.note, box);
    }

    cell(column, value) {
      const td = make("td", undefined, NUMBERS.test(column.type) ? "num" : "");
      td.dataset.label = column.name;
      if (value === null) td.append(make("span", "null", "none"));
      else td.append(make("span", typeof value === "string" ? value : JSON.stringify(value)));
      return td;
    }

    add(line) {
      this.count += 1;
      if (!this.isChanges && this.count > this.most) return;
      const row = make("tr", undefined, this.isChanges ? "fresh" : "");
      row.append(...line.row.map((value, index) => this.cell(this.columns[index], value)));
      if (line.deleted) {
        row.classList.add("deleted");
        row.cells[0]?.append(make("span", "deleted", "badge"));
      }
      if (this.isChanges) this.body.prepend(row);
      else this.body.append(row);
      if (this.body.rows.length > this.most) this.body.lastElementChild.remove();
    }

    describe() {
      const which = this.isChanges ? "latest" : "first";
      this.note.textContent = this.count > this.most
        ? `${this.count.toLocaleString("en")} rows; the ${which} ${this.most.toLocaleString("en")} are shown`
        : `${this.count.toLocaleString("en")} ${this.count === 1 ? "row" : "rows"}`;
    }
  }

  function showState(text) {
    state.textContent = text;
  }

  // The last two lines draw the place with a caret; the cursor of the editor goes there.
  function showError(error, isExact) {
    const text = [error.message, error.hint].filter(Boolean).join("\n").split("\n");
    const place = error.line ? text.splice(-2) : [];
    problem.replaceChildren(make("p", text.join("\n")), ...(place.length ? [make("pre", place.join("\n"))] : []));
    problem.hidden = false;
    showState("failed");
    if (!error.line || !isExact) return;
    editor.setAttribute("aria-invalid", "true");
    const before = editor.value.split("\n").slice(0, error.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    const lineText = editor.value.slice(before).split("\n", 1)[0];
    // the server counts characters, the editor counts UTF-16 units
    const at = before + [...lineText].slice(0, error.column - 1).join("").length;
    editor.focus();
    editor.setSelectionRange(at, at);
  }

  async function* lines(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      yield parts.filter(Boolean).map((part) => JSON.parse(part, exact));
    }
  }

  async function show(body) {
    let rows = null;
    for await (const received of lines(body)) {
      for (const line of received) {
        if (line.columns) rows = new Rows(line.columns, line.changes === true);
        else if (line.row) rows.add(line);
        else if (line.message) result.append(make("pre", line.message));
        else if (line.error) return showError(line.error, false);
        else if (line.end) return showState(line.end);
        if (line.changes) showState("running");
        rows?.describe();
      }
    }
    return showState("the connection ended");
  }

  function clear() {
    problem.hidden = true;
    problem.replaceChildren();
    editor.removeAttribute("aria-invalid");
    result.replaceChildren();
    showState("…");
  }

  function request(sql, explain) {
    const body = { sql, explain };
    if (form.dataset.app) body.app = form.dataset.app;
    if (earliest.checked) body.settings = { "auto.offset.reset": "earliest" };
    return {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
      body: JSON.stringify(body),
    };
  }

  async function run(explain) {
    if (!form.reportValidity()) return;
    running?.abort();
    const own = new AbortController();
    running = own;
    const sql = editor.value;
    clear();
    stopButton.disabled = false;
    try {
      const response = await fetch("/api/sql/query", { ...request(sql, explain), signal: own.signal });
      if (response.ok) await show(response.body);
      else showError((await response.json()).error, editor.value === sql);
    } catch (error) {
      if (running !== own) return; // another run replaced this one
      if (error.name === "AbortError") showState("stopped");
      else showError({ message: `no answer from the server: ${error.message}` }, false);
    } finally {
      if (running === own) {
        running = null;
        stopButton.disabled = true;
      }
    }
  }

  const keep = () => sessionStorage.setItem(storageKey, editor.value);

  editor.value = sessionStorage.getItem(storageKey) ?? editor.value;
  editor.addEventListener("input", () => {
    editor.removeAttribute("aria-invalid");
    keep();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(false);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    run(false);
  });
  document.getElementById("sql-explain").addEventListener("click", () => run(true));
  stopButton.addEventListener("click", () => running?.abort());
  document.addEventListener("click", (event) => {
    const text = event.target.closest("[data-insert]")?.dataset.insert;
    if (text === undefined) return;
    editor.setRangeText(text, editor.selectionStart, editor.selectionEnd, "end");
    editor.focus();
    keep();
  });
  window.addEventListener("pagehide", () => running?.abort());
})();
