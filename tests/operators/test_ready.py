"""Built-in aggregations of streams and windows: their results, dropped records and stored state."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from millstream import (
    App,
    Windowed,
    collect_of,
    count_of,
    first_of,
    hopping,
    last_of,
    max_of,
    mean_of,
    min_of,
    session,
    sliding,
    sum_of,
    tumbling,
)
from millstream.dsl.grouped import GroupedStream
from millstream.errors import DefinitionError, ProcessingError
from millstream.testing import TestDriver


class Trade(msgspec.Struct):
    price: float | None
    volume: int = 1


class Stats(msgspec.Struct):
    low: float
    average: float


def trades(app: App) -> GroupedStream:
    return app.stream("trades", value=Trade).group_by_key()


SINGLE: list[tuple[str, tuple[Any, ...], Any]] = [
    ("sum", ("price",), 9.0),
    ("mean", ("price",), 3.0),
    ("min", ("price",), 2.0),
    ("max", (lambda trade: trade.price,), 4.0),
    ("first", ("price",), 3.0),
    ("last", (lambda key, trade: f"{key} {trade.price}",), "a 2.0"),
    ("collect", ("price",), [3.0, 4.0, 2.0]),
    ("collect_set", ("volume",), [1, 2]),
    ("count_distinct", ("volume",), 2),
    ("top", (2, "price"), [4.0, 3.0]),
]


@pytest.mark.parametrize(("verb", "arguments", "expected"), SINGLE, ids=[verb for verb, _, _ in SINGLE])
@pytest.mark.parametrize("windows", [None, tumbling("1 s"), hopping("1 s", every="1 s"), session(gap="1 s")], ids=str)
def test_each_verb_returns_its_result(verb: str, arguments: tuple[Any, ...], expected: Any, windows: Any) -> None:
    app = App("test")
    grouped: Any = trades(app) if windows is None else trades(app).windowed_by(windows)
    table = getattr(grouped, verb)(*arguments, name="result")
    table.to_stream().to("out")
    with TestDriver(app) as driver:
        for time, trade in enumerate([Trade(3.0), Trade(4.0, 2), Trade(2.0)]):
            driver.topic("trades").pipe(trade, key="a", timestamp=time)
        assert driver.topic("out").read_values()[-1] == expected
        assert [row.value for row in driver.table("result").scan()] == [expected]


def test_several_aggregations_at_once() -> None:
    app = App("test")
    table = trades(app).agg(
        low=min_of("price"), high=max_of("price"), average=mean_of("price"), trades=count_of(), name="stats"
    )
    table.filter(lambda stats: stats["trades"] > 1).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("trades").pipe(Trade(2.0), Trade(None), Trade(4.0), key="a")
        assert driver.topic("out").read_values() == [
            {"low": 2.0, "high": 2.0, "average": 2.0, "trades": 2},
            {"low": 2.0, "high": 4.0, "average": 3.0, "trades": 3},
        ]
        assert driver.table("stats")["a"] == {"low": 2.0, "high": 4.0, "average": 3.0, "trades": 3}


def test_results_become_objects_of_a_type() -> None:
    app = App("test")
    stats = trades(app).agg(low=min_of("price"), average=mean_of("price"), value=Stats, name="stats")
    stats.map_values(lambda stat: stat.average - stat.low).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("trades").pipe(Trade(2.0), Trade(4.0), key="a")
        assert driver.topic("out").read_values() == [0.0, 1.0]
        assert driver.table("stats")["a"] == Stats(2.0, 3.0)


@pytest.mark.parametrize("windows", [None, tumbling("1 s"), session(gap="1 s"), sliding("1 s")], ids=str)
def test_nulls_are_left_out_and_counted(windows: Any) -> None:
    app = App("test")
    grouped: Any = trades(app) if windows is None else trades(app).windowed_by(windows)
    grouped.sum("price", name="total").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("trades").pipe(Trade(None), None, key="a", timestamp=5_000)
        driver.topic("trades").pipe(Trade(1.0), key=None, timestamp=5_000)
        assert driver.topic("out").read() == []
        assert driver.dropped == {"total: null_value": 2, "total: null_key": 1}


def test_sessions_are_merged_in_the_order_of_time() -> None:
    app = App("test")
    sessions = trades(app).windowed_by(session(gap="10 ms", grace="1 min"))
    sessions.agg(prices=collect_of("price"), first=first_of("price"), last=last_of("price"), name="visits")
    with TestDriver(app) as driver:
        for time in (30, 0, 15, 20):
            driver.topic("trades").pipe(Trade(float(time)), key="a", timestamp=time)
        assert dict(driver.table("visits").items()) == {
            Windowed("a", 0, 0): {"prices": [0.0], "first": 0.0, "last": 0.0},
            Windowed("a", 15, 30): {"prices": [15.0, 30.0, 20.0], "first": 15.0, "last": 20.0},
        }


def test_caching_does_not_change_final_results() -> None:
    for caching in (False, True):
        app = App("test")
        closing = trades(app).windowed_by(tumbling("10 ms")).emit("final").mean("price")
        closing.to_stream(lambda window, _: window.key).to("out")
        trades(app).mean("price", name="so_far").to_stream().to("now")
        with TestDriver(app, caching=caching) as driver:
            for time, price in ((0, 1.0), (5, 2.0), (10, 9.0)):
                driver.topic("trades").pipe(Trade(price), key="a", timestamp=time)
            assert driver.topic("out").read_values() == [1.5]
            assert driver.topic("now").read_values() == [1.0, 1.5, 4.0]


def test_a_join_sees_results() -> None:
    app = App("test")
    means = trades(app).mean("price", name="means")
    app.stream("asks", value=str).join(means, lambda ask, mean: f"{ask} {mean}").to("out")
    with TestDriver(app) as driver:
        driver.topic("trades").pipe(Trade(1.0), Trade(2.0), key="a")
        driver.topic("asks").pipe("?", key="a")
        assert driver.topic("out").read_values() == ["? 1.5"]


def test_top_results_by_a_field() -> None:
    app = App("test")
    trades(app).top(2, by="volume", name="largest")
    with TestDriver(app) as driver:
        driver.topic("trades").pipe(*(Trade(float(n), n % 3) for n in range(6)), key="a")
        assert driver.table("largest")["a"] == [Trade(2.0, 2), Trade(5.0, 2)]


def test_a_wrong_field_names_the_record() -> None:
    app = App("test")
    app.stream("n").group_by_key().sum("prise")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match=r"n\[0\]@0 .*KeyError: 'prise'"):
        driver.topic("n").pipe({"price": 1}, key="a")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda grouped: grouped.sum("price", retention="1 h"), "for windows only"),
        (lambda grouped: grouped.quantile(99, "price"), "share from 0 to 1"),
        (lambda grouped: grouped.top(0), "1 or more"),
        (lambda grouped: grouped.agg(), "nothing to aggregate"),
        (lambda grouped: grouped.agg(low="price"), "not an aggregation"),
        (lambda grouped: grouped.agg(n=sum_of(lambda a, b, c, d: 1)), "takes 4 arguments"),
    ],
)
def test_invalid_aggregations_are_rejected(wrong: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        wrong(trades(App("test")))
