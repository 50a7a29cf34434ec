// <millstream-table src="https://HOST/api/live/tables/TABLE?app=APP&token=msr_…" columns="key,value.total"></millstream-table>
// Shows the rows of a table as they change. A lost connection is resumed without a gap, or the rows are loaded again.
"use strict";

(() => {
  const at = (row, path) => path.split(".").reduce((value, name) => value?.[name], row);
  const text = (value) => value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  const id = (row) => JSON.stringify([row.key, row.start ?? null]);
  const style = "table{border-collapse:collapse;font:inherit}th,td{padding:.25em .75em;text-align:left;border-bottom:1px solid #8884}"
    + "td.num{text-align:right;font-variant-numeric:tabular-nums}:host([state=lost]) table{opacity:.5}";

  class MillstreamTable extends HTMLElement {
    static observedAttributes = ["src", "columns"];

    connectedCallback() {
      if (!this.shadowRoot) this.attachShadow({ mode: "open" });
      this.connect();
    }

    disconnectedCallback() {
      this.events?.close();
      this.events = null;
    }

    attributeChangedCallback() {
      if (this.isConnected && this.shadowRoot) this.connect();
    }

    connect() {
      this.disconnectedCallback();
      this.rows = new Map();
      this.build();
      if (!this.getAttribute("src")) return;
      this.setAttribute("state", "connecting");
      const events = this.events = new EventSource(this.getAttribute("src"));
      events.addEventListener("state", (event) => this.take(JSON.parse(event.data).rows, [], true));
      events.addEventListener("rows", (event) => {
        const { changed, gone } = JSON.parse(event.data);
        this.take(changed, gone, false);
      });
      events.addEventListener("problem", (event) => this.fail(JSON.parse(event.data).message));
      events.addEventListener("open", () => this.setAttribute("state", "live"));
      events.addEventListener("error", () => {
        this.setAttribute("state", "lost");
        if (events.readyState === EventSource.CLOSED) this.fail("the connection was refused");
      });
    }

    fail(message) {
      this.setAttribute("state", "failed");
      this.dispatchEvent(new CustomEvent("problem", { detail: message }));
    }

    build() {
      const sheet = document.createElement("style");
      sheet.textContent = style;
      const table = document.createElement("table");
      table.part = "table";
      const head = table.createTHead().insertRow();
      this.columns = (this.getAttribute("columns") || "key,value").split(",").map((name) => name.trim());
      for (const name of this.columns) {
        const cell = document.createElement("th");
        cell.textContent = name.replace(/^value\./, "");
        head.append(cell);
      }
      this.body = table.createTBody();
      this.shadowRoot.replaceChildren(sheet, table);
    }

    take(changed, gone, isAll) {
      if (isAll) {
        this.rows.clear();
        this.body.replaceChildren();
      }
      for (const row of gone) {
        this.rows.get(id(row))?.remove();
        this.rows.delete(id(row));
      }
      for (const row of changed) this.show(row);
      this.dispatchEvent(new CustomEvent("rows", { detail: { changed, gone, isAll } }));
    }

    show(row) {
      let line = this.rows.get(id(row));
      if (!line) {
        line = document.createElement("tr");
        this.rows.set(id(row), line);
        this.body.append(line);
      }
      line.replaceChildren(...this.columns.map((path) => {
        const value = at(row, path);
        const cell = document.createElement("td");
        cell.textContent = text(value);
        if (typeof value === "number") cell.className = "num";
        return cell;
      }));
    }
  }

  customElements.define("millstream-table", MillstreamTable);
})();
