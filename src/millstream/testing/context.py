"""A context to test a single processor, without an app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

import msgspec

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.object_codec import OBJECT_CODEC
from millstream.operators.attached import AttachedStores
from millstream.operators.processors import NO_KEY, Children, StepContext, create_step
from millstream.operators.runtime import Runtime
from millstream.plan.processors import Process, ProcessValues, TransformValues
from millstream.plan.sources import StreamSource
from millstream.plan.stages import HISTORY, part_name
from millstream.processors import Factory, Processor, UserStep, ValueTransformer, checked, punctuations_of
from millstream.records import Headers, Record
from millstream.serdes import JSON, READABLE
from millstream.state.processor_stores import KeyValueView
from millstream.state.timers import Schedule, Timers
from millstream.testing.bench import Bench


class Forwarded(msgspec.Struct, frozen=True):
    """A record that a processor forwarded; ``to`` names its only receiver, None means all."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()
    to: str | None = None


class TestContext(StepContext):
    """Runs one processor or transformer with real stores and timers, and collects the records that it forwards.

    >>> from millstream import Processor, key_value_store
    >>> class Dedupe(Processor):
    ...     stores = {"seen": key_value_store()}
    ...     def process(self, record):
    ...         if self.context.store("seen").put_if_absent(record.key, True) is None:
    ...             self.context.forward(record, to="first")
    >>> with TestContext(Dedupe) as context:
    ...     context.process("a", key="k", timestamp=5)
    ...     context.process("b", key="k", timestamp=6)
    ...     context.forwarded, context.store("seen").get("k")
    ([Forwarded(key='k', value='a', timestamp=5, headers=(), to='first')], True)
    """

    __test__ = False

    def __init__(
        self,
        factory: Factory,
        *,
        tables: Mapping[str, Mapping[Any, Any]] | None = None,
        keeps_keys: bool = False,
        app: str = "test",
        partition: int = 0,
        wall_time: int = 0,
    ) -> None:
        """Start a batch; ``tables`` has the rows of tables that it reads, ``keeps_keys`` is for ``process_values``."""
        facts = checked("TestContext", factory, UserStep)
        source = StreamSource(topics=("test",), key=READABLE, value=JSON, name="test")
        kind = ProcessValues if keeps_keys else Process
        if isinstance(facts["factory"](), ValueTransformer):
            kind = TransformValues  # type: ignore[assignment]
        self._node = kind(source=source, name="step", **facts)
        rows = dict(tables or {})
        names = [part_name(self._node, use.local) for use in self._node.stores] + [f"table.{name}" for name in rows]
        names += [use.spec.name for use in self._node.stores if use.spec.name]
        self._bench = Bench(app, partition, wall_time, (*names, *(f"{name}.{HISTORY}" for name in names)))
        self.forwarded: list[Forwarded] = []
        super().__init__(self._node, Children(self._collect(None), _AnyReceiver(self)), cast(Runtime, self._bench))
        self.store = _Stores(self, rows)
        self._stored_timers: bytes | None = None
        self._start_batch()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete all state."""
        self._bench.close()

    @property
    def processor(self) -> Any:
        """The processor or transformer under test; ``next_batch`` creates a new one."""
        return self.step

    # Actions

    def process(
        self,
        value: Any,
        *,
        key: Any = None,
        timestamp: int = 0,
        headers: Headers = (),
        topic: str = "test",
        offset: int = 0,
    ) -> None:
        """Process a record, then call the punctuations that are due on stream time."""
        step = self.step
        if not isinstance(step, Processor):
            raise DefinitionError(f"{type(step).__name__} is not a processor", hint="use transform()")
        current = self._bench.context
        current.topic, current.partition, current.offset = topic, self.partition, offset
        current.timestamp, current.headers = timestamp, headers
        self.key = key
        current.stream_time = max(current.stream_time, timestamp)
        step.process(Record(topic, self.partition, offset, key, value, timestamp, headers))
        self._timers.fire("stream", current.stream_time)

    def transform(self, key: Any, value: Any, *, timestamp: int = 0) -> Any:
        """Return the value that a transformer computes."""
        step = self.step
        if not isinstance(step, ValueTransformer):
            raise DefinitionError(f"{type(step).__name__} is not a transformer", hint="use process()")
        current = self._bench.context
        current.timestamp, current.stream_time = timestamp, max(current.stream_time, timestamp)
        return step.transform(key, value)

    def advance_wall_clock(self, by: Duration) -> None:
        """Advance the wall clock and call the punctuations that are due."""
        self.set_wall_time(self.wall_time + milliseconds(by))
        self._timers.fire("wall", self.wall_time)

    def set_wall_time(self, now: int) -> None:
        """Set the wall clock without calling punctuations."""
        self.wall_time = self._bench.wall_time = self._timers.wall_time = now

    def set_stream_time(self, now: int) -> None:
        """Set the stream time without calling punctuations."""
        self._bench.context.stream_time = now

    def punctuate(self, name: str, now: int) -> None:
        """Call a punctuation, whether it is due or not."""
        schedule = next((schedule for schedule in self.scheduled if schedule.name == name), None)
        if schedule is None:
            names = ", ".join(self.schedules) or "none"
            raise LookupError(f"no punctuation {name!r} is active; active punctuations: {names}")
        self._fire(schedule.method, now)

    def next_batch(self) -> None:
        """End the batch and start another one with a new processor, as every batch does on Spark."""
        for end in self._bench.ends:
            end()
        self._start_batch()

    # Results

    @property
    def scheduled(self) -> list[Schedule]:
        """The active punctuations: ``name``, ``method``, ``every``, ``on``, ``start``, ``due``."""
        return self._timers.schedules_of(self.node)

    def take_forwarded(self) -> list[Forwarded]:
        """Return the records that were forwarded since the last call."""
        records, self.forwarded[:] = list(self.forwarded), []
        return records

    def _start_batch(self) -> None:
        self._stored_timers = self._timers.changes() or self._stored_timers
        self._timers = self._bench.timers = Timers(self._stored_timers, self.wall_time)
        step = create_step(self._node, self)
        self._bench.ends[:] = [step.close]
        self._timers.attach(self.node, self._fire, punctuations_of(type(step)))

    def _fire(self, method: str, now: int) -> None:
        suspended = self._bench.context.suspend(now)
        self.key = NO_KEY
        getattr(self.step, method)(now)
        self._bench.context.resume(suspended)

    def _collect(self, to: str | None) -> Any:
        def collect(key: Any, value: Any, timestamp: int) -> None:
            self.forwarded.append(Forwarded(key, value, timestamp, self._bench.context.headers, to))

        return collect


class _AnyReceiver(dict[str, Any]):
    """Receivers of any name."""

    def __init__(self, context: TestContext) -> None:
        super().__init__()
        self._context = context

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        return self._context._collect(name)


class _Stores(AttachedStores):
    """The stores of the processor, and tables with the rows that the test provides."""

    def __init__(self, context: TestContext, tables: dict[str, Mapping[Any, Any]]) -> None:
        node = context._node
        super().__init__(node, node.stores, cast(Runtime, context._bench), context._set_engine_error)
        self._tables = tables
        self._bench = context._bench

    def _open_store(self, name: str) -> Any:
        if name in self._tables and name not in self._uses:  # a global table, which needs no declaration
            return self._table(name, name, self._bench.context, self._on_engine_error)
        return super()._open_store(name)

    def _table(self, table: str, *arguments: Any) -> Any:
        if table not in self._tables:
            raise DefinitionError(
                f"the test has no rows for table {table!r}", hint=f'use TestContext(..., tables={{"{table}": {{}}}})'
            )
        store = self._bench.open_store(f"table.{table}", OBJECT_CODEC)
        view = KeyValueView(store, *arguments)
        for key, value in self._tables[table].items():
            view.put(key, value)
        return KeyValueView(store, *arguments, writable=False)
