"""Timers: on stream time and on the wall clock, declared and scheduled by records."""

from typing import Any

import pytest

from millstream import App, Config, Processor, Record, key_value_store, punctuate
from millstream.errors import DefinitionError, ProcessingError
from millstream.processors import Clock
from millstream.testing import TestDriver


class Ticks(Processor):
    """Forwards the time of each call; records switch it on and off."""

    on: Clock = "stream"

    def tick(self, now: int) -> None:
        self.context.forward(key="tick", value=now)

    def process(self, record: Record) -> None:
        if record.value == "start":
            self.context.schedule(self.tick, every="10 ms", on=self.on)
        if record.value == "stop":
            self.context.forward(key="was active", value=self.context.cancel("tick"))


class WallTicks(Ticks):
    on = "wall"


def test_stream_time_timers_fire_after_the_first_record_and_then_at_multiples() -> None:
    class Tick(Processor):
        @punctuate(every="10 ms")
        def tick(self, now: int) -> None:
            self.context.forward(key=None, value=now)

        def process(self, record: Record) -> None: ...

    app = App("test")
    app.stream("n", value=int).process(Tick).to("out")
    with TestDriver(app) as driver:
        driver.advance_wall_clock("1 h")
        got = {}
        for time in (3, 9, 10, 11, 37, 38, 40, 12):
            driver.topic("n").pipe(0, timestamp=time)
            got[time] = [(record.value, record.timestamp) for record in driver.topic("out").read()]
    called = {3: [(3, 3)], 10: [(10, 10)], 37: [(37, 37)], 40: [(40, 40)]}
    assert got == {time: called.get(time, []) for time in got}


def test_wall_clock_timers_fire_without_records_at_fixed_multiples() -> None:
    class Tick(Processor):
        @punctuate(every="10 ms", on="wall")
        def tick(self, now: int) -> None:
            self.context.forward(key=None, value=now)

        def process(self, record: Record) -> None: ...

    app = App("test")
    app.stream("n", value=int).process(Tick).to("out")
    with TestDriver(app, wall_clock=1_000) as driver:
        got = []
        for step in (9, 1, 25, 4, 1, 10):
            driver.advance_wall_clock(f"{step} ms")
            got.append(driver.topic("out").read_values())
    assert got == [[], [1_010], [1_035], [], [1_040], [1_050]]


def test_schedules_outlive_the_batch_that_created_them() -> None:
    app = App("test")
    app.stream("n", value=str).process(Ticks).to("out")
    with TestDriver(app) as driver:
        values = []
        for value, time in [("", 5), ("start", 7), ("", 9), ("start", 9), ("", 12), ("stop", 25), ("start", 3)]:
            driver.topic("n").pipe(value, timestamp=time)
            values.append(driver.topic("out").read_key_values())
    assert values == [[], [("tick", 7)], [], [], [("tick", 12)], [("was active", True)], [("tick", 25)]]


def test_a_wall_clock_schedule_starts_when_it_is_created() -> None:
    app = App("test")
    app.stream("n", value=str).process(WallTicks).to("out")
    with TestDriver(app) as driver:
        driver.advance_wall_clock("7 ms")
        driver.topic("n").pipe("start", timestamp=0)
        driver.advance_wall_clock("9 ms")
        assert driver.topic("out").read() == []
        driver.advance_wall_clock("1 ms")
        assert driver.topic("out").read_values() == [17]
        driver.topic("n").pipe("stop", "stop", timestamp=0)
        driver.advance_wall_clock("1 h")
        assert driver.topic("out").read_key_values() == [("was active", True), ("was active", False)]


def test_start_shifts_the_firing_times() -> None:
    class Anchored(Processor):
        @punctuate(every="10 ms", start=13)
        def on_stream(self, now: int) -> None:
            self.context.forward(key="stream", value=now)

        @punctuate(every="10 ms", on="wall", start=3)
        def on_wall(self, now: int) -> None:
            self.context.forward(key="wall", value=now)

        def process(self, record: Record) -> None: ...

    app = App("test")
    app.stream("n", value=int).process(Anchored).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 1, 1, timestamp=5, advance="8 ms")
        driver.topic("n").pipe(1, timestamp=23)
        driver.advance_wall_clock("3 ms")
        driver.advance_wall_clock("9 ms")
        driver.advance_wall_clock("1 ms")
        assert driver.topic("out").read_key_values() == [("stream", 13), ("stream", 23), ("wall", 3), ("wall", 13)]


def test_a_declared_timer_that_is_cancelled_does_not_start_again() -> None:
    class Once(Processor):
        @punctuate(every="1 ms", name="one-shot")
        def tick(self, now: int) -> None:
            assert self.context.schedules == ("one-shot",)
            self.context.forward(key=None, value=now)
            self.context.cancel("one-shot")

        def process(self, record: Record) -> None: ...

    app = App("test")
    app.stream("n", value=int).process(Once).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 1, 1, timestamp=5, advance="8 ms")
        assert driver.topic("out").read_values() == [5]


def test_a_timer_has_stores_but_no_current_record() -> None:
    seen: list[Any] = []

    class Sums(Processor):
        stores = {"sums": key_value_store()}

        def process(self, record: Record) -> None:
            sums = self.context.store("sums")
            sums.put(record.key, sums.get(record.key, 0) + record.value)

        @punctuate(every="1 min", on="wall")
        def report(self, now: int) -> None:
            seen.append((self.context.headers, self.context.timestamp))
            for key, total in self.context.store("sums").items():
                self.context.forward(key=key, value=total)
                self.context.store("sums").delete(key)

    app = App("test")
    app.stream("n", value=int).process(Sums).to("out")
    with TestDriver(app) as driver:
        for key, value in (("b", 1), ("a", 2), ("b", 3)):
            driver.topic("n").pipe(value, key=key, headers={"h": b"1"})
        driver.advance_wall_clock("1 min")
        records = driver.topic("out").read()
        assert [(r.key, r.value, r.timestamp, r.headers) for r in records] == [
            ("a", 2, 60_000, ()),
            ("b", 4, 60_000, ()),
        ]
        driver.advance_wall_clock("1 min")
        assert driver.topic("out").read() == []
    assert seen == [((), 60_000), ((), 120_000)]


def test_records_forwarded_by_a_timer_cross_stages() -> None:
    class Tick(Processor):
        @punctuate(every="1 s", on="wall")
        def tick(self, now: int) -> None:
            self.context.forward(key="t", value=now)

        def process(self, record: Record) -> None: ...

    app = App("test")
    app.stream("n", value=int).process(Tick).group_by_key().count().to_stream().to("out")
    with TestDriver(app, partitions=2) as driver:
        driver.advance_wall_clock("1 s")
        assert driver.topic("out").read_values() == [1, 2]


def test_errors_in_a_timer_name_it_and_follow_the_error_policy() -> None:
    class Bomb(Processor):
        @punctuate(every="1 s", on="wall")
        def tick(self, now: int) -> None:
            raise RuntimeError("boom")

        def process(self, record: Record) -> None:
            self.context.forward(record)

    app = App("test")
    app.stream("n", value=int).process(Bomb, name="bomb").to("out")
    with (
        TestDriver(app) as driver,
        pytest.raises(ProcessingError, match="node 'bomb' failed at the punctuation at 1000: RuntimeError: boom"),
    ):
        driver.advance_wall_clock("1 s")
    app.config = Config(on_error="skip")
    with TestDriver(app) as driver:
        driver.advance_wall_clock("1 s")
        driver.topic("n").pipe(1)
        assert driver.topic("out").read_values() == [1]
        assert driver.dropped == {"bomb: error": 1}


def test_timers_that_keep_keys_cannot_forward() -> None:
    class Tick(Processor):
        @punctuate(every="1 s", on="wall")
        def tick(self, now: int) -> None:
            self.context.forward(key="k", value=1)

        def process(self, record: Record) -> None: ...

    app = App("test")
    app.stream("n", value=int).process_values(Tick).to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="cannot forward without a current record"):
        driver.advance_wall_clock("1 s")


def test_only_methods_of_the_processor_can_be_scheduled() -> None:
    class Local(Processor):
        def process(self, record: Record) -> None:
            self.context.schedule(lambda now: None, every="1 s")

    app = App("test")
    app.stream("n", value=int).process(Local)
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="it is not a method of this processor"):
        driver.topic("n").pipe(1)


def test_stages_share_stream_time_only_on_request() -> None:
    class Tick(Processor):
        @punctuate(every="10 ms")
        def tick(self, now: int) -> None:
            self.context.forward(key=None, value=now)

        def process(self, record: Record) -> None: ...

    app = App("test")
    app.stream("a", value=int).process(Tick).to("out")
    app.stream("b", value=int).to("other")
    for shared, expected in ((False, [1]), (True, [1, 20])):
        with TestDriver(app, one_stream_time=shared) as driver:
            driver.topic("a").pipe(0, timestamp=1)
            driver.topic("b").pipe(0, timestamp=20)
            assert driver.topic("out").read_values() == expected


def test_a_timer_is_declared_with_a_clock_and_an_interval() -> None:
    with pytest.raises(DefinitionError, match="clock 'moon' is unknown"):
        punctuate(every="1 s", on="moon")(lambda now: None)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="every='0 ms' is not valid"):
        punctuate(every="0 ms")(lambda now: None)

    class Twice(Processor):
        @punctuate(every="1 s")
        @punctuate(every="2 s")
        def tick(self, now: int) -> None: ...

    with pytest.raises(DefinitionError, match="Twice has two punctuations 'tick'"):
        App("test").stream("n").process(Twice)


@pytest.mark.parametrize("one_stream_time", [False, True])
def test_timers_survive_rounds_in_which_their_processor_does_not_run(one_stream_time: bool) -> None:
    """The join reads what the processor forwards, so its task runs a second round in each batch."""

    class Count(Processor):
        @punctuate(every="25 ms")
        def tick(self, now: int) -> None:
            self.context.forward(key="tick", value=now)

        def process(self, record: Record) -> None: ...

    app = App("test")
    numbers = app.stream("n", value=int)
    ticks = numbers.process(Count, name="ticks")
    ticks.left_join(numbers.to_table(), lambda tick, _row: tick).to("joined")
    ticks.to("out")
    with TestDriver(app, one_stream_time=one_stream_time) as driver:
        for timestamp in (67, 67, 74, 75, 99):
            driver.topic("n").pipe(1, key="k", timestamp=timestamp)
        assert driver.topic("out").read_values() == [67, 75]
        assert driver.topic("joined").read_values() == [67, 75]


def test_wall_clock_timers_run_in_the_round_of_their_processor() -> None:
    class Tick(Processor):
        @punctuate(every="10 ms", on="wall")
        def tick(self, now: int) -> None:
            self.context.forward(key="tick", value=now)

        def process(self, record: Record) -> None: ...

    app = App("test")
    numbers = app.stream("n", value=int)
    counts = numbers.group_by(lambda key, _value: key).count(name="counts")
    joined = numbers.select_key(lambda key, _value: key).left_join(counts, lambda value, count: (value, count))
    joined.process(Tick, name="ticks").to("out")
    with TestDriver(app) as driver:
        driver.advance_wall_clock("25 ms")
        driver.advance_wall_clock("5 ms")
        assert driver.topic("out").read_values() == [25, 30]
