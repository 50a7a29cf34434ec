// Moves and zooms the drawing of a topology, and shows what is known of the node or edge that was chosen.
"use strict";

(() => {
  const box = document.getElementById("graph");
  const panel = document.getElementById("panel");
  if (!box) return;
  const SMALLEST = 0.6;
  let view = null;
  let chosen = null;

  const svg = () => box.querySelector("svg");

  function whole() {
    const drawing = svg();
    return { x: 0, y: 0, w: Number(drawing.dataset.width), h: Number(drawing.dataset.height) };
  }

  // Show all if it can be read then, else its beginning.
  function first() {
    const all = whole();
    const size = svg().getBoundingClientRect();
    const scale = Math.max(Math.min(size.width / all.w, size.height / all.h, 1), SMALLEST);
    const w = size.width / scale;
    const h = size.height / scale;
    return { x: w > all.w ? (all.w - w) / 2 : 0, y: h > all.h ? (all.h - h) / 2 : 0, w, h };
  }

  function apply() {
    if (view) svg().setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    for (const one of box.querySelectorAll("[data-detail]")) {
      one.classList.toggle("chosen", one.dataset.detail === chosen);
    }
  }

  function zoom(factor, at) {
    view = view || whole();
    const centre = at || { x: view.x + view.w / 2, y: view.y + view.h / 2 };
    const most = Math.max(whole().w, whole().h) * 3;
    const w = Math.min(most, Math.max(120, view.w * factor));
    const scale = w / view.w;
    view = { x: centre.x - (centre.x - view.x) * scale, y: centre.y - (centre.y - view.y) * scale, w, h: view.h * scale };
    apply();
  }

  function place(event) {
    const point = new DOMPoint(event.clientX, event.clientY);
    return point.matrixTransform(svg().getScreenCTM().inverse());
  }

  box.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, place(event));
  }, { passive: false });

  let drag = null;
  box.addEventListener("pointerdown", (event) => {
    drag = { at: place(event), moved: false, id: event.pointerId };
  });
  box.addEventListener("pointermove", (event) => {
    if (!drag || drag.id !== event.pointerId) return;
    const now = place(event);
    const dx = drag.at.x - now.x;
    const dy = drag.at.y - now.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    svg().classList.add("moving");
    view = view || whole();
    view = { ...view, x: view.x + dx, y: view.y + dy };
    apply();
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
    box.addEventListener(name, () => {
      svg().classList.remove("moving");
      setTimeout(() => { drag = null; }, 0);
    });
  }

  document.querySelector(".zoom").addEventListener("click", (event) => {
    const how = event.target.dataset.zoom;
    if (how === "in") zoom(1 / 1.3);
    else if (how === "out") zoom(1.3);
    else if (how === "fit") { view = whole(); apply(); }
  });

  function line(text, value) {
    const found = document.createElement("p");
    const code = document.createElement("code");
    code.textContent = typeof value === "string" ? value : JSON.stringify(value);
    found.append(`${text} `, code);
    return found;
  }

  async function samples(article) {
    const place_ = article.querySelector(".samples");
    const { topic, table, app } = article.dataset;
    if (!topic && !table) return;
    const path = topic
      ? `/api/topics/${encodeURIComponent(topic)}/records?limit=5`
      : `/api/tables/${encodeURIComponent(table)}?limit=5&app=${encodeURIComponent(app)}`;
    const answer = await fetch(path).catch(() => null);
    if (!answer || !answer.ok) return;
    const found = await answer.json();
    const rows = (found.records || found.rows).map((one) => {
      const key = typeof one.key === "string" ? one.key : JSON.stringify(one.key);
      const window_ = one.start == null ? "" : ` from ${new Date(one.start).toISOString().slice(0, 19).replace("T", " ")}`;
      return line(`${key}${window_}`, one.value);
    });
    place_.replaceChildren(...rows);
  }

  function tell() {
    const source = chosen && document.getElementById(chosen);
    if (!source) return;
    const article = source.cloneNode(true);
    article.removeAttribute("id");
    const before = panel.querySelector(".samples");
    const isFetched = article.dataset.topic || article.dataset.table;
    if (before && isFetched && panel.dataset.shown === chosen) article.querySelector(".samples").replaceWith(before);
    panel.dataset.shown = chosen;
    panel.replaceChildren(article);
    samples(article);
  }

  function choose(target) {
    const found = target.closest("[data-detail]");
    if (!found || (drag && drag.moved)) return;
    chosen = found.dataset.detail;
    apply();
    tell();
  }

  box.addEventListener("click", (event) => choose(event.target));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(event.target);
    } else if (event.key === "+") zoom(1 / 1.3);
    else if (event.key === "-") zoom(1.3);
  });
  view = first();
  apply();
  document.addEventListener("refreshed", (event) => {
    if (event.target.id === "graph") apply();
    if (event.target.id === "details-source") tell();
  });
})();
