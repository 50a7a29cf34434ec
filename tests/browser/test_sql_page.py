"""The SQL page: results, errors with their place, rows that arrive while a query runs, plans, and the catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys
from tests.browser.conftest import Browser, resize
from tests.browser.test_looks import LOW_CONTRAST
from tests.serve.conftest import run_taxi_app, web_server

from millstream.queries.binding import stored_sql
from millstream.queries.session import Session
from millstream.serve.server import WebServer

ROWS = """return [...document.querySelectorAll('#sql-result tbody tr')]
    .map((row) => [...row.cells].map((cell) => cell.innerText).join('|'))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    data_dir = tmp_path_factory.mktemp("taxi")
    run_taxi_app(data_dir)
    with web_server(data_dir) as server:
        yield server


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    browser.expected = ("400 (Bad Request)",)
    browser.open("/sql")
    yield browser
    browser.run("sessionStorage.clear()")


def rows(page: Browser) -> list[str]:
    return list(page.run(ROWS))  # type: ignore[call-overload, no-any-return]


def state(page: Browser) -> str:
    return page.text("#sql-state")


def run(page: Browser, sql: str, button: str = "#sql button[type=submit]") -> None:
    page.type("#sql-text", sql)
    page.click(button)


def insert(page: Browser, ride: int, zone: str) -> None:
    directory = page.server._directory
    session = Session(lambda: directory.broker, published=stored_sql(directory.path, "taxi"))
    list(session.execute(f"INSERT INTO rides (id, zone, km) VALUES ({ride}, '{zone}', 1.0);"))


def test_a_query_shows_its_rows(page: Browser) -> None:
    page.click("#sql button[type=submit]")  # the example
    page.until("the result is complete", lambda: state(page) == "complete")
    assert sorted(rows(page)) == ["Mitte|2", "Tegel|1"]
    assert page.text("#sql-result .note") == "2 rows"
    run(page, "SHOW TABLES; SELECT zone, CAST(9007199254740993 AS BIGINT) AS x, 1.0E0 AS d FROM zones LIMIT 1;")
    page.until("both answers are complete", lambda: state(page) == "complete")
    assert rows(page)[-1].endswith("|9007199254740993|1.0")  # exactly as the server wrote them
    assert len(rows(page)) == 2


def test_a_value_is_text_and_never_code(page: Browser) -> None:
    run(page, "SELECT '<img src=x onerror=alert(1)>' AS x, CAST(NULL AS INT) AS n FROM zones LIMIT 1;")
    page.until("the result is complete", lambda: state(page) == "complete")
    assert rows(page) == ["<img src=x onerror=alert(1)>|null"]


def test_an_error_shows_its_place_and_the_cursor_goes_there(page: Browser) -> None:
    run(page, "SELECT zone,\n  nothing FROM zones;")
    page.until("the error is shown", lambda: page.text("#sql-error"))
    assert page.text("#sql-error p").startswith("line 2, column 3: column NOTHING of SELECT is unknown\n")
    assert page.text("#sql-error pre") == "    nothing FROM zones;\n    ^"
    at = page.run("return [document.activeElement.id, document.activeElement.selectionStart]")
    assert at == ["sql-text", len("SELECT zone,\n  ")]
    run(page, "SHOW TABLES;")
    page.until("the error is gone", lambda: state(page) == "complete" and not page.text("#sql-error"))


def test_rows_arrive_while_a_query_runs_until_it_is_stopped(page: Browser) -> None:
    assert not page.driver.find_element("id", "sql-stop").is_enabled()
    run(page, "SELECT id, zone FROM rides EMIT CHANGES;")
    page.until("the query runs", lambda: state(page) == "running")
    assert rows(page) == []
    insert(page, 7, "Wedding")
    page.until("the row arrives", lambda: rows(page) == ["7|Wedding"])
    insert(page, 8, "Mitte")
    page.until("the next row is above it", lambda: rows(page) == ["8|Mitte", "7|Wedding"])
    page.click("#sql-stop")
    page.until("it is stopped", lambda: state(page) == "stopped")
    assert rows(page) == ["8|Mitte", "7|Wedding"]
    assert not page.driver.find_element("id", "sql-stop").is_enabled()


def test_a_second_run_replaces_the_first_and_old_rows_are_dropped(page: Browser) -> None:
    page.run("sessionStorage.setItem('sql:taxi', 'SELECT id FROM rides EMIT CHANGES;')")
    page.driver.refresh()
    page.click("#sql button[type=submit]")
    page.until("the query runs", lambda: state(page) == "running")
    page.click("#sql-earliest")
    run(page, "SELECT ROWOFFSET AS o, id FROM rides WHERE id = 1 EMIT CHANGES LIMIT 3;")
    page.until("the second one is complete", lambda: state(page) == "limit reached")
    assert rows(page) == ["2|1", "1|1", "0|1"]


def test_only_so_many_rows_are_kept(page: Browser) -> None:
    page.run("document.getElementById('sql').dataset.maxRows = 2")
    stream = "CREATE STREAM r (id INT KEY) WITH (KAFKA_TOPIC = 'rides', VALUE_FORMAT = 'JSON');"
    run(page, f"{stream} SELECT EXPLODE(ARRAY[1, 2, 3]) AS x FROM r LIMIT 3;")
    page.until("the result is complete", lambda: state(page) == "complete")
    assert (rows(page), page.text("#sql-result .note")) == (["1", "2"], "3 rows; the first 2 are shown")
    page.click("#sql-earliest")
    run(page, f"{stream} SELECT EXPLODE(ARRAY[1, 2, 3]) AS x FROM r EMIT CHANGES LIMIT 3;")
    page.until("the limit is reached", lambda: state(page) == "limit reached")
    assert (rows(page), page.text("#sql-result .note")) == (["3", "2"], "3 rows; the latest 2 are shown")


def test_explain_shows_the_plan_and_executes_nothing(page: Browser) -> None:
    run(page, "SELECT * FROM zones WHERE zone = 'Mitte';", "#sql-explain")
    page.until("the plan is shown", lambda: state(page) == "complete")
    assert rows(page)[0] == "read 1 key of the stored table ZONES of 4 partitions"
    run(page, "INSERT INTO rides (id) VALUES (1);", "#sql-explain")
    page.until("it is refused", lambda: "only a query can be explained" in page.text("#sql-error"))


def test_the_keyboard_runs_and_a_click_inserts_a_name_which_stays(page: Browser) -> None:
    editor = page.driver.find_element("id", "sql-text")
    page.type("#sql-text", "SELECT n FROM ")
    page.click("[data-insert=ZONES]")
    editor.send_keys(" WHERE zone = 'Mitte';", Keys.CONTROL, Keys.ENTER)
    page.until("the row is shown", lambda: rows(page) == ["2"])
    page.driver.refresh()
    kept = page.run("return document.getElementById('sql-text').value")
    assert kept == "SELECT n FROM ZONES WHERE zone = 'Mitte';"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_results_and_errors_are_readable_on_a_phone(page: Browser, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    resize(page.driver, 390, 844)
    page.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    long = f"'{'x' * 300}' AS {'y' * 60}"
    for sql in ("SELECT * FROM zones;", f"SELECT {long} FROM zones;", f"SELECT {long}, nothing FROM zones;"):
        run(page, sql)
        page.until("it has ended", lambda: state(page) in ("complete", "failed"))
        assert page.run(LOW_CONTRAST) == []
        width = page.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert width[0] <= width[1]  # type: ignore[index]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
