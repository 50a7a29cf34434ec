from typing import Any

import pytest

from millstream import (
    App,
    Config,
    Processor,
    Record,
    Windowed,
    key_value_store,
    punctuate,
    session_store,
    tumbling,
    versioned_store,
    window_store,
)
from millstream.errors import DefinitionError, ProcessingError
from millstream.processors import table_store
from millstream.testing import TestDriver


class Dedupe(Processor):
    stores = {"seen": key_value_store()}

    def process(self, record: Record) -> None:
        seen = self.context.store("seen")
        if record.key not in seen:
            seen[record.key] = record.timestamp
            self.context.forward(record)


def test_a_processor_stores_state_and_forwards_any_records() -> None:
    app = App("test")
    app.stream("n", value=int).process(Dedupe, name="dedupe").to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe_pairs([("a", 1), ("b", 2), ("a", 3)], timestamp=5)
        assert driver.topic("out").read_key_values() == [("a", 1), ("b", 2)]
        assert dict(driver.table("dedupe.seen").items()) == {"a": 5, "b": 5}
        assert driver.table("dedupe.seen")["b"] == 5


def test_two_steps_of_one_class_have_separate_stores() -> None:
    app = App("test")
    app.stream("a", value=int).process(Dedupe).to("out")
    app.stream("b", value=int).process(Dedupe).to("out")
    with TestDriver(app) as driver:
        driver.topic("a").pipe(1, key="k")
        driver.topic("b").pipe(2, key="k")
        assert driver.topic("out").read_values() == [1, 2]
        assert sorted(driver.tables) == ["a.process.seen", "b.process.seen"]


class Put(Processor):
    stores = {"notes": key_value_store(name="notes")}

    def process(self, record: Record) -> None:
        self.context.store("notes").put(record.key, record.value)


class Get(Processor):
    stores = {"mine": key_value_store(name="notes")}

    def process(self, record: Record) -> None:
        self.context.forward(record, value=self.context.store("mine").get(record.key, "nothing"))


def test_steps_that_name_the_same_store_share_it_and_run_in_the_same_task() -> None:
    app = App("test")
    app.stream("notes", value=str).process(Put)
    app.stream("questions", value=str).process(Get).to("out")
    assert len(app.plan.stages) == 1
    with TestDriver(app, partitions=3) as driver:
        driver.topic("notes").pipe_pairs([("a", "one"), ("b", "two"), ("a", None)])
        driver.topic("questions").pipe_pairs([("a", ""), ("b", "")])
        assert driver.topic("out").read_map() == {"a": "nothing", "b": "two"}
        assert driver.table("notes").get("b") == "two"


class Enrich(Processor):
    stores = {"users": table_store("people")}

    def process(self, record: Record) -> None:
        users = self.context.store("users")
        self.context.forward(record, value=[record.value, users.get(record.key), users.timestamp_of(record.key)])


@pytest.mark.parametrize("caching", [False, True])
def test_a_processor_reads_the_current_rows_of_a_table(caching: bool) -> None:
    app = App("test")
    app.stream("clicks", value=str).process(Enrich).to("out")
    app.table("users", value=str, name="people")
    with TestDriver(app, caching=caching) as driver:
        driver.topic("clicks").pipe("x", key="u", timestamp=1)
        driver.topic("users").pipe("Ada", key="u", timestamp=2)
        driver.topic("clicks").pipe("y", key="u", timestamp=3)
        assert driver.topic("out").read_values() == [["x", None, None], ["y", "Ada", 2]]


def test_a_processor_cannot_write_a_table() -> None:
    class Meddle(Processor):
        stores = {"users": table_store("users")}

        def process(self, record: Record) -> None:
            self.context.store("users").put(record.key, "me")

    app = App("test")
    app.table("users", value=str)
    app.stream("clicks", value=str).process(Meddle)
    with (
        TestDriver(app) as driver,
        pytest.raises(ProcessingError, match="'users' belongs to a table and is read-only"),
    ):
        driver.topic("clicks").pipe("x", key="u")


def test_windows_of_a_table_are_read_by_their_start() -> None:
    class Compare(Processor):
        stores = {"counts": table_store("counts")}

        def process(self, record: Record) -> None:
            counts = self.context.store("counts")
            self.context.forward(record, value=[counts.get(record.key, 0), counts.between(record.key)])

    app = App("test")
    stream = app.stream("n", value=int)
    stream.group_by_key().windowed_by(tumbling("10 ms", grace="1 s")).count(name="counts")
    stream.process(Compare).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 1, 1, key="k", timestamp=5, advance="4 ms")
        assert driver.topic("out").read_values()[-1] == [2, [[0, 2], [10, 1]]]


def test_records_are_forwarded_to_all_readers_or_to_one_by_name() -> None:
    class Route(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record, to=None if record.value == 0 else "odd" if record.value % 2 else "even")

    app = App("test")
    routed = app.stream("n", value=int).process(Route)
    routed.map_values(lambda n: f"odd {n}", name="odd").to("out")
    routed.filter(lambda n: True, name="even").to("evens")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(0, 1, 2)
        assert driver.topic("out").read_values() == ["odd 0", "odd 1"]
        assert driver.topic("evens").read_values() == [0, 2]


def test_a_reader_after_a_repartition_edge_has_its_own_name() -> None:
    class Route(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record, key=record.value % 3, to="odd" if record.value % 2 else "even")

    app = App("test")
    routed = app.stream("n", value=int).process(Route)
    routed.group_by_key().count(name="odd")
    routed.repartition(name="even").to("out")
    with TestDriver(app, partitions=2) as driver:
        driver.topic("n").pipe(1, 2, 3, 7)
        assert dict(driver.table("odd").items()) == {0: 1, 1: 2}
        assert driver.topic("out").read_values() == [2]


def test_an_unknown_reader_is_reported_when_a_record_is_forwarded_to_it() -> None:
    class Lost(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record, to="nowhere")

    app = App("test")
    app.stream("n", value=int).process(Lost, name="lost").to("out", name="somewhere")
    with (
        TestDriver(app) as driver,
        pytest.raises(ProcessingError, match=r"no step 'nowhere' reads from 'lost' \(its readers: somewhere\)"),
    ):
        driver.topic("n").pipe(1)


@pytest.mark.parametrize("timestamp", [-1, 1.5, True])
def test_an_invalid_timestamp_cannot_be_forwarded(timestamp: Any) -> None:
    class Wrong(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record, timestamp=timestamp)

    app = App("test")
    app.stream("n", value=int).process(Wrong).to("out")
    with (
        TestDriver(app) as driver,
        pytest.raises(ProcessingError, match=rf"timestamp {timestamp} is "),
    ):
        driver.topic("n").pipe(1)


def test_the_driver_accepts_whole_milliseconds_only() -> None:
    app = App("test")
    app.stream("n", value=int).to("out")
    with TestDriver(app) as driver, pytest.raises(DefinitionError, match=r"timestamp 1\.5 is not a whole number"):
        driver.topic("n").pipe(1, timestamp=1.5)  # type: ignore[arg-type]


def test_a_forwarded_record_keeps_the_parts_that_are_not_given() -> None:
    class Change(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record)
            self.context.forward(record, key="new", timestamp=9)
            self.context.forward(record, headers=(("h", b"2"),))
            self.context.forward(key="fresh", value=record.value)

    app = App("test")
    app.stream("n", value=int).process(Change).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, key="k", timestamp=4, headers={"h": b"1"})
        driver.topic("n").pipe(2, key="k", timestamp=5)
        got = [(r.key, r.value, r.timestamp, r.headers) for r in driver.topic("out").read()]
    first, second = (("h", b"1"),), (("h", b"2"),)
    assert got == [
        *[("k", 1, 4, first), ("new", 1, 9, first), ("k", 1, 4, second), ("fresh", 1, 4, ())],
        *[("k", 2, 5, ()), ("new", 2, 9, ()), ("k", 2, 5, second), ("fresh", 2, 5, ())],
    ]


def test_a_processor_knows_its_task_times_and_position() -> None:
    seen: list[Any] = []

    class Look(Processor):
        def process(self, record: Record) -> None:
            c = self.context
            seen.append((c.app, c.node, c.task, c.partition, c.stream_time, c.wall_time, c.timestamp, c.headers))
            seen.append((record.topic, record.partition, record.offset, record.key, record.value, record.timestamp))

    app = App("test")
    app.stream("n", value=int).process(Look, name="look")
    with TestDriver(app, wall_clock=100) as driver:
        driver.topic("n").pipe(1, key="k", timestamp=7)
        driver.topic("n").pipe(2, key="k", timestamp=3)
    assert seen == [
        ("test", "look", "n/0", 0, 7, 100, 7, ()),
        ("n", 0, 0, "k", 1, 7),
        ("test", "look", "n/0", 0, 7, 100, 3, ()),
        ("n", 0, 1, "k", 2, 3),
    ]


def test_process_is_repartitioned_and_process_values_is_not() -> None:
    class Pass(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record)

    app = App("test")
    stream = app.stream("n", value=int)
    stream.process(Pass).group_by_key().count()
    assert len(app.plan.stages) == 2
    app = App("test")
    app.stream("n", value=int).process_values(Pass).group_by_key().count()
    assert len(app.plan.stages) == 1


def test_process_values_keeps_the_key() -> None:
    class Rename(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record, key="other")

    app = App("test")
    app.stream("n", value=int).process_values(Rename, name="rename").to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="cannot forward 'other' for 'k'"):
        driver.topic("n").pipe(1, key="k")


def test_a_processor_object_is_used_for_one_batch() -> None:
    lives: list[str] = []

    class Mortal(Processor):
        def init(self) -> None:
            self.seen = 0
            lives.append("init")

        def process(self, record: Record) -> None:
            self.seen += 1

        def close(self) -> None:
            lives.append(f"close {self.seen}")
            self.context.forward(key="sum", value=self.seen)

    app = App("test")
    app.stream("n", value=int).process(Mortal).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2)
        assert driver.topic("out").read_values() == [0, 1, 1]
    assert lives == ["init", "close 0", "init", "close 1", "init", "close 1"]


def test_close_is_called_once_after_time_has_advanced_without_records() -> None:
    class Idle(Processor):
        def process(self, record: Record) -> None: ...

        @punctuate(every="10 ms")
        def tick(self, now: int) -> None:
            self.context.forward(key="tick", value=now)

        def close(self) -> None:
            self.context.forward(key="close", value=self.context.stream_time)

    app = App("test")
    app.stream("n", value=int, idle_after="5 ms").process(Idle).to("out")
    with TestDriver(app, wall_clock=100) as driver:
        driver.topic("n").pipe(1, timestamp=100)
        assert driver.topic("out").read_key_values() == [("tick", 100), ("close", 100)]
        driver.advance_wall_clock("20 ms")
        assert driver.topic("out").read_key_values() == [("tick", 115), ("close", 115)]


def test_the_error_policy_applies_to_the_innermost_step() -> None:
    class Careless(Processor):
        def process(self, record: Record) -> None:
            try:
                self.context.forward(record)
            except Exception:
                self.context.forward(record, value=-1)

    app = App("test")
    app.stream("n", value=int).process(Careless).map_values(lambda n: 1 // n, name="invert").to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="node 'invert' failed on record n"):
        driver.topic("n").pipe(0)

    class Touchy(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record, value=1 // record.value)

    app = App("test", config=Config(on_error="skip"))
    app.stream("n", value=int).process(Touchy, name="touchy").to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(0, 1)
        assert driver.topic("out").read_values() == [1]
        assert driver.dropped == {"touchy: error": 1}


def test_a_processor_that_cannot_start_is_reported() -> None:
    class Broken(Processor):
        def init(self) -> None:
            raise RuntimeError("no luck")

        def process(self, record: Record) -> None: ...

    app = App("test")
    app.stream("n", value=int).process(Broken, name="broken")
    with pytest.raises(ProcessingError, match="'broken' could not start a batch: RuntimeError: no luck"):
        TestDriver(app)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Dedupe(), "expects a subclass of Processor"),
        (lambda: 5, "creates 5"),
        (lambda extra: Dedupe(), "missing 1 required positional argument: 'extra'"),
        (str, "creates ''"),
    ],
)
def test_objects_that_are_not_processors_are_rejected(given: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        App("test").stream("n").process(given)


def test_a_processor_without_process_is_rejected() -> None:
    class Idle(Processor):
        def init(self) -> None: ...

    with pytest.raises(DefinitionError, match="Idle has no method process"):
        App("test").stream("n").process(Idle)


def test_stores_are_declared_and_opened_by_name() -> None:
    class Undeclared(Processor):
        def process(self, record: Record) -> None:
            self.context.store("seen")

    class Wrong(Processor):
        stores = {"seen": dict}  # type: ignore[dict-item]

    app = App("test")
    app.stream("n", value=int).process(Undeclared, name="step")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="'step' declares no store 'seen'"):
        driver.topic("n").pipe(1)
    with pytest.raises(DefinitionError, match="Wrong declares <class 'dict'> as its store 'seen'"):
        App("test").stream("n").process(Wrong)


class Windows(Processor):
    stores = {"window": window_store(retention="10 ms"), "session": session_store(retention="10 ms", value=int)}

    def process(self, record: Record) -> None:
        window, session = self.context.store("window"), self.context.store("session")
        window.put(record.key, record.value, record.timestamp)
        session.put(record.key, record.timestamp, record.timestamp + 2, record.value)
        seen_values = [
            list(window.between(record.key)),
            [(w.start, v) for w, v in session.find(record.key, latest_start=14)],
        ]
        self.context.forward(record, value=seen_values)


def test_entries_expire_after_their_retention() -> None:
    app = App("test")
    app.stream("n", value=int).process(Windows, name="w").to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2, 3, key="k", timestamp=1, advance="7 ms")
        assert driver.topic("out").read_values() == [
            [[[1, 1]], [[1, 1]]],
            [[[1, 1], [8, 2]], [[1, 1], [8, 2]]],
            [[[8, 2], [15, 3]], [[8, 2]]],
        ]
        assert dict(driver.table("w.window").items()) == {Windowed("k", 8, 8): 2, Windowed("k", 15, 15): 3}
        assert dict(driver.table("w.session").items()) == {Windowed("k", 8, 10): 2, Windowed("k", 15, 17): 3}


class Prices(Processor):
    stores = {"prices": versioned_store(history="100 ms", value=int)}

    def process(self, record: Record) -> None:
        prices = self.context.store("prices")
        taken = prices.put(record.key, record.value, record.timestamp)
        known = [prices.get(record.key), prices.timestamp_of(record.key), prices.get_as_of(record.key, 15)]
        self.context.forward(record, value=[taken, *known])


def test_a_versioned_store_returns_the_value_valid_at_a_time() -> None:
    app = App("test")
    app.stream("n", value=int).process(Prices, name="p").to("out")
    with TestDriver(app) as driver:
        for value, time in ((1, 10), (2, 20), (3, 13), (None, 30), (5, 200), (6, 50)):
            driver.topic("n").pipe(value, key="k", timestamp=time)
        assert driver.topic("out").read_values() == [
            [True, 1, 10, 1],
            [True, 2, 20, 1],
            [True, 2, 20, 3],
            [True, None, None, 3],
            [True, 5, 200, None],
            [False, 5, 200, None],
        ]
        assert driver.table("p.prices")["k"] == 5


def test_a_table_with_history_is_read_as_of_a_time() -> None:
    class AsOf(Processor):
        stores = {"prices": table_store("prices")}

        def process(self, record: Record) -> None:
            prices = self.context.store("prices")
            self.context.forward(record, value=[prices.get("k"), prices.get_as_of("k", record.timestamp)])

    app = App("test")
    app.table("prices", value=int, history="1 h")
    app.stream("n", value=int).process(AsOf).to("out")
    with TestDriver(app) as driver:
        driver.topic("prices").pipe(1, 2, key="k", timestamp=10, advance="10 ms")
        driver.topic("n").pipe(0, key="k", timestamp=15)
        assert driver.topic("out").read_values() == [[2, 1]]
