"""A context for testing a processor by itself, without an app."""

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
    """A record that a processor has forwarded, and to whom: None for all its readers."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()
    to: str | None = None


class TestContext(StepContext):
    """Runs one processor or transformer with real stores and timers, and keeps what it forwards.

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
        """Begin a batch; ``tables`` has the rows of tables that it reads, ``keeps_keys`` is for ``process_values``."""
        facts = checked("TestContext", factory, UserStep)
        source = StreamSource(topics=("test",), key=READABLE, value=JSON, name="test")
        kind = ProcessValues if keeps_keys else Process
        if isinstance(facts["factory"](), ValueTransformer):
            kind = TransformValues  # type: ignore[assignment]
        self._node = kind(source=source, name="step", **facts)
        known = dict(tables or {})
        names = [part_name(self._node, use.local) for use in self._node.stores] + [f"table.{name}" for name in known]
        names += [use.spec.name for use in self._node.stores if use.spec.name]
        self._bench = Bench(app, partition, wall_time, (*names, *(f"{name}.{HISTORY}" for name in names)))
        self.forwarded: list[Forwarded] = []
        super().__init__(self._node, Children(self._keep_for(None), _Anyone(self)), cast(Runtime, self._bench))
        self.store = _Stores(self, known)
        self._stored_timers: bytes | None = None
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget everything."""
        self._bench.close()

    @property
    def processor(self) -> Any:
        """The object under test; another one after ``next_batch``."""
        return self.step

    # Doing

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
        """Hand it a record, and call what is due on stream time then."""
        step = self.step
        if not isinstance(step, Processor):
            raise DefinitionError(f"{type(step).__name__} is no processor", hint="use transform()")
        hand = self._bench.context
        hand.topic, hand.partition, hand.offset, hand.timestamp, hand.headers = (
            *(topic, self.partition, offset),
            *(timestamp, headers),
        )
        self.key = key
        hand.stream_time = max(hand.stream_time, timestamp)
        step.process(Record(topic, self.partition, offset, key, value, timestamp, headers))
        self._timers.fire("stream", hand.stream_time)

    def transform(self, key: Any, value: Any, *, timestamp: int = 0) -> Any:
        """Have a transformer compute a row."""
        step = self.step
        if not isinstance(step, ValueTransformer):
            raise DefinitionError(f"{type(step).__name__} is no transformer", hint="use process()")
        hand = self._bench.context
        hand.timestamp, hand.stream_time = timestamp, max(hand.stream_time, timestamp)
        return step.transform(key, value)

    def advance_wall_clock(self, by: Duration) -> None:
        """Move the wall clock, and call what is due then."""
        self.set_wall_time(self.wall_time + milliseconds(by))
        self._timers.fire("wall", self.wall_time)

    def set_wall_time(self, now: int) -> None:
        """Set the wall clock without calling anything."""
        self.wall_time = self._bench.wall_time = self._timers.wall_time = now

    def set_stream_time(self, now: int) -> None:
        """Set the stream time without calling anything."""
        self._bench.context.stream_time = now

    def punctuate(self, name: str, now: int) -> None:
        """Call a scheduled method, whether it is due or not."""
        found = next((each for each in self.scheduled if each.name == name), None)
        if found is None:
            known = ", ".join(self.schedules) or "none"
            raise LookupError(f"nothing is scheduled as {name!r} (active: {known})")
        self._fire(found.method, now)

    def next_batch(self) -> None:
        """End the batch and begin another one with a fresh object, as happens all the time on Spark."""
        for end in self._bench.ends:
            end()
        self._begin()

    # Seeing

    @property
    def scheduled(self) -> list[Schedule]:
        """The punctuations that are active: ``name``, ``method``, ``every``, ``on``, ``start``, ``due``."""
        return self._timers.schedules_of(self.node)

    def take_forwarded(self) -> list[Forwarded]:
        """Return what was forwarded since the last call."""
        taken, self.forwarded[:] = list(self.forwarded), []
        return taken

    def _begin(self) -> None:
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

    def _keep_for(self, to: str | None) -> Any:
        def keep(key: Any, value: Any, timestamp: int) -> None:
            self.forwarded.append(Forwarded(key, value, timestamp, self._bench.context.headers, to))

        return keep


class _Anyone(dict[str, Any]):
    """Readers of any name."""

    def __init__(self, context: TestContext) -> None:
        super().__init__()
        self._context = context

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        return self._context._keep_for(name)


class _Stores(AttachedStores):
    """Stores, and tables with the rows that the test gives them."""

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
                f"the test gives no table {table!r}", hint=f'TestContext(..., tables={{"{table}": {{}}}})'
            )
        store = self._bench.open_store(f"table.{table}", OBJECT_CODEC)
        filling = KeyValueView(store, *arguments)
        for key, value in self._tables[table].items():
            filling.put(key, value)
        return KeyValueView(store, *arguments, writable=False)
