// Follows a topic: records arrive as events and are added to the top of the list, as text only.
"use strict";

(() => {
  const MAX_ROWS = 300;
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
    const element = document.createElement("code");
    element.textContent = typeof value === "string" ? value : JSON.stringify(value);
    return element;
  }

  function row(record) {
    const tr = document.createElement("tr");
    tr.className = "fresh";
    const time = new Date(record.timestamp);
    cell(tr, "Position", `${record.partition}@${record.offset}`);
    cell(tr, "Time (UTC)", Number.isNaN(time.getTime()) ? String(record.timestamp) : time.toISOString().slice(11, 23));
    cell(tr, "Key", code(record.key));
    cell(tr, "Value", code(record.value));
    cell(tr, "", "");
    return tr;
  }

  function body() {
    const existing = document.getElementById("record-rows");
    if (existing) return existing;
    const table = document.createElement("table");
    table.className = "records";
    const tbody = document.createElement("tbody");
    tbody.id = "record-rows";
    table.append(tbody);
    document.getElementById("records").replaceChildren(table);
    return tbody;
  }

  function add(data) {
    const rows = body();
    for (const record of data.records) rows.prepend(row(record));
    while (rows.children.length > MAX_ROWS) rows.lastElementChild.remove();
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
  window.addEventListener("pagehide", () => { if (events) stop(); });
})();
