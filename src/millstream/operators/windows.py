"""The work of windowed aggregations: tumbling, hopping and unlimited windows here, the others beside.

Late is decided for each window: it has closed when the operator's own stream time, which a record moves first, has
reached its end and the grace. ``on update`` every change is passed on; ``on close`` each window once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, TypeAlias

from millstream.functions import Function
from millstream.native import encode_key, value_codec
from millstream.operators.aggregation import Step, showing, with_key
from millstream.operators.protection import protected
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.stateful import WindowedAggregate
from millstream.records import Windowed
from millstream.state.entries import At, Entry
from millstream.state.segments import layout_of
from millstream.state.timed import TimedStore
from millstream.windows import SlidingWindows, TimeWindows, UnlimitedWindows, Windows

Put: TypeAlias = Callable[..., None]
"""(entry, value, timestamp, old value) → stores a new aggregate and passes it on, unless that waits."""


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
        self.begin: Callable[[], Any] = _nothing if node.initial is None else node.initial
        """Returns the aggregate before its first record."""
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
        self.put = self._putting(held_back=runtime.caching or node.final, regrouped=node in runtime.plan.regrouped)
        self.skips_nulls = node.ready is not None
        self._dropped, self._failed = runtime.dropped, runtime.failed
        self._runtime = runtime
        self._missed: list[Windowed] = []
        if runtime.caching and not node.final:
            runtime.on_flush(node, self._flush)

    @property
    def visible_from(self) -> int:
        """The first time whose entries are in reach of a look-up."""
        return self.store.expired if self.final else self.store.expired + 1

    def _putting(self, *, held_back: bool, regrouped: bool) -> Put:
        mark, context, forward, named = self.store.mark, self.context, self._forward, self._named

        def hold_back(entry: Entry, value: Any, timestamp: int, _old: Any = None) -> None:
            entry.value, entry.timestamp = value, timestamp
            if not entry.changed:
                mark(entry)
            if context.has_headers or entry.headers:
                entry.headers = context.headers

        def pass_on(entry: Entry, value: Any, timestamp: int, old: Any = None) -> None:
            if regrouped:  # groupings behind it are told what it really was
                old = entry.value
            entry.value, entry.timestamp = value, timestamp
            if not entry.changed:
                mark(entry)
            forward(named(entry.key, entry.at), value, old, timestamp)

        return hold_back if held_back else pass_on

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

    def not_late(self, key: Any, starts: list[int], closed: int) -> list[int]:
        """Count the windows up to start ``closed``, which have closed before the record came, and return the others."""
        for start in starts:
            if start <= closed:
                self.late(key, (start,))
        self.tell_late()
        return [start for start in starts if start > closed]

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
        """Pass on what has changed; a window that came and went in between was never there."""
        forward, named, settle, context = self._forward, self._named, self.store.settle, self.context
        for entry in self.store.take_changed():
            value, before, headers = entry.value, entry.before, entry.headers
            settle(entry)
            if value is None and before is None:
                continue
            carried = context.carry(headers) if headers else None
            forward(named(entry.key, entry.at), value, before, entry.timestamp)
            if carried is not None:
                context.restore(carried)


def _nothing() -> None:
    """Without an initial value there is no aggregate before the first record."""


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
    starts_of, alike = windows.starts, windows.alike
    retention = store.retention
    first_visible = 0 if aggregation.final else 1
    emit = closer(aggregation, lambda close: close - size) if aggregation.final else None
    aggregation.on_time(None if emit is None else lambda time: emit(time - grace))
    starts: list[int] = []  # of the timestamps from same_from until same_until: records come close together
    same_from = same_until = 0
    known: dict[Any, list[Entry]] = {}  # the entries of these starts by key
    known_from: dict[int, dict[Any, list[Entry]]] = {}

    def process(key: Any, value: Any, timestamp: int) -> None:
        nonlocal starts, same_from, same_until, known
        if key is None or (value is None and skips_nulls):
            return aggregation.drop("null_key" if key is None else "null_value")
        now = clock.time
        if timestamp > now:
            clock.time = now = timestamp
        close = now - grace
        if not same_from <= timestamp < same_until:
            starts, (same_from, same_until) = list(starts_of(timestamp)), alike(timestamp)
            known = known_from.setdefault(same_from, store.across(starts))
        open_starts = starts if starts and starts[0] > close - size else aggregation.not_late(key, starts, close - size)
        if open_starts:
            visible_from = store.observed - retention + first_visible  # later windows do not hide earlier ones
            all_known = known if open_starts is starts else store.across(open_starts)
            kind = type(key)
            entries = all_known[key if kind is str or kind is int else encode_key(key)]
            for start, entry in zip(open_starts, entries, strict=True):
                old = entry.value if start >= visible_from else None
                at = timestamp if old is None or timestamp > entry.timestamp else entry.timestamp
                try:
                    if old is None:
                        old = begin()
                    new = added(key, old, value)
                except Exception as error:
                    return aggregation.fail(error, key)
                put(entry, new, at, old)
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
