"""What the aggregations of all kinds of windows have in common.

Late is decided for each window: it has closed when the operator's own stream time, which a record moves first, has
reached its end and the grace. ``on update`` every change is passed on; ``on close`` each window once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, TypeAlias

from millstream.functions import Function
from millstream.operators.aggregation import showing, showing_runs, store_of_windows, with_key
from millstream.operators.columns import ColumnBatch, EndOfBatch, Port, ProcessRun, one_by_one
from millstream.operators.protection import protected
from millstream.operators.runtime import Process, Runtime, Step, operator
from millstream.plan.stateful import WindowedAggregate
from millstream.records import Windowed
from millstream.state.entries import At, Entry
from millstream.windows import SlidingWindows, Windows

Put: TypeAlias = Callable[..., None]
"""(entry, value, timestamp, old value) → stores a new aggregate and passes it on, unless that waits."""


@operator.register(WindowedAggregate)
def _windowed(node: WindowedAggregate, forward: Process, runtime: Runtime) -> tuple[Port, ...]:
    adders = (node.adder, *node.other_adders)
    return tuple(_port(WindowAggregator(node, number, adder, forward, runtime)) for number, adder in enumerate(adders))


def _port(aggregation: WindowAggregator) -> Port:
    made = windowed(aggregation.node.windows, aggregation)
    process = made.process if isinstance(made, Port) else made

    def over_runs(forward: ProcessRun | None) -> ProcessRun:
        aggregation.flushing_to(forward)
        return made.over_runs(forward) if isinstance(made, Port) else one_by_one(process, aggregation.context)

    return Port(process, over_runs)


class WindowAggregator:
    """What all kinds of windows share: the store, the step of the aggregate, and how results are passed on.

    Cogrouped streams share the store, but each has a stream time of its own.
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
        shares = isinstance(node.windows, SlidingWindows)  # a new window begins with the aggregate of another
        step = protected(with_key(adder), node, runtime, always=shares)
        self.added: Step = step if node.initial is not None else _or_first(step)
        """Returns the aggregate with one more value."""
        self.merge: Step | None = None if node.merger is None else protected(with_key(node.merger), node, runtime)
        self.store: Any = store_of_windows(node, runtime)
        self.clock = self.store.clock(number)
        self.context = runtime.context
        self._named = node.windows.named
        self.forward = forward
        self._show = showing(node, forward, runtime)
        self.held_back = runtime.caching or node.final
        self._regrouped = node in runtime.plan.regrouped
        self.put: Put = self._holding_back() if self.held_back else self.passing_on(forward)
        self.skips_nulls = node.ready is not None
        self.tells_late = node.late_to is not None
        self._dropped, self._failed = runtime.dropped, runtime.failed
        self._missed: list[Windowed] = []
        self._forward_run: ProcessRun | None = None
        if runtime.caching and not node.final:
            runtime.on_flush(node, self._flush)

    def flushing_to(self, forward: ProcessRun | None) -> None:
        """Have what waits for the end of the batch passed on as a run then."""
        self._forward_run = None if forward is None else showing_runs(self.node, forward)

    @property
    def visible_from(self) -> int:
        """The first time whose entries are in reach of a look-up."""
        expired: int = self.store.expired
        return expired if self.final else expired + 1

    def _holding_back(self) -> Put:
        mark, context = self.store.mark, self.context

        def hold_back(entry: Entry, value: Any, timestamp: int, _old: Any = None) -> None:
            entry.value, entry.timestamp = value, timestamp
            if not entry.changed:
                mark(entry)
            if context.has_headers or entry.headers:
                entry.headers = context.headers

        return hold_back

    def passing_on(self, receive: Process) -> Put:
        """Return what stores a new aggregate and gives it to ``receive`` as users see it."""
        forward = self.shown_to(receive)
        mark, named, regrouped = self.store.mark, self._named, self._regrouped

        def pass_on(entry: Entry, value: Any, timestamp: int, old: Any = None) -> None:
            if regrouped:  # groupings behind it are told what it really was
                old = entry.value
            entry.value, entry.timestamp = value, timestamp
            if not entry.changed:
                mark(entry)
            window = entry.window
            if window is None:
                window = entry.window = named(entry.key, entry.at)
            forward(window, value, old, timestamp)

        return pass_on

    def shown_to(self, receive: Process) -> Process:
        """Return what gives an aggregate to ``receive`` as users see it."""
        return showing(self.node, receive, self._runtime)

    def pass_on(self, entry: Entry) -> None:
        """Pass on a final result."""
        self._show(self._named(entry.key, entry.at), entry.value, None, entry.timestamp)

    def lacks(self, run: ColumnBatch, handles: list[Any]) -> bool:
        """Whether a record has no key, or no value where there must be one; ``handles`` stand for the keys."""
        if handles is not run.keys and type(None) in map(type, run.keys):
            return True
        return self.skips_nulls and type(None) in map(type, run.values)

    def drop(self, reason: str) -> None:
        self._dropped(self.node, reason)

    def late(self, key: Any, at: At) -> None:
        """Count a window that has closed before the record came."""
        self._dropped(self.node, "late")
        if self.node.late_to is not None:
            self._missed.append(self._named(key, at))

    def not_late(self, key: Any, starts: list[int], closed: int) -> list[Entry]:
        """Count the windows up to start ``closed``, which have closed before the record came, and return the others."""
        for start in starts:
            if start <= closed:
                self.late(key, (start,))
        self.tell_late()
        return [self.store.entry(key, (start,)) for start in starts if start > closed]

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
        written = self.store.take_changed()
        changed = [entry for entry in written if entry.value is not None or entry.before is not None]
        if self._forward_run is None or any(entry.headers for entry in changed):
            self._flush_singly(changed)
        elif changed:
            self._forward_run(self._as_run(changed))
        self.store.settle(written)

    def _flush_singly(self, changed: list[Entry]) -> None:
        forward, named, context = self._show, self._named, self.context
        for entry in changed:
            carried = context.carry(entry.headers) if entry.headers else None
            forward(named(entry.key, entry.at), entry.value, entry.before, entry.timestamp)
            if carried is not None:
                context.restore(carried)

    def _as_run(self, changed: list[Entry]) -> ColumnBatch:
        named, size = self._named, len(changed)
        keys, values = [named(entry.key, entry.at) for entry in changed], [entry.value for entry in changed]
        timestamps = [entry.timestamp for entry in changed]
        return ColumnBatch(EndOfBatch(self.context, size), range(size), keys, values, timestamps)


def _nothing() -> None:
    """Without an initial value there is no aggregate before the first record."""


def _or_first(step: Step) -> Step:
    """Without an initial value the first value is the first result."""
    return lambda key, aggregate, value: value if aggregate is None else step(key, aggregate, value)


@singledispatch
def windowed(windows: Windows, aggregation: WindowAggregator) -> Process | Port:
    """Return what a kind of windows does with a record, and with a run if it does that in a way of its own."""
    raise NotImplementedError(windows, aggregation)


def closer(aggregation: WindowAggregator, last_start: Callable[[int], int]) -> Callable[[int], None]:
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
