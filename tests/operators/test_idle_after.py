"""Without records stream time does not advance, unless a source lets it follow the wall clock."""

from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, join_window, session, sliding, tumbling, until_window_closes
from millstream.dsl.stream import Stream
from millstream.errors import DefinitionError
from millstream.processors import Processor, punctuate
from millstream.testing import TestDriver


class Ticks(Processor):
    @punctuate(every="10 s", on="stream")
    def tick(self, now: int) -> None:
        self.context.forward(key="tick", value=now)

    def process(self, record: Any) -> None:
        pass


def final(windows: Any) -> Callable[[Stream], Any]:
    return lambda stream: _values(stream.group_by_key().windowed_by(windows).emit("final").count(name="counts"))


def suppressed(stream: Stream) -> None:
    counts = stream.group_by_key().windowed_by(tumbling("10 s")).count(name="counts")
    _values(counts.suppress(until_window_closes()))


def _values(table: Any) -> None:
    table.to_stream().map(lambda window, count: (window.key, count)).to("out")


def joined(stream: Stream) -> None:
    stream.left_join(stream.filter(lambda _: False), lambda left, right: left, within=join_window("5 s")).to("out")


def grouped_elsewhere(stream: Stream) -> None:
    windows = stream.group_by(lambda n: f"key {n}").windowed_by(tumbling("10 s")).emit("final")
    _values(windows.count(name="counts"))


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (final(tumbling("10 s")), [("k", 1)]),
        (final(sliding("10 s")), [("k", 1)]),
        (final(session(gap="10 s")), [("k", 1)]),
        (suppressed, [("k", 1)]),
        (joined, [("k", 7)]),
        (grouped_elsewhere, [("key 7", 1)]),
    ],
)
def test_waiting_results_are_emitted_when_the_input_is_idle(write: Callable[[Stream], Any], expected: Any) -> None:
    app = App("test")
    write(app.stream("n", value=int, idle_after="20 s"))
    with TestDriver(app, wall_clock=1_000_000) as driver:
        driver.topic("n").pipe(7, key="k")
        driver.advance_wall_clock("19 s")
        assert driver.topic("out").read_raw() == []
        driver.advance_wall_clock("21 s")
        assert driver.topic("out").read_key_values() == expected


def test_without_idle_after_windows_wait_for_the_next_record() -> None:
    app = App("test")
    final(tumbling("10 s"))(app.stream("n", value=int))
    with TestDriver(app, wall_clock=1_000_000) as driver:
        driver.topic("n").pipe(7, key="k")
        driver.advance_wall_clock("1 h")
        assert driver.topic("out").read_raw() == []


def test_stream_time_timers_fire_too() -> None:
    app = App("test")
    app.stream("n", value=int, idle_after="20 s").process(Ticks).to("out")
    with TestDriver(app, wall_clock=1_000_000) as driver:
        driver.topic("n").pipe(7, key="k")
        driver.topic("out").read()
        driver.advance_wall_clock("30 s")
        assert driver.topic("out").read_key_values() == [("tick", 1_010_000)]


def test_a_record_older_than_the_advanced_time_is_late() -> None:
    app = App("test")
    app.stream("n", value=int, idle_after="20 s").group_by_key().windowed_by(tumbling("10 s")).count(name="counts")
    with TestDriver(app, wall_clock=1_000_000) as driver:
        driver.topic("n").pipe(7, key="k")
        driver.advance_wall_clock("60 s")
        driver.topic("n").pipe(7, key="k", timestamp=1_029_000)
        driver.topic("n").pipe(7, key="k", timestamp=1_040_000)
        assert driver.dropped == {"counts: late": 1}


def test_time_advances_only_when_all_inputs_of_a_task_are_idle() -> None:
    app = App("test")
    first, second = (app.stream(topic, value=int, idle_after="20 s") for topic in ("a", "b"))
    final(tumbling("10 s"))(first.merge(second))
    with TestDriver(app, wall_clock=1_000_000) as driver:
        driver.topic("a").pipe(7, key="k")
        driver.advance_wall_clock("15 s")
        driver.topic("b").pipe(7, key="k", timestamp=1_000_000)
        driver.advance_wall_clock("15 s")
        assert driver.topic("out").read_raw() == []
        driver.advance_wall_clock("15 s")
        assert driver.topic("out").read_key_values() == [("k", 2)]


def test_time_does_not_advance_after_a_step_that_holds_records_back() -> None:
    app = App("test")
    hours = app.stream("n", value=int, idle_after="20 s").group_by_key().windowed_by(tumbling("1 h")).emit("final")
    per_hour = hours.count(name="hours").to_stream().map(lambda window, count: (window.key, count))
    _values(per_hour.group_by_key().windowed_by(tumbling("2 h")).reduce(max, name="two_hours"))
    with TestDriver(app, wall_clock=36_000_000) as driver:
        driver.topic("n").pipe(7, key="k")
        driver.advance_wall_clock("30 min")
        driver.advance_wall_clock("5 h")
        assert driver.topic("out").read_key_values() == [("k", 1)]
        assert driver.dropped == {}


def test_an_invalid_idle_after_is_rejected() -> None:
    with pytest.raises(DefinitionError, match="idle_after='0 s' is not valid"):
        App("test").stream("n", idle_after="0 s")
