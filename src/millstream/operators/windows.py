"""What the aggregations of all kinds of windows have in common.

Whether a record is late is decided for each window: a window closes when the operator's own stream time, which the
record advances first, reaches its end plus the grace period. Updates are forwarded for each change, final results once
per window, when it closes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from operator import add
from typing import Any, TypeAlias

from millstream.aggregations import Several
from millstream.functions import Function
from millstream.operators.aggregation import (
    Step,
    collector_of,
    finishing,
    finishing_columns,
    store_of_windows,
    with_key,
)
from millstream.operators.columns import (
    ChangeCollector,
    ColumnBatch,
    EndOfBatch,
    Port,
    ProcessColumns,
    record_by_record,
)
from millstream.operators.protection import may_change_in_place, protected
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.stateful import WindowedAggregate
from millstream.records import Windowed
from millstream.state.entries import Entry, Position
from millstream.windows import SlidingWindows, TimeWindows, Windows

Put: TypeAlias = Callable[..., None]
"""(entry, value, timestamp, old value) → stores a new aggregate and forwards it, unless updates are deferred."""


@operator.register(WindowedAggregate)
def _windowed(node: WindowedAggregate, forward: Process, runtime: Runtime) -> tuple[Port, ...]:
    adders = (node.adder, *node.other_adders)
    return tuple(_port(WindowAggregator(node, number, adder, forward, runtime)) for number, adder in enumerate(adders))


def _port(aggregation: WindowAggregator) -> Port:
    window_operator = windowed(aggregation.node.windows, aggregation)
    process = window_operator.process if isinstance(window_operator, Port) else window_operator

    def make_process_columns(forward: ProcessColumns | None) -> ProcessColumns:
        aggregation.flush_to(forward)
        if isinstance(window_operator, Port):
            return window_operator.make_process_columns(forward)
        return record_by_record(process, aggregation.context)

    coded = window_operator.make_process_coded if isinstance(window_operator, Port) else None
    return Port(process, make_process_columns, coded)


class WindowAggregator:
    """What all kinds of windows share: the store, the step of the aggregate, and how results are forwarded.

    Cogrouped streams share the store, but each has its own stream time.
    """

    def __init__(
        self, node: WindowedAggregate, number: int, adder: Function, forward: Process, runtime: Runtime
    ) -> None:
        self.node = node
        self._runtime = runtime
        self.final = node.final
        self.initial = node.initial
        self.begin: Callable[[], Any] = _nothing if node.initial is None else node.initial
        """Returns the aggregate before its first record."""
        shares = isinstance(node.windows, SlidingWindows)  # a new window starts with the aggregate of another one
        in_place = may_change_in_place(node, runtime) and not shares
        step = protected(with_key(adder, in_place=in_place), node, runtime, always=shares)
        self.added: Step = step if node.initial is not None else _or_first(step)
        """Returns the aggregate with one more value."""
        self.added_several = _counting(node)
        """Returns an aggregate with that many more records; None if their values matter."""
        self.merge: Step | None = None if node.merger is None else protected(with_key(node.merger), node, runtime)
        self.store: Any = store_of_windows(node, runtime)
        if node.keeps_unemitted:
            self.store.length_until_emitted = node.windows.size if isinstance(node.windows, TimeWindows) else 1
        self.clock = self.store.clock(number)
        self.context = runtime.context
        self.windowed_key = node.windows.window_key
        self._forward = forward
        self._forward_finished = finishing(node, forward, runtime)
        self.is_deferred = runtime.caching or node.final
        """Whether updates are not forwarded at once."""
        self._regrouped = node in runtime.plan.regrouped
        self.put: Put = self._deferred_put() if self.is_deferred else self.forwarding_put(self._forward_finished)
        self.skips_nulls = node.ready is not None
        self.has_late_topic = node.late_to is not None
        self._drop, self._handle_error = runtime.drop, runtime.handle_error
        self.take_counted: Callable[[], ColumnBatch | None] = _nothing
        """Writes what the operator has counted column by column and returns the results, None if there are none."""
        self._missed: list[Windowed] = []
        self._forward_columns: ProcessColumns | None = None
        if runtime.caching and not node.final:
            runtime.on_flush(node, self._flush)

    def flush_to(self, forward: ProcessColumns | None) -> None:
        """Forward the updates that wait for the end of the batch as a column batch."""
        self._forward_columns = None if forward is None else finishing_columns(self.node, forward)

    @property
    def visible_from(self) -> int:
        """The earliest time whose entries a lookup can find."""
        expired: int = self.store.expired
        return expired if self.final else expired + 1

    def _deferred_put(self) -> Put:
        mark, context = self.store.mark, self.context

        def put(entry: Entry, value: Any, timestamp: int, _old: Any = None) -> None:
            entry.value, entry.timestamp = value, timestamp
            if not entry.changed:
                mark(entry)
            if context.has_headers or entry.headers:
                entry.headers = context.headers

        return put

    def forwarding_put(self, receive: Process) -> Put:
        """Return what stores a new aggregate and passes it to ``receive``."""
        mark, windowed_key, regrouped = self.store.mark, self.windowed_key, self._regrouped

        def put(entry: Entry, value: Any, timestamp: int, old: Any = None) -> None:
            if regrouped:  # groupings downstream need the stored old value, not the initial one
                old = entry.value
            entry.value, entry.timestamp = value, timestamp
            if not entry.changed:
                mark(entry)
            window = entry.window
            if window is None:
                window = entry.window = windowed_key(entry.key, entry.position)
            receive(window, value, old, timestamp)

        return put

    def collector(self, forward: ProcessColumns) -> ChangeCollector:
        """Return what collects updates that are forwarded at once, as column batches."""
        return collector_of(self.node, forward, self._forward, self._runtime)

    def forward_final(self, entry: Entry) -> None:
        """Forward a final result."""
        self._forward_finished(self.windowed_key(entry.key, entry.position), entry.value, None, entry.timestamp)

    def has_nulls(self, batch: ColumnBatch, handles: list[Any]) -> bool:
        """Whether a record has no key, or no value where a value is required; ``handles`` are those of the keys."""
        if handles is not batch.keys and type(None) in map(type, batch.keys):
            return True
        return self.skips_nulls and type(None) in map(type, batch.values)

    def drop(self, reason: str, count: int = 1) -> None:
        for _ in range(count):
            self._drop(self.node, reason)

    def count_late(self, key: Any, position: Position) -> None:
        """Count a window that closed before the record arrived."""
        self._drop(self.node, "late")
        if self.node.late_to is not None:
            self._missed.append(self.windowed_key(key, position))

    def open_entries(self, key: Any, starts: list[int], closed: int) -> list[Entry]:
        """Return the entries of the windows that start after ``closed``; count the record as late for the others."""
        for start in starts:
            if start <= closed:
                self.count_late(key, (start,))
        self.send_late()
        return [self.store.entry(key, (start,)) for start in starts if start > closed]

    def send_late(self) -> None:
        """Send the current record to the topic for late records, once for all windows that it has missed."""
        if self._missed and self.node.late_to is not None:
            self._runtime.send_late(self.node, self.node.late_to, self._missed)
            self._missed.clear()

    def on_time_advance(self, close: Callable[[int], None] | None) -> None:
        """Advance stream time when the inputs are idle; ``close`` forwards the windows that close then."""

        def advance_time(time: int) -> None:
            if time > self.clock.time:
                self.clock.time = time
                if close is not None:
                    close(time)

        self._runtime.on_time_advance(self.node, advance_time)

    def handle_error(self, error: Exception, key: Any, timestamp: int) -> None:
        self._handle_error(self.node, error, key, timestamp)

    def _flush(self) -> None:
        """Forward all changes, except windows that were created and deleted since the last flush."""
        counted = self.take_counted()
        if counted is not None and self._forward_columns is not None:
            self._forward_columns(counted)
        written = self.store.take_changed()
        changed = [entry for entry in written if entry.value is not None or entry.before is not None]
        if self._forward_columns is None or any(entry.headers for entry in changed):
            self._flush_singly(changed)
        elif changed:
            self._forward_columns(self._as_columns(changed))
        self.store.reset_changes(written)

    def _flush_singly(self, changed: list[Entry]) -> None:
        forward, windowed_key, context = self._forward_finished, self.windowed_key, self.context
        for entry in changed:
            saved = context.override_headers(entry.headers) if entry.headers else None
            forward(windowed_key(entry.key, entry.position), entry.value, entry.before, entry.timestamp)
            if saved is not None:
                context.restore_headers(saved)

    def _as_columns(self, changed: list[Entry]) -> ColumnBatch:
        windowed_key, size = self.windowed_key, len(changed)
        keys, values = (
            [windowed_key(entry.key, entry.position) for entry in changed],
            [entry.value for entry in changed],
        )
        timestamps = [entry.timestamp for entry in changed]
        return ColumnBatch(EndOfBatch(self.context, size), range(size), keys, values, timestamps)


def _nothing() -> None:
    """Return None: without an initial value there is no aggregate before the first record."""


def _counting(node: WindowedAggregate) -> Callable[[Any, int], Any] | None:
    if not node.counts or node.other_adders:
        return None
    return node.ready.count_several if isinstance(node.ready, Several) else add


def _or_first(step: Step) -> Step:
    """Return ``step``, except that the first value is the first result, since there is no initial value."""
    return lambda key, aggregate, value: value if aggregate is None else step(key, aggregate, value)


@singledispatch
def windowed(windows: Windows, aggregation: WindowAggregator) -> Process | Port:
    """Return what a kind of windows does with a record; a ``Port`` if it also processes column batches."""
    raise NotImplementedError(windows, aggregation)


def closer(aggregation: WindowAggregator, last_start: Callable[[int], int]) -> Callable[[int], None]:
    """Return what forwards each window once it has closed, by start, then key.

    ``last_start`` returns the latest start of the windows that are closed at time ``close``.
    """
    store = aggregation.store

    def emit(close: int) -> None:
        if close <= store.emitted:
            return
        low = 0 if store.emitted < 0 else last_start(store.emitted) + 1
        for entry in store.due(max(low, store.expired), last_start(close)):
            aggregation.forward_final(entry)
        store.emitted = close

    return emit
