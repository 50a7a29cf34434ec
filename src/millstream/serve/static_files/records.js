// Follows a topic: records come as events and are put on top of the list, as text and nothing else.
"use strict";

(() => {
  const MOST_ROWS = 300;
  const button = document.getElementById("tail");
  if (!button) return;
  let events = null;

  function cell(row, label, ...content) {
    const td = document.createElement("td");
    td.dataset.label = label;
    td.append(...content);
    row.append(td);
  }

  function code(value) {
    const found = document.createElement("code");
    found.textContent = typeof value === "string" ? value : JSON.stringify(value);
    return found;
  }

  function row(record) {
    const tr = document.createElement("tr");
    tr.className = "fresh";
    const when = new Date(record.timestamp);
    cell(tr, "Place", `${record.partition}@${record.offset}`);
    cell(tr, "Time", Number.isNaN(when.getTime()) ? String(record.timestamp) : when.toISOString().slice(11, 23));
    cell(tr, "Key", code(record.key));
    cell(tr, "Value", code(record.value));
    cell(tr, "", "");
    return tr;
  }

  function body() {
    let found = document.getElementById("record-rows");
    if (found) return found;
    const table = document.createElement("table");
    table.className = "records";
    found = document.createElement("tbody");
    found.id = "record-rows";
    table.append(found);
    document.getElementById("records").replaceChildren(table);
    return found;
  }

  function add(data) {
    const rows = body();
    for (const record of data.records) rows.prepend(row(record));
    while (rows.children.length > MOST_ROWS) rows.lastElementChild.remove();
    button.textContent = data.skipped ? `Following (${data.skipped.toLocaleString()} skipped)` : "Following";
  }

  function stop() {
    events.close();
    events = null;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Follow live";
  }

  function start() {
    const form = new FormData(button.form);
    const query = new URLSearchParams();
    for (const name of ["partition", "key", "where"]) if (form.get(name)) query.set(name, form.get(name));
    events = new EventSource(`/api/live/topics/${encodeURIComponent(button.dataset.topic)}?${query}`);
    events.addEventListener("records", (event) => add(JSON.parse(event.data)));
    events.addEventListener("problem", (event) => { stop(); button.textContent = JSON.parse(event.data).message; });
    events.addEventListener("error", () => { if (events && events.readyState === EventSource.CLOSED) stop(); });
    button.setAttribute("aria-pressed", "true");
    button.textContent = "Following";
  }

  button.addEventListener("click", () => (events ? stop() : start()));
  window.addEventListener("pagehide", () => { if (events) events.close(); });
})();
