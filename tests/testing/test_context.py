"""The context double: a processor by itself, with real stores and timers."""

from typing import Any

import pytest

from millstream import (
    Processor,
    Record,
    ValueTransformer,
    key_value_store,
    punctuate,
    table_store,
    versioned_store,
    window_store,
)
from millstream.errors import DefinitionError, ProcessingError
from millstream.testing import Forwarded, TestContext


class Everything(Processor):
    stores = {
        "kv": key_value_store(name="shared"),
        "window": window_store(retention="1 s"),
        "versions": versioned_store(history="1 s"),
        "users": table_store("users"),
    }

    def init(self) -> None:
        self.seen = 0

    def process(self, record: Record) -> None:
        self.seen += 1
        context = self.context
        context.store("kv").put(record.key, record.value)
        context.store("window").put(record.key, record.value, record.timestamp)
        context.store("versions").put(record.key, record.value, record.timestamp)
        context.forward(record, value=context.store("users").get(record.key), to="users" if record.value else None)
        if record.value == "later":
            context.schedule(self.on_wall, every="5 ms", on="wall", name="mine")

    @punctuate(every="10 ms")
    def on_stream(self, now: int) -> None:
        self.context.forward(key="stream", value=[now, self.seen])

    def on_wall(self, now: int) -> None:
        self.context.forward(key="wall", value=now)

    def close(self) -> None:
        self.context.forward(key="close", value=self.seen)


def test_forwarded_records_and_stores_can_be_read() -> None:
    with TestContext(Everything, tables={"users": {"a": "Ada"}}) as context:
        context.process("x", key="a", timestamp=3, headers=(("h", b"1"),), topic="t", offset=9)
        assert context.forwarded == [
            Forwarded("a", "Ada", 3, (("h", b"1"),), to="users"),
            Forwarded("stream", [3, 1], 3),
        ]
        assert context.store("kv")["a"] == "x"
        assert context.store("window").between("a") == [(3, "x")]
        assert context.store("versions").get_as_of("a", 5) == "x"
        assert context.processor.seen == 1


def test_the_test_controls_both_clocks() -> None:
    with TestContext(Everything, tables={"users": {}}, wall_time=100) as context:
        context.process("later", key="a", timestamp=3)
        assert [(schedule.name, schedule.on, schedule.every, schedule.due) for schedule in context.scheduled] == [
            ("on_stream", "stream", 10, 10),
            ("mine", "wall", 5, 105),
        ]
        context.take_forwarded()
        context.advance_wall_clock("4 ms")
        assert context.take_forwarded() == []
        context.advance_wall_clock("3 ms")
        assert context.take_forwarded() == [Forwarded("wall", 107, 107)]
        context.set_stream_time(50)
        context.set_wall_time(500)
        assert (context.stream_time, context.wall_time, context.forwarded) == (50, 500, [])
        context.punctuate("on_stream", 60)
        assert context.take_forwarded() == [Forwarded("stream", [60, 1], 60)]
        with pytest.raises(LookupError, match="no punctuation 'other' is active; active punctuations: on_stream, mine"):
            context.punctuate("other", 1)


def test_a_new_batch_has_a_new_processor_and_the_same_stores_and_timers() -> None:
    with TestContext(Everything, tables={"users": {}}) as context:
        context.process("later", key="a", timestamp=3)
        before = context.processor
        context.take_forwarded()
        context.next_batch()
        assert context.take_forwarded() == [Forwarded("close", 1, 3)]
        assert context.processor is not before
        assert (context.processor.seen, context.store("kv")["a"]) == (0, "later")
        assert context.schedules == ("on_stream", "mine")
        context.advance_wall_clock("5 ms")
        assert context.take_forwarded() == [Forwarded("wall", 5, 5)]


def test_a_processor_for_process_values_cannot_change_keys() -> None:
    class Rename(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record, key="other")

    with (
        TestContext(Rename, keeps_keys=True) as context,
        pytest.raises(DefinitionError, match="cannot forward 'other'"),
    ):
        context.process("x", key="a")


def test_transformers_are_called_directly() -> None:
    class Count(ValueTransformer):
        stores = {"calls": key_value_store()}

        def transform(self, key: Any, value: Any) -> Any:
            calls = self.context.store("calls")
            calls.put(key, calls.get(key, 0) + 1)
            return value, calls[key]

    with TestContext(Count) as context:
        assert [context.transform("k", "v"), context.transform("k", None)] == [("v", 1), (None, 2)]
        with pytest.raises(DefinitionError, match="Count is not a processor; use transform"):
            context.process("x")
    with TestContext(Everything) as context, pytest.raises(DefinitionError, match="Everything is not a transformer"):
        context.transform("k", "v")


def test_global_tables_are_read_without_a_declaration() -> None:
    class Country(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record, value=dict(self.context.store("countries").items()))
            self.context.store("countries").put("fr", "France")

    with TestContext(Country, tables={"countries": {"de": "Germany"}}) as context:
        with pytest.raises(DefinitionError, match="'countries' belongs to a table and is read-only"):
            context.process("x")
        assert context.forwarded == [Forwarded(None, {"de": "Germany"}, 0)]


def test_errors_name_missing_tables_and_stores() -> None:
    with TestContext(Everything) as context:
        with pytest.raises(DefinitionError, match="the test has no rows for table 'users'"):
            context.process("x", key="a")
        with pytest.raises(DefinitionError, match="declares no store 'other'"):
            context.store("other")

    class Broken(Processor):
        def init(self) -> None:
            raise RuntimeError("no luck")

        def process(self, record: Record) -> None: ...

    with pytest.raises(ProcessingError, match="no luck"):
        TestContext(Broken)
    with pytest.raises(DefinitionError, match="expects a UserStep"):
        TestContext(dict)
