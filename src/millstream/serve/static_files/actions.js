// Sends forms that change something to the API, as JSON, with the token that shows that they come from this page.
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
    const found = {};
    for (const input of form.elements) {
      if (!input.name) continue;
      const given = value(input);
      if (given !== undefined) found[input.name] = given;
    }
    if (found.form === "json") found.value = JSON.parse(found.value);
    return found;
  }

  function moves(answer) {
    const verb = answer.executed ? "moved" : "would move";
    return answer.moves
      .map((one) => `${verb} ${one.topic}/${one.partition} from ${one.before ?? "nowhere"} to ${one.after}`)
      .join("; ");
  }

  function told(answer) {
    if (answer.done !== undefined) return answer.done;
    if (answer.moves !== undefined) return moves(answer) || "there is nothing to move";
    if (answer.offset !== undefined) return `written to ${answer.topic}, ${answer.partition}@${answer.offset}`;
    if (answer.sent !== undefined) {
      const count = (found) => Object.values(found).reduce((sum, one) => sum + one, 0);
      return `${count(answer.sent)} sent back, ${count(answer.kept)} kept: their topic is gone`;
    }
    return "done";
  }

  async function send(form) {
    const answer = await fetch(form.dataset.action, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
      body: JSON.stringify(body(form)),
    });
    const data = await answer.json();
    if (!answer.ok) throw new Error([data.error.message, data.error.hint].filter(Boolean).join("; "));
    return data;
  }

  // What was done is told outside of the form, which a refresh of the page may replace.
  function toast(text) {
    const found = document.getElementById("toast");
    found.textContent = text;
    found.hidden = false;
    clearTimeout(toast.timer);
    toast.timer = setTimeout(() => { found.hidden = true; }, 8000);
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
    if (then.startsWith("/")) window.millstream.pause(true); // what this page is about may be gone in a moment
    try {
      const data = await send(form);
      output.className = "good";
      output.textContent = told(data);
      if (then.startsWith("/") && !told(data).startsWith("nothing")) {
        location.assign(then);
        return;
      }
      window.millstream.pause(false);
      if (then === "reload") {
        toast(told(data));
        window.millstream.refresh();
      }
    } catch (error) {
      window.millstream.pause(false);
      output.className = "bad";
      output.textContent = error instanceof SyntaxError ? `this is not JSON: ${error.message}` : error.message;
    }
  });
})();
