from collections.abc import Callable
from typing import Any

import pytest

from millstream import App
from millstream.config import Config
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.testing import TestDriver


def fail_on_zero(*arguments: Any) -> Any:
    """Accept any arguments, and return a value that every verb accepts."""
    return [(10 // int(str(arguments[-1])), 1)]


VERBS: dict[str, Callable[[Stream, Table], Any]] = {
    "filter": lambda stream, _: stream.filter(lambda n: fail_on_zero(n), name="it").to("out"),
    "filter_not": lambda stream, _: stream.filter_not(lambda n: not fail_on_zero(n), name="it").to("out"),
    "map": lambda stream, _: stream.map(lambda n: fail_on_zero(n)[0], name="it").to("out"),
    "map_values": lambda stream, _: stream.map_values(lambda n: fail_on_zero(n), name="it").to("out"),
    "flat_map": lambda stream, _: stream.flat_map(lambda n: fail_on_zero(n), name="it").to("out"),
    "flat_map_values": lambda stream, _: stream.flat_map_values(lambda n: fail_on_zero(n), name="it").to("out"),
    "select_key": lambda stream, _: stream.select_key(lambda n: fail_on_zero(n), name="it").to("out"),
    "peek": lambda stream, _: stream.peek(lambda n: fail_on_zero(n), name="it").to("out"),
    "group_by": lambda stream, _: stream.group_by(lambda n: fail_on_zero(n), name="it").count().to_stream().to("out"),
    "reduce": lambda stream, _: stream.group_by_key().reduce(fail_on_zero, name="it").to_stream().to("out"),
    "aggregate": lambda stream, _: stream.group_by_key().aggregate(int, fail_on_zero, name="it").to_stream().to("out"),
    "left_join": lambda stream, table: stream.left_join(table, lambda n, _: fail_on_zero(n), name="it").to("out"),
    "to": lambda stream, _: stream.to(lambda n: "out" if fail_on_zero(n) else "", name="it"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_function_that_raises_affects_only_its_record(verb: str) -> None:
    app = App("test", config=Config(on_error="skip"))
    VERBS[verb](app.stream("n", value=int), app.table("rows"))
    with TestDriver(app) as driver:
        driver.topic("n").pipe(5, key="k")
        driver.topic("n").pipe(0, key="k")
        assert {why: n for report in driver.reports for why, n in report.dropped.items()} == {"it: error": 1}
        driver.topic("n").pipe(5, key="k")
        assert len(driver.topic("out").read_raw()) == 2
