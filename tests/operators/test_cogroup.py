import pytest

from millstream import App, session
from millstream.errors import DefinitionError
from millstream.plan.layout import Layout
from millstream.testing import TestDriver


def test_each_stream_adds_to_one_aggregate_with_its_own_function() -> None:
    app = App("test")
    first, second = app.stream("a", value=str).group_by(lambda v: v[0]), app.stream("b", value=str).group_by_key()
    first.cogroup(lambda so_far, v: so_far + v).cogroup(second, lambda key, so_far, v: f"{so_far}({key}{v})").aggregate(
        str, name="texts"
    ).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("a").pipe("x1", key="ignored")
        driver.topic("b").pipe("2", key="x")
        assert driver.topic("out").read_key_values() == [("x", "x1"), ("x", "x1(x2)")]
        assert driver.table("texts")["x"] == "x1(x2)"


def test_windows_have_a_stream_time_for_each_stream() -> None:
    app = App("test")
    first, second = app.stream("a", value=int).group_by_key(), app.stream("b", value=int).group_by_key()
    sums = first.cogroup(lambda n, v: n + v).cogroup(second, lambda n, v: n - v).windowed_by(session(gap="5 ms"))
    sums.aggregate(int, lambda n, m: n + m, name="sums").to_stream(lambda window, _: window.start).to("out")
    with TestDriver(app) as driver:
        driver.topic("a").pipe(7, key="k", timestamp=100)
        driver.topic("b").pipe(1, key="k", timestamp=0)  # late for the first stream, in time for its own
        assert driver.topic("out").read_key_values() == [("100", 7), ("0", -1)]
        assert driver.dropped == {}


def test_streams_must_be_co_partitioned() -> None:
    app = App("test")
    first, second = app.stream("a").group_by_key(), app.stream("b").group_by_key()
    first.cogroup(lambda n, v: n).cogroup(second, lambda n, v: n).aggregate(int)
    with pytest.raises(DefinitionError, match=r"cannot cogroup 'a' \(2 partitions\) with 'b' \(3 partitions\)"):
        Layout.of(app.plan, {"a": 2, "b": 3})
