// Keeps a page up to date: on a progress event, the page is fetched again, and every data-live region that has changed
// is replaced. Also handles the theme and the copy buttons.
"use strict";

(() => {
  const MIN_INTERVAL_MS = 1000;
  const state = document.getElementById("live-state");
  let timer = null;
  let loading = new AbortController();
  let isPaused = false;
  let last = 0;

  function show(name, text) {
    if (state) {
      state.dataset.state = name;
      state.textContent = text;
    }
  }

  const identity = (element) => element.dataset.detail || element.dataset.focus || element.getAttribute("href");

  function isBusy(region) {
    const selection = window.getSelection();
    const isSelected = selection && !selection.isCollapsed && region.contains(selection.anchorNode);
    const active = document.activeElement;
    const isTyping = active && region.contains(active) && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName);
    const isReading = region.querySelector(".plot:hover");
    return isSelected || isTyping || isReading;
  }

  // What the server sent last for each region: the page may have sorted its rows since.
  const received = new WeakMap();

  function replace(region, fresh) {
    const html = fresh.innerHTML;
    if ((received.get(region) ?? region.innerHTML) === html || isBusy(region)) return;
    received.set(region, html);
    const opened = new Set([...region.querySelectorAll("details[open][id]")].map((details) => details.id));
    const active = region.contains(document.activeElement) ? document.activeElement : null;
    const focused = active && identity(active);
    region.replaceChildren(...[...fresh.childNodes].map((node) => document.importNode(node, true)));
    for (const details of region.querySelectorAll("details[id]")) if (opened.has(details.id)) details.open = true;
    if (focused) {
      const replacement = [...region.querySelectorAll("[data-detail], [data-focus], a")].find(
        (element) => identity(element) === focused && element.getClientRects().length);
      if (replacement) replacement.focus({ preventScroll: true });
    }
    region.dispatchEvent(new CustomEvent("refreshed", { bubbles: true }));
  }

  function pause(on) {
    isPaused = on;
    if (on) loading.abort();
  }

  async function refresh() {
    timer = null;
    if (isPaused) return;
    last = Date.now();
    loading = new AbortController();
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, signal: loading.signal })
      .catch(() => null);
    const text = response && response.ok ? await response.text().catch(() => null) : null;
    if (text === null) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const region of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(region.id);
      if (fresh) replace(region, fresh);
    }
  }

  function schedule() {
    if (timer === null && document.visibilityState === "visible") {
      timer = setTimeout(refresh, Math.max(0, MIN_INTERVAL_MS - (Date.now() - last)));
    }
  }

  function listen() {
    const events = new EventSource("/api/live/progress");
    events.addEventListener("open", () => show("live", "live"));
    events.addEventListener("progress", (event) => {
      const isBack = JSON.parse(event.data).is_broker_available && document.querySelector("[data-reload]");
      if (isBack) location.reload();
      else schedule();
    });
    events.addEventListener("error", () => show("lost", "no connection"));
    window.addEventListener("pagehide", () => events.close(), { once: true });
  }

  // The browser shows the page again without loading it, for example after Back.
  window.addEventListener("pageshow", (event) => { if (event.persisted) listen(); });

  function applyTheme(name) {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${name || "system"}`;
  }

  const THEMES = ["", "light", "dark"];
  applyTheme(localStorage.getItem("theme") || "");
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "theme") {
      const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "") + 1) % THEMES.length];
      localStorage.setItem("theme", next);
      applyTheme(next);
    } else if (button.dataset.copy !== undefined) {
      const text = button.dataset.copy.replace("http://HOST", location.origin);
      await navigator.clipboard.writeText(text).catch(() => undefined);
      const before = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = before; }, 1200);
    }
  });
  for (const code of document.querySelectorAll(".command code")) {
    code.textContent = code.textContent.replace("http://HOST", location.origin);
  }

  const menu = document.querySelector(".side nav");
  const current = menu?.querySelector("[aria-current]");
  if (current) menu.scrollLeft = current.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;

  window.millstream = { refresh, pause };
  document.addEventListener("visibilitychange", schedule);
  listen();
})();
