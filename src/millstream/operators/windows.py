"""The work of windowed aggregations: tumbling, hopping and unlimited windows here, the others beside.

Late is decided for each window: it has closed when the operator's own stream time, which a record moves first, has
reached its end and the grace. ``on update`` every change is passed on; ``on close`` each window once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from millstream.functions import Function
from millstream.native import value_codec
from millstream.operators.aggregation import Step, showing, with_key
from millstream.operators.protection import protected
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.stateful import WindowedAggregate
from millstream.records import Windowed
from millstream.state.timed import At, Entry, TimedStore, layout_of
from millstream.windows import SlidingWindows, TimeWindows, UnlimitedWindows, Windows


@operator.register(WindowedAggregate)
def _windowed(node: WindowedAggregate, forward: Process, runtime: Runtime) -> tuple[Process, ...]:
    adders = (node.adder, *node.other_adders)
    return tuple(
        windowed(node.windows, Aggregation(node, number, adder, forward, runtime))
        for number, adder in enumerate(adders)
    )


class Aggregation:
    """What all kinds of windows share: the store, the step of the aggregate, and how results are passed on.

    Cogrouped streams share the store, but each has a stream time of its own.
    """

    def __init__(
        self, node: WindowedAggregate, number: int, adder: Function, forward: Process, runtime: Runtime
    ) -> None:
        self.node = node
        self.final = node.final
        self.initial = node.initial
        shares = isinstance(node.windows, SlidingWindows)  # a new window begins with the aggregate of another
        step = protected(with_key(adder), node, runtime, always=shares)
        self.added: Step = step if node.initial is not None else _or_first(step)
        """Returns the aggregate with one more value."""
        self.merge: Step | None = None if node.merger is None else protected(with_key(node.merger), node, runtime)
        codec = value_codec(runtime.plan.declared[node].value)
        self.store: TimedStore = runtime.timed_store(
            node, codec, layout_of(node.windows), node.kept_for, indexed=node.final
        )
        self.clock = self.store.clock(number)
        self.context = runtime.context
        self._named = node.windows.named
        self._forward = showing(node, forward, runtime)
        self._regrouped = node in runtime.plan.regrouped
        self.skips_nulls = node.ready is not None
        self._held_back = runtime.caching or node.final
        self._dropped, self._failed = runtime.dropped, runtime.failed
        self._runtime = runtime
        self._missed: list[Windowed] = []
        if runtime.caching and not node.final:
            runtime.on_flush(node, self._flush)

    def begin(self) -> Any:
        """Return the aggregate before its first record."""
        return None if self.initial is None else self.initial()

    def visible(self, start: int) -> bool:
        """Whether entries of a time are in reach of a look-up."""
        expired = self.store.expired
        return start >= expired if self.final else start > expired

    def put(self, entry: Entry, value: Any, timestamp: int, old: Any = None) -> None:
        """Store a new aggregate and pass it on, unless that waits; groupings behind it are told what it really was."""
        if self._regrouped:
            old = entry.value
        entry.value, entry.timestamp = value, timestamp
        if not entry.changed:
            self.store.mark(entry)
        if not self._held_back:
            self._forward(self._named(entry.key, entry.at), value, old, timestamp)
        elif self.context.has_headers or entry.headers:
            entry.headers = self.context.headers

    def pass_on(self, entry: Entry) -> None:
        """Pass on a final result."""
        self._forward(self._named(entry.key, entry.at), entry.value, None, entry.timestamp)

    def drop(self, reason: str) -> None:
        self._dropped(self.node, reason)

    def late(self, key: Any, at: At) -> None:
        """Count a window that has closed before the record came."""
        self._dropped(self.node, "late")
        if self.node.late_to is not None:
            self._missed.append(self._named(key, at))

    def tell_late(self) -> None:
        """Send the record to the topic for late ones, once for all windows that it has missed."""
        if self._missed and self.node.late_to is not None:
            self._runtime.to_late(self.node, self.node.late_to, self._missed)
            self._missed.clear()

    def on_time(self, close: Callable[[int], None] | None) -> None:
        """Let time go on when the inputs are idle; ``close`` passes on what closes then."""

        def move_on(time: int) -> None:
            if time > self.clock.time:
                self.clock.time = time
                if close is not None:
                    close(time)

        self._runtime.on_time(self.node, move_on)

    def fail(self, error: Exception, key: Any) -> None:
        self._failed(self.node, error, key)

    def _flush(self) -> None:
        for entry in self.store.take_changed():
            before, carried = entry.before, self.context.carry(entry.headers) if entry.headers else None
            self.store.settle(entry)
            self._forward(self._named(entry.key, entry.at), entry.value, before, entry.timestamp)
            if carried is not None:
                self.context.restore(carried)


def _or_first(step: Step) -> Step:
    """Without an initial value the first value is the first result."""
    return lambda key, aggregate, value: value if aggregate is None else step(key, aggregate, value)


@singledispatch
def windowed(windows: Windows, aggregation: Aggregation) -> Process:
    """Return what a kind of windows does with a record."""
    raise NotImplementedError(windows, aggregation)


@windowed.register(TimeWindows)
@windowed.register(UnlimitedWindows)
def _time_windows(windows: TimeWindows | UnlimitedWindows, aggregation: Aggregation) -> Process:
    store, clock, grace, size = aggregation.store, aggregation.clock, windows.grace, windows.size
    skips_nulls, put, added, begin = aggregation.skips_nulls, aggregation.put, aggregation.added, aggregation.begin
    find, starts = store.entry, windows.starts
    first_visible = 0 if aggregation.final else 1
    emit = closer(aggregation, lambda close: close - size) if aggregation.final else None
    aggregation.on_time(None if emit is None else lambda time: emit(time - grace))
    tells_late = aggregation.node.late_to is not None

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None or (value is None and skips_nulls):
            return aggregation.drop("null_key" if key is None else "null_value")
        if timestamp > clock.time:
            clock.time = timestamp
        close = clock.time - grace
        open_from = close - size
        visible_from = store.observed - store.retention + first_visible  # later windows do not hide earlier ones
        for start in starts(timestamp):
            if start <= open_from:
                aggregation.late(key, (start,))
                continue
            entry = find(key, (start,))
            old = entry.value if start >= visible_from else None
            at = timestamp if old is None or timestamp > entry.timestamp else entry.timestamp
            try:
                if old is None:
                    old = begin()
                new = added(key, old, value)
            except Exception as error:
                return aggregation.fail(error, key)
            put(entry, new, at, old)
        if tells_late:
            aggregation.tell_late()
        if emit is not None:
            emit(close)
        return None

    return process


def closer(aggregation: Aggregation, last_start: Callable[[int], int]) -> Callable[[int], None]:
    """Return what passes on each window once it has closed, by start, then key.

    ``last_start`` is the latest start of the windows that are closed when time has come to ``close``.
    """
    store = aggregation.store

    def emit(close: int) -> None:
        if close <= store.emitted:
            return
        low = 0 if store.emitted < 0 else last_start(store.emitted) + 1
        for entry in store.due(max(low, store.expired), last_start(close)):
            aggregation.pass_on(entry)
        store.emitted = close

    return emit
