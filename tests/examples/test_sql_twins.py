"""The examples that can be said in SQL: each passes the tests of its Python twin, and agrees with it on its data."""

import importlib
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples.harness import Input

from examples import chess, home_timelines
from millstream import App
from millstream.foundation.loading import load_app
from millstream.testing import TestDriver

EXAMPLES = Path(__file__).parents[2] / "examples"
MINUTE = 60_000
RECORDS = 150


def twin(example: str) -> App:
    app: App = load_app(str(EXAMPLES / f"{example}.sql"))
    return app


def pipe(driver: TestDriver, topic: str, value: Any, key: str | None = None, timestamp: int = 0) -> None:
    """Write a value as its Python example does."""
    data = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    driver.topic(topic).pipe_raw(data, key=None if key is None else key.encode(), timestamp=timestamp)


def lower(value: Any) -> Any:
    return {name.lower(): item for name, item in value.items()} if isinstance(value, dict) else value


def values(driver: TestDriver, topic: str) -> list[Any]:
    """Return the values of a topic as JSON, with names in lower case."""
    return [lower(msgspec.json.decode(record.value)) for record in driver.topic(topic).read_raw()]


def texts(driver: TestDriver, topic: str) -> list[tuple[str, str]]:
    return [(record.key.decode(), record.value.decode()) for record in driver.topic(topic).read_raw()]


def rows(driver: TestDriver, table: str, column: str) -> dict[Any, Any]:
    return {key: row[column] for key, row in driver.table(table).items()}


def test_words_are_counted_regardless_of_case() -> None:
    with TestDriver(twin("word_count")) as driver:
        pipe(driver, "lines", "The mill and the stream")
        counts = [("the", "1"), ("mill", "1"), ("and", "1"), ("the", "2"), ("stream", "1")]
        assert texts(driver, "word-counts") == counts
        assert driver.table("WORDS")["the"] == {"N": 2}


def ride(vendor: int, amount: float, minute: int = 0) -> dict[str, Any]:
    at = f"2026-01-01T08:{minute:02}:00Z"
    return {"ride_id": "r1", "vendor_id": vendor, "pickup_at": at, "total_amount": amount, "zone": 7}


def test_trips_are_counted_per_vendor_and_routed_by_amount() -> None:
    with TestDriver(twin("taxi_rides")) as driver:
        for vendor, amount in ((1, 39.99), (2, 40.0), (1, 10.0)):
            pipe(driver, "rides", ride(vendor, amount), key="r1")
        assert texts(driver, "trips-per-vendor") == [("1", "1"), ("2", "1"), ("1", "2")]
        assert [value["total_amount"] for value in values(driver, "rides.high_amount")] == [40.0]
        assert [value["total_amount"] for value in values(driver, "rides.low_amount")] == [39.99, 10.0]


def test_event_time_is_the_pickup_time() -> None:
    with TestDriver(twin("taxi_rides")) as driver:
        pipe(driver, "rides", ride(1, 50.0, minute=1), key="r1")
        (record,) = driver.topic("rides.high_amount").read_raw()
        assert record.timestamp == 1_767_254_460_000  # 2026-01-01 08:01 UTC


def test_cancelling_a_transfer_restores_the_balances() -> None:
    with TestDriver(twin("bank")) as driver:
        pipe(driver, "facts", {"payer": "ann", "payee": "bob", "cents": 500}, key="t1")
        pipe(driver, "facts", {"payer": "bob", "payee": "cleo", "cents": 200}, key="t2")
        assert rows(driver, "BALANCES", "CENTS") == {"ann": -500, "bob": 300, "cleo": 200}
        pipe(driver, "facts", {"payer": "", "payee": "", "cents": 0}, key="t1")
        balances = rows(driver, "BALANCES", "CENTS")
        assert {key: cents for key, cents in balances.items() if cents} == {"bob": -200, "cleo": 200}


def test_a_click_is_enriched_with_profile_and_search() -> None:
    with TestDriver(twin("click_stream")) as driver:
        pipe(driver, "user-profiles", {"name": "Ann", "city": "Oslo"}, key="u1")
        pipe(driver, "searches", {"text": "lamp"}, key="u1", timestamp=1_000)
        pipe(driver, "clicks", {"page": "/lamp"}, key="u1", timestamp=1_900)
        expected = {"page": "/lamp", "user": "Ann", "city": "Oslo", "searched": "lamp"}
        assert values(driver, "activity") == [expected]
        assert rows(driver, "CLICKS_AFTER_SEARCH", "CLICKS") == {"lamp": 1}


def test_a_click_without_a_search_is_emitted_after_the_grace_period() -> None:
    with TestDriver(twin("click_stream")) as driver:
        pipe(driver, "clicks", {"page": "/cup"}, key="u9", timestamp=5_000)
        assert values(driver, "activity") == []
        pipe(driver, "clicks", {"page": "/pen"}, key="u8", timestamp=6_000)
        assert values(driver, "activity") == [{"page": "/cup", "user": "guest", "city": "?", "searched": None}]


def test_one_alert_is_sent_when_errors_exceed_the_limit() -> None:
    with TestDriver(twin("operations")) as driver:
        for _ in range(5):
            pipe(driver, "logs", {"level": "ERROR", "text": "x"}, key="cart")
            pipe(driver, "logs", {"level": "INFO", "text": "x"}, key="cart")
        assert driver.topic("alerts").read_raw() == []
        for _ in range(3):
            pipe(driver, "logs", {"level": "ERROR", "text": "x"}, key="cart")
        (alert,) = driver.topic("alerts").read_raw()
        assert alert.value == b"cart: 6 errors within 5 minutes"


def test_visits_sessions_and_receipts() -> None:
    with TestDriver(twin("operations")) as driver:
        for page, minute in (("/", 0), ("/cart", 5), ("/", 14), ("/", 15)):
            pipe(driver, "visits", {"page": page}, key="v1", timestamp=minute * MINUTE)
        windows = driver.table("VISITS_IN_15_MINUTES").windows("/")
        counts = {row.key.end // MINUTE: row.value["N"] for row in windows}
        assert (counts[15], counts[16], counts[30]) == (2, 2, 1)
        pipe(driver, "visits", {"page": "/help"}, key="v2", timestamp=90 * MINUTE)
        assert values(driver, "sessions") == [["/", "/cart", "/", "/"]]
        pipe(driver, "purchases", {"customer": "ann", "cents": 1_999}, key="p1")
        assert texts(driver, "receipts") == [("p1", "ann paid 19.99")]


def test_miles_are_converted_and_revenue_is_summed() -> None:
    with TestDriver(twin("reprocessing")) as driver:
        pipe(driver, "trips", {"length": 100.0, "unit": "mi"}, key="lorry")
        pipe(driver, "trips", {"length": 10.0, "unit": "km"}, key="lorry")
        assert round(driver.table("DRIVEN")["lorry"]["KILOMETRES"], 1) == 170.9
    with TestDriver(twin("batch_meets_stream")) as driver:
        for cents in (500, 250):
            pipe(driver, "orders", {"product": "p1", "cents": cents}, key="p1")
        assert driver.table("REVENUE")["p1"] == {"CENTS": 750}


def test_a_game_is_replayed_and_its_board_is_that_of_python() -> None:
    records = list(chess.data())
    with TestDriver(chess.app) as python, TestDriver(twin("chess")) as driver:
        for record in records:
            pipe(python, "moves", record.value, record.key, record.timestamp)
            pipe(driver, "moves", record.value, record.key, record.timestamp)
        assert texts(driver, "replay") == texts(python, "replay")
        assert rows(driver, "BOARDS", "BOARD") == dict(python.table("boards").items())
        assert len(rows(driver, "BOARDS", "BOARD")) == len(chess.GAMES)


def test_timelines_have_the_same_tweets_in_the_same_order_of_time() -> None:
    with TestDriver(home_timelines.app) as python, TestDriver(twin("home_timelines")) as driver:
        for record in home_timelines.data(seed=11, events=120):
            value = b"" if record.value is None else msgspec.json.encode(record.value)
            for each in (python, driver):
                each.topic(record.topic).pipe_raw(value or None, key=record.key.encode(), timestamp=record.timestamp)
        timelines = rows(driver, "TIMELINES", "TWEETS")
        assert timelines.keys() == dict(python.table("timelines").items()).keys()
        for person, tweets in python.table("timelines").items():
            expected = [f"{tweet.at:013} {tweet.author}: {tweet.text}" for tweet in tweets]
            assert timelines[person] == sorted(expected, reverse=True)  # Python orders equal times by author


def rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("example", "app", "topic"),
    [
        ("word_count", "app", "word-counts"),
        pytest.param("taxi_rides", "app", "trips-per-vendor", marks=pytest.mark.slow),
        pytest.param("taxi_rides", "app", "rides.high_amount", marks=pytest.mark.slow),
        pytest.param("click_stream", "app", "activity", marks=pytest.mark.slow),
        pytest.param("operations", "app", "receipts", marks=pytest.mark.slow),
        pytest.param("reprocessing", "repaired", "driven", marks=pytest.mark.slow),
    ],
)
def test_both_write_the_same_for_generated_data(example: str, app: str, topic: str) -> None:
    module = importlib.import_module(f"examples.{example}")
    records: list[Input] = list(islice(module.data(), RECORDS))
    python = written(getattr(module, app), records, topic)
    assert python
    assert written(twin(example), records, topic) == python


def written(app: App, records: list[Input], topic: str) -> list[tuple[bytes | None, Any]]:
    decode: Callable[[bytes], Any] = bytes.decode if topic == "receipts" else msgspec.json.decode
    with TestDriver(app) as driver:
        for record in records:
            if record.topic in app.plan.source_topics:
                pipe(driver, record.topic, record.value, record.key, record.timestamp)
        return [(record.key, rounded(lower(decode(record.value)))) for record in driver.topic(topic).read_raw()]


def test_every_example_has_a_twin_or_a_reason_why_not() -> None:
    page = (EXAMPLES.parent / "docs" / "examples" / "README.md").read_text().lower()
    table = page[page.index("## in sql") :]
    helpers = {"__init__", "harness", "demo_data", "company_run"}
    names = {path.stem for path in EXAMPLES.glob("*.py")} - helpers
    twins = {path.stem for path in EXAMPLES.glob("*.sql")}
    assert twins <= names
    assert [name for name in sorted(names - twins) if f"{name.replace('_', ' ')}" not in table] == []
