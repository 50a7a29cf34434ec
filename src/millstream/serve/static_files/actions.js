// Sends forms to the API as JSON, with the CSRF token of the page.
"use strict";

(() => {
  const csrf = document.querySelector('meta[name="csrf"]').content;

  function value(input) {
    const text = input.value;
    if (text === "" && input.name !== "value") return undefined;
    switch (input.dataset.type) {
      case "number": return Number(text);
      case "json": return JSON.parse(text);
      case "list": return [text];
      default: return text;
    }
  }

  function body(form) {
    const fields = {};
    for (const input of form.elements) {
      if (!input.name) continue;
      const field = value(input);
      if (field !== undefined) fields[input.name] = field;
    }
    if (fields.form === "json") fields.value = JSON.parse(fields.value);
    return fields;
  }

  function moves(result) {
    const verb = result.executed ? "moved" : "would move";
    return result.moves
      .map((move) => `${verb} ${move.topic}/${move.partition} from ${move.before ?? "no offset"} to ${move.after}`)
      .join("; ");
  }

  function message(result) {
    if (result.done !== undefined) return result.done;
    if (result.moves !== undefined) return moves(result) || "nothing to move";
    if (result.offset !== undefined) return `written to ${result.topic}, ${result.partition}@${result.offset}`;
    if (result.sent !== undefined) {
      const total = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);
      const kept = total(result.kept);
      return `${total(result.sent)} replayed` + (kept ? `, ${kept} not replayed: their topic no longer exists` : "");
    }
    return "done";
  }

  async function send(form) {
    const response = await fetch(form.dataset.action, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
      body: JSON.stringify(body(form)),
    });
    const data = await response.json();
    if (!response.ok) throw new Error([data.error.message, data.error.hint].filter(Boolean).join("; "));
    return data;
  }

  // The outcome is shown outside the form, since a refresh of the page may replace the form.
  function toast(text) {
    const box = document.getElementById("toast");
    box.textContent = text;
    box.hidden = false;
    clearTimeout(toast.timer);
    toast.timer = setTimeout(() => { box.hidden = true; }, 8000);
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-action]");
    if (!form) return;
    event.preventDefault();
    if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) return;
    const output = form.querySelector("output");
    output.className = "";
    output.textContent = "…";
    const then = form.dataset.then;
    if (then.startsWith("/")) window.millstream.pause(true); // the request may delete what this page shows
    try {
      const text = message(await send(form));
      output.className = "good";
      output.textContent = text;
      if (then.startsWith("/") && !text.startsWith("nothing")) {
        location.assign(then);
        return;
      }
      window.millstream.pause(false);
      if (then === "reload") {
        toast(text);
        window.millstream.refresh();
      }
    } catch (error) {
      window.millstream.pause(false);
      output.className = "bad";
      output.textContent = error instanceof SyntaxError ? `invalid JSON: ${error.message}` : error.message;
    }
  });
})();
