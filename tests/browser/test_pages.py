"""Every page in a real browser: rendered without errors, readable on a phone, usable by keyboard."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys
from tests.browser.conftest import Browser, resize

from millstream.log import EmbeddedLog
from millstream.serve.address import WebAddress
from millstream.serve.server import WebServer

PAGES = {
    "/": "rides-app",
    "/topology?app=rides-app": "per_zone",
    "/topics": "rides-app.dead-letters",
    "/topics/lines": "Write a record",
    "/topics/lines?view=table": "newest record of each key",
    "/tables": "per_vendor",
    "/tables/words-app/words": "mill",
    "/tables/rides-app/per_zone?key=zone-1": "zone-1",
    "/sql": "No app here is written in SQL",
    "/time?app=rides-app": "Stream time of each task",
    "/groups": "words-app",
    "/groups/words-app": "Offsets",
    "/dead-letters?app=rides-app": "ZeroDivisionError",
    "/alerts": "Create an alert",
}
WINDOWS = {"desk": (1280, 900), "tablet": (820, 1100), "phone": (390, 844)}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_rendered_without_hostile_code(browser: Browser, path: str) -> None:
    browser.open(path)
    browser.until("the page is live", lambda: browser.text("#live-state") == "live")
    assert PAGES[path] in browser.text("body")
    assert browser.run("return window.alerted === undefined && document.querySelectorAll('main script').length") == 0
    sources = browser.run("return [...document.scripts].map((script) => new URL(script.src).pathname)")
    assert all(str(source).startswith("/static/") for source in sources)  # type: ignore[attr-defined]
    assert (
        browser.run("return document.querySelectorAll('main svg[onload], main img[onerror], main [style]').length") == 0
    )


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_cut_off_at_the_right(browser: Browser, path: str, window: str) -> None:
    resize(browser.driver, *WINDOWS[window])
    browser.open(path)
    width = browser.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width[0] <= width[1]  # type: ignore[index]
    hidden = browser.run(
        """return [...document.querySelectorAll('main h1, main h2, main button, main input, main dd, main .metric')]
            .filter((element) => element.offsetParent)
            .filter((element) => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
            .map((element) => element.outerHTML.slice(0, 80))"""
    )
    assert hidden == []


@pytest.mark.parametrize("path", PAGES)
def test_every_control_is_reachable_by_keyboard_and_labelled(browser: Browser, path: str) -> None:
    browser.open(path)
    unnamed = browser.run(
        """const reached = 'a[href], button, input:not([type=hidden]), select, textarea, [role=button]';
        return [...document.querySelectorAll(reached)]
            .filter((element) => !(element.textContent || element.ariaLabel || element.labels?.length || element.title))
            .map((element) => element.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    assert browser.run(
        "return [...document.querySelectorAll('[role=button], [data-detail]')].every((button) => button.tabIndex >= 0)"
    )
    browser.driver.find_element("tag name", "body").send_keys(Keys.TAB)
    assert browser.run("return document.activeElement.className") == "skip"


def test_the_theme_follows_the_system_and_the_button(browser: Browser) -> None:
    browser.open("/")

    def ground() -> object:
        return browser.run("return getComputedStyle(document.body).backgroundColor")

    light = ground()
    for expected in (light, "rgb(16, 22, 21)", light):  # light, dark, as the system
        browser.click("#theme")
        assert ground() == expected
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    assert ground() == "rgb(16, 22, 21)"
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_an_empty_directory_shows_what_to_do(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    data_dir = tmp_path_factory.mktemp("empty")
    EmbeddedLog(data_dir).close()
    server = WebServer(data_dir, address=WebAddress(port=0), requires_token=False)
    for path, lesson in {
        "/": "millstream run",
        "/topology": "millstream run",
        "/topics": "millstream topics create",
        "/tables": "count(name=",
        "/time": "millstream run",
        "/groups": "millstream consume",
        "/connectors": "millstream connect run",
        "/dead-letters": "millstream run",
        "/alerts": "There are no rules yet",
    }.items():
        browser.driver.get(f"{server.url}{path}")
        assert lesson in browser.text("body"), path
    browser.driver.get("about:blank")
    server.close()
