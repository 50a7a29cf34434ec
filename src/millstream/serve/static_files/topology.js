// Moves and zooms the drawing of a topology, and shows the details of the selected node or edge.
"use strict";

(() => {
  const box = document.getElementById("graph");
  const panel = document.getElementById("panel");
  if (!box) return;
  let view = null; // null: all of the drawing
  let selected = null;

  // There is a drawing for each kind of window; the style sheet shows one of them.
  const svg = () => [...box.querySelectorAll("svg")].find((drawing) => drawing.getClientRects().length);

  function fullView() {
    const drawing = svg();
    return { x: 0, y: 0, w: Number(drawing.getAttribute("width")), h: Number(drawing.getAttribute("height")) };
  }

  function apply() {
    const { x, y, w, h } = view || fullView();
    svg().setAttribute("viewBox", `${x} ${y} ${w} ${h}`);
    box.classList.toggle("zoomed", view !== null);
    for (const shape of box.querySelectorAll("[data-detail]")) {
      shape.classList.toggle("selected", shape.dataset.detail === selected);
    }
  }

  function zoom(factor, at) {
    view = view || fullView();
    const centre = at || { x: view.x + view.w / 2, y: view.y + view.h / 2 };
    const maxWidth = Math.max(fullView().w, fullView().h) * 3;
    const w = Math.min(maxWidth, Math.max(120, view.w * factor));
    const scale = w / view.w;
    view = { x: centre.x - (centre.x - view.x) * scale, y: centre.y - (centre.y - view.y) * scale, w, h: view.h * scale };
    apply();
  }

  function position(event) {
    const point = new DOMPoint(event.clientX, event.clientY);
    return point.matrixTransform(svg().getScreenCTM().inverse());
  }

  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, position(event));
  }, { passive: false });

  // One pointer moves the drawing, two of them zoom it. Without zoom, one finger scrolls the page.
  const pointers = new Map();
  let drag = null;
  let pinch = null;
  const distance = ([a, b]) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);

  box.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    drag = { at: position(event), moved: false, id: event.pointerId };
    pinch = pointers.size === 2 ? distance([...pointers.values()]) : null;
  });
  box.addEventListener("pointermove", (event) => {
    if (!drag || !pointers.has(event.pointerId)) return;
    pointers.set(event.pointerId, event);
    if (pinch) {
      const [a, b] = pointers.values();
      const middle = { clientX: (a.clientX + b.clientX) / 2, clientY: (a.clientY + b.clientY) / 2 };
      zoom(pinch / distance([a, b]), position(middle));
      pinch = distance([a, b]);
      drag.moved = true;
      return;
    }
    const now = position(event);
    const dx = drag.at.x - now.x;
    const dy = drag.at.y - now.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    svg().classList.add("moving");
    view = view || fullView();
    view = { ...view, x: view.x + dx, y: view.y + dy };
    apply();
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
    box.addEventListener(name, (event) => {
      pointers.delete(event.pointerId);
      pinch = null;
      svg().classList.remove("moving");
      setTimeout(() => { drag = null; }, 0);
    });
  }

  document.querySelector(".zoom").addEventListener("click", (event) => {
    const action = event.target.dataset.zoom;
    if (action === "in") zoom(1 / 1.3);
    else if (action === "out") zoom(1.3);
    else if (action === "fit") fit();
  });

  function fit() {
    view = null;
    apply();
  }

  function line(text, value) {
    const paragraph = document.createElement("p");
    const code = document.createElement("code");
    code.textContent = typeof value === "string" ? value : JSON.stringify(value);
    paragraph.append(`${text} `, code);
    return paragraph;
  }

  async function loadSamples(article) {
    const list = article.querySelector(".samples");
    const { topic, table, app } = article.dataset;
    if (!topic && !table) return;
    const path = topic
      ? `/api/topics/${encodeURIComponent(topic)}/records?limit=5`
      : `/api/tables/${encodeURIComponent(table)}?limit=5&app=${encodeURIComponent(app)}`;
    const response = await fetch(path).catch(() => null);
    if (!response || !response.ok) return;
    const data = await response.json();
    const rows = (data.records || data.rows).map((row) => {
      const key = typeof row.key === "string" ? row.key : JSON.stringify(row.key);
      const window_ = row.start == null ? "" : ` from ${new Date(row.start).toISOString().slice(0, 19).replace("T", " ")} UTC`;
      return line(`${key}${window_}`, row.value);
    });
    list.replaceChildren(...rows);
  }

  function showDetails() {
    const source = selected && document.getElementById(selected);
    if (!source) return;
    const article = source.cloneNode(true);
    article.removeAttribute("id");
    const before = panel.querySelector(".samples");
    const isFetched = article.dataset.topic || article.dataset.table;
    if (before && isFetched && panel.dataset.shown === selected) article.querySelector(".samples").replaceWith(before);
    panel.dataset.shown = selected;
    panel.replaceChildren(article);
    loadSamples(article);
  }

  function select(target) {
    const shape = target.closest("[data-detail]");
    if (!shape || (drag && drag.moved)) return;
    selected = shape.dataset.detail;
    apply();
    showDetails();
  }

  box.addEventListener("click", (event) => select(event.target));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      select(event.target);
    } else if (event.key === "+") zoom(1 / 1.3);
    else if (event.key === "-") zoom(1.3);
  });
  let shown = svg();
  window.addEventListener("resize", () => {
    if (svg() !== shown) fit();
    shown = svg();
  });
  document.addEventListener("refreshed", (event) => {
    if (event.target.id === "graph") {
      shown = svg();
      apply();
    }
    if (event.target.id === "details-source") showDetails();
  });
})();
