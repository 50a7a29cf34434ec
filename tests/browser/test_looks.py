"""What can be measured about the looks of pages: contrast, and positions that do not move while a page refreshes."""

from __future__ import annotations

import pytest
from tests.browser.conftest import Browser, resize
from tests.browser.test_pages import PAGES

# The texts whose contrast to the nearest opaque background is below the minimum of WCAG AA.
LOW_CONTRAST = """
const channels = (color) => color.match(/[\\d.]+/g).map(Number);
const luminance = (rgb) => {
  const [r, g, b] = rgb.slice(0, 3).map((value) => {
    const share = value / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let node = element; node; node = node.parentElement) {
    const color = channels(getComputedStyle(node).backgroundColor);
    if (color.length < 4 || color[3] > 0.99) return color;
  }
  return [255, 255, 255];
};
const low = [];
for (const element of document.querySelectorAll('body *:not(svg *)')) {
  const isText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!isText || !element.getClientRects().length || element.closest('[hidden], .skip, svg')) continue;
  const style = getComputedStyle(element);
  const [a, b] = [luminance(channels(style.color)), luminance(ground(element))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
  if (contrast < (isLarge ? 3 : 4.5)) low.push([contrast.toFixed(2), element.outerHTML.slice(0, 90)]);
}
return low
"""
POSITIONS = """
return [...document.querySelectorAll('main h1, main h2, main h3, .metrics > div, th, .card')]
    .map((element) => [element.tagName, ...['x', 'y', 'width'].map((side) => element.getBoundingClientRect()[side])])
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(browser: Browser, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for path in (*PAGES, "/history?app=rides-app"):
        browser.open(path)
        assert browser.run(LOW_CONTRAST) == [], path
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_nothing_moves_while_a_page_refreshes(browser: Browser, size: tuple[int, int]) -> None:
    resize(browser.driver, *size)
    browser.open("/")
    assert any(_refreshes_in_place(browser) for _ in range(3))  # an alert may appear meanwhile, once


def _refreshes_in_place(browser: Browser) -> bool:
    before, batch = browser.run(POSITIONS), browser.text("#app-words-app .metrics")
    browser.send("one|two|three")
    browser.process()
    browser.until("the page was refreshed", lambda: browser.text("#app-words-app .metrics") != batch)
    return bool(browser.run(POSITIONS) == before)
