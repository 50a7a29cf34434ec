// Shows the values under the pointer above a chart; without it, the last values.
"use strict";

(() => {
  const texts = (readout) => [...readout.querySelectorAll("b")];

  function show(figure, strip) {
    const readout = figure.querySelector(".readout");
    readout.dataset.last ??= texts(readout).map((value) => value.textContent).join("|");
    const values = (strip ? strip.dataset.values : readout.dataset.last).split("|");
    texts(readout).forEach((value, index) => { value.textContent = values[index]; });
    readout.querySelector("time").textContent = strip ? `${strip.dataset.time} UTC` : "";
  }

  document.addEventListener("pointerover", (event) => {
    const strip = event.target.closest?.(".plot rect");
    if (strip) show(strip.closest("figure"), strip);
  });
  document.addEventListener("pointerout", (event) => {
    const figure = event.target.closest?.(".trend");
    if (figure && !figure.contains(event.relatedTarget)) show(figure, null);
  });
})();
