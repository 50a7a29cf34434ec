"""Actions in the dashboard: follow, search, select, write, delete, replay, explain; without reloading the page."""

from __future__ import annotations

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.alert import Alert
from selenium.webdriver.common.keys import Keys
from tests.browser.conftest import Browser

from millstream.serve.address import WebAddress
from millstream.serve.server import WebServer

EVIL = "<img src=x onerror=\"document.title='owned'\">"


def loaded_once(browser: Browser) -> None:
    """Mark the page, so that a reload can be detected."""
    browser.run("window.marked = true")


def still_the_same(browser: Browser) -> bool:
    return browser.run("return window.marked === true") is True


def test_rows_are_updated_without_a_reload(browser: Browser) -> None:
    browser.open("/tables/words-app/words?prefix=fresh")
    loaded_once(browser)
    assert "No rows" in browser.text("#rows")
    browser.send("fresh")
    browser.process()
    browser.until("the new row is shown", lambda: "fresh" in browser.text("#rows tbody"))
    assert still_the_same(browser)


def test_the_overview_is_updated_without_a_reload(browser: Browser) -> None:
    browser.open("/")
    loaded_once(browser)
    before = browser.text("#app-words-app .metrics")
    browser.send("one", "two")
    browser.process()
    browser.until("the number of the batch moves", lambda: browser.text("#app-words-app .metrics") != before)
    assert still_the_same(browser)


def test_a_topic_is_followed_live_and_hostile_records_are_text(browser: Browser) -> None:
    browser.open("/topics/lines")
    loaded_once(browser)
    browser.click("#tail")
    browser.until("it follows", lambda: browser.run("return document.getElementById('tail').ariaPressed") == "true")
    browser.until("the stream is open", lambda: _sends_until_seen(browser))
    assert EVIL in browser.text("#record-rows")
    assert browser.run("return document.title") != "owned"
    assert browser.run("return document.querySelectorAll('#record-rows img').length") == 0
    assert still_the_same(browser)
    browser.click("#tail")
    assert browser.text("#tail") == "Follow live"


def _sends_until_seen(browser: Browser) -> bool:
    browser.send(EVIL)
    return EVIL in browser.text("#record-rows tr.fresh")


def test_records_are_searched_and_paged(browser: Browser) -> None:
    browser.open("/topics/rides")
    browser.type("input[name=where]", "value.zone = 3 and value.amount > 30")
    browser.driver.find_element("css selector", "input[name=where]").send_keys(Keys.ENTER)
    browser.until("the search is done", lambda: "where=" in browser.driver.current_url)
    assert browser.text("#record-rows").count('"zone":3') == browser.run(
        "return document.querySelectorAll('#record-rows tr').length"
    )
    browser.open("/topics/rides")
    first = browser.text("#record-rows tr td")
    browser.click(".paging a")
    browser.until("the next page is shown", lambda: browser.text("#record-rows tr td") not in ("", first))


def test_a_record_is_written_from_the_page(browser: Browser) -> None:
    browser.open("/topics/lines")
    browser.type("form.action input[name=key]", "typed")
    browser.type("textarea[name=value]", 'typed "here"')
    browser.click("form[data-action$='/records'] button[type=submit]")
    browser.until(
        "the outcome is shown", lambda: "written to lines" in browser.text("form[data-action$='/records'] output")
    )
    browser.open("/topics/lines?key=typed")
    assert 'typed "here"' in browser.text("#record-rows")


def test_a_topic_is_created_and_deleted_with_its_name_as_confirmation(browser: Browser) -> None:
    browser.open("/topics")
    browser.click("#create summary")
    browser.type("#create input[name=topic]", "made-here")
    browser.click("#create button[type=submit]")
    browser.until("it is listed", lambda: "made-here" in browser.text("#topics"))
    browser.open("/topics/made-here")
    browser.click("#delete summary")
    browser.type("#delete input[name=confirm]", "something-else")
    browser.click("#delete button[type=submit]")
    browser.until("the request is rejected", lambda: "nothing was deleted" in browser.text("#delete output"))
    browser.type("#delete input[name=confirm]", "made-here")
    browser.click("#delete button[type=submit]")
    browser.until("it is deleted", lambda: browser.driver.current_url.endswith("/topics"))
    assert "made-here" not in browser.text("#topics")


def test_an_error_of_the_server_is_shown_beside_the_form(browser: Browser) -> None:
    browser.expected = ("409 (Conflict)",)
    browser.open("/topics")
    browser.click("#create summary")
    browser.type("#create input[name=topic]", "lines")
    browser.click("#create button[type=submit]")
    browser.until("the outcome is shown", lambda: "exists" in browser.text("#create output.bad"))


def test_a_node_shows_its_metrics_and_rows_by_mouse_and_keyboard(browser: Browser) -> None:
    browser.open("/topology?app=rides-app")
    browser.run("document.querySelector('[data-detail=\"node-per_zone\"]').focus()")
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    browser.until("its rows are shown", lambda: "zone-" in browser.text("#panel .samples"))
    assert "size 1 min" in browser.text("#panel")
    assert "Time per record" in browser.text("#panel")
    browser.run(
        "document.querySelector('.edge[aria-label=\"Edge from topic:rides to rides\"]')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    browser.until("records of the edge are shown", lambda: "vendor" in browser.text("#panel .samples"))
    selected = (
        "return [...document.querySelectorAll('.selected')].filter((shape) => shape.getClientRects().length).length"
    )
    assert browser.run(selected) == 1


def test_the_drawing_stays_zoomed_after_a_refresh(browser: Browser) -> None:
    browser.open("/topology?app=words-app")

    def view() -> list[float]:
        return [
            float(number)
            for number in str(
                browser.run("return document.querySelector('#graph svg').getAttribute('viewBox')")
            ).split()
        ]

    before = view()
    browser.click("[data-zoom=in]")
    zoomed = view()
    assert zoomed[2] < before[2]
    figures = browser.text("#stage-metrics")
    browser.send("again")
    browser.process()
    browser.until("the page was refreshed", lambda: browser.text("#stage-metrics") != figures)
    assert view() == zoomed


def test_dead_letters_are_opened_and_replayed(browser: Browser) -> None:
    browser.open("/dead-letters?app=rides-app")
    browser.click(".dead-letter summary")
    assert "Traceback" in browser.text(".dead-letter[open] pre")
    waiting = browser.text("#dead-letters p")
    browser.click(".dead-letter[open] button[type=submit]")
    Alert(browser.driver).accept()
    browser.until("the outcome is shown", lambda: "1 replayed" in browser.text("#toast"))
    browser.click("#dead-letters > form button")
    Alert(browser.driver).accept()
    browser.until("all are replayed", lambda: "0 were not replayed yet" in browser.text("#dead-letters p"))
    assert waiting != browser.text("#dead-letters p")


def test_the_page_explains_why_a_record_is_late(browser: Browser) -> None:
    browser.open("/time?app=rides-app")
    browser.type("form.filter input[name=key]", "zone-1")
    browser.type("form.filter input[name=time]", "2026-01-01T06:00:01Z")
    browser.click("form.filter button")
    browser.until("the explanation is shown", lambda: "late" in browser.text(".answer"))


def test_an_alert_is_created_and_deleted(browser: Browser) -> None:
    browser.open("/alerts")
    browser.type("input[name=name]", "late-rides")
    browser.run("document.querySelector('#what').value = 'late'")
    browser.click("form[data-action='/api/alerts'] button[type=submit]")
    browser.until("it is listed", lambda: "late-rides" in browser.text("#rules"))
    browser.click("#rules article form[data-action$='/delete'] button")
    Alert(browser.driver).accept()
    browser.until("it is deleted", lambda: "late-rides" not in browser.text("#rules"))


def test_the_login_page_accepts_only_the_token(browser: Browser) -> None:
    server = WebServer(browser.server._directory.path, address=WebAddress("0.0.0.0", 0))
    assert server.token_file is not None
    browser.expected = ("401 (Unauthorized)",)
    browser.driver.get(f"{server.url}/topics")
    assert "requires a token" in browser.text("body")
    browser.type("#token", "wrong")
    browser.click("button")
    browser.until("the request is rejected", lambda: "The token is wrong" in browser.text("body"))
    browser.type("#token", server.token_file.read_text().strip())
    browser.click("button")
    browser.until("the login succeeds", lambda: "Overview" in browser.text("main h1"))
    browser.driver.delete_all_cookies()
    browser.driver.get("about:blank")
    server.close()
