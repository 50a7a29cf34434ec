"""Sorting of tables, which survives live updates."""

from __future__ import annotations

import pytest
from tests.browser.conftest import Browser, resize
from tests.serve.conftest import web_server

from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog

COLUMN = "return [...document.querySelectorAll('#topics tbody tr')].map((row) => row.cells[arguments[0]].innerText)"


def topics(browser: Browser) -> list[str]:
    return list(browser.run(COLUMN, 0))  # type: ignore[call-overload, no-any-return]


def records(browser: Browser) -> list[int]:
    return [int(text.replace(",", "")) for text in browser.run(COLUMN, 2)]  # type: ignore[attr-defined]


def test_a_click_on_a_heading_sorts_the_rows_and_stays_sorted(browser: Browser) -> None:
    browser.open("/topics")
    by_name = topics(browser)
    assert by_name == sorted(by_name)
    heading = "#topics th:nth-child(3)"
    browser.click(f"{heading} button")
    assert records(browser) == sorted(records(browser), reverse=True)
    assert browser.run("return document.querySelector(arguments[0]).ariaSort", heading) == "descending"
    before = records(browser)
    browser.send(*(f"line {number}" for number in range(500)))
    browser.until("the page was refreshed", lambda: records(browser) != before)
    assert records(browser) == sorted(records(browser), reverse=True)
    assert topics(browser)[0] == "lines"
    browser.click(f"{heading} button")
    assert records(browser) == sorted(records(browser))
    browser.click(f"{heading} button")
    assert topics(browser) == by_name


def test_a_table_can_be_sorted_on_a_phone(browser: Browser) -> None:
    resize(browser.driver, 390, 844)
    browser.open("/topics")
    browser.click("#topics th:nth-child(1) button")
    browser.click("#topics th:nth-child(1) button")
    assert topics(browser) == sorted(topics(browser), reverse=True)
    browser.run("sessionStorage.clear()")


def test_a_long_table_is_filtered_while_typing(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    data_dir = tmp_path_factory.mktemp("many")
    with EmbeddedLog(data_dir) as log:
        for number in range(200):
            log.create_topic(f"topic-{number:03}", TopicConfig(partitions=1))
    with web_server(data_dir) as server:
        browser.driver.get(f"{server.url}/topics")
        visible = "return [...document.querySelectorAll('#topics tbody tr')].filter((row) => !row.hidden).length"
        assert browser.run(visible) == 200
        browser.type("[data-find=topics]", "topic-19")
        assert browser.run(visible) == 10
        browser.driver.refresh()
        assert browser.run(visible) == 10
        browser.driver.get("about:blank")
