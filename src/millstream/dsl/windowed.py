"""The handle of a windowed stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, overload

from millstream.dsl.handle import Verbs
from millstream.dsl.measures import Measure
from millstream.dsl.ready import ReadyAggregations, nothing
from millstream.dsl.table import Table
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.type_variables import A, K, V
from millstream.functions import Adder, AnyFunction, Function, KeyedAdder, KeyedMerger, Merger, by_arity
from millstream.plan.node import Node
from millstream.plan.stateful import WindowedAggregate
from millstream.plan.stateless import MapValues
from millstream.plan.topology import Draft
from millstream.records import Windowed
from millstream.serdes import SerdeLike, serde_for
from millstream.windows import Windows

_ADDER = {2: "(aggregate, value)", 3: "(key, aggregate, value)"}
_MERGER = {2: "(aggregate, aggregate)", 3: "(key, aggregate, aggregate)"}


@dataclasses.dataclass(frozen=True)
class WindowedStream(ReadyAggregations[K, V, Windowed[K]], Verbs):
    """Records grouped by key and window. Keys of results are ``Windowed(key, start, end)``.

    Null keys are dropped. Null values reach the aggregation, except for sliding windows, which drop them. A record
    that is late for a window is dropped for that window and counted.
    """

    _draft: Draft
    _source: Node
    _windows: Windows
    _final: bool = False
    _late_to: str | None = None

    def emit(self, when: Literal["updates", "final"]) -> WindowedStream[K, V]:
        """Choose when results are passed on: at each update (default), or once when the window has closed.

        A window closes when stream time has reached its end plus the grace; only a later record advances that time.
        """
        if when not in ("updates", "final"):
            raise DefinitionError(f"emit({when!r}) is unknown", hint='use "updates" or "final"')
        return dataclasses.replace(self, _final=when == "final")

    def count(self, *, retention: Duration | None = None, name: str | None = None) -> Table[Windowed[K], int]:
        """Count the records of each key and window.

        >>> from millstream import tumbling
        >>> app = App("doc")
        >>> counts = app.stream("n", value=int).group_by(lambda n: "all").windowed_by(tumbling("1 s")).count()
        >>> counts.to_stream().map(lambda window, n: (window.key, n)).to("out")
        >>> outputs(app, n=[1, 2])
        [('all', 1), ('all', 2)]
        """
        return self._aggregate("count", lambda: 0, _plus_one, _sum, int, retention, name)

    @overload
    def reduce(
        self,
        reducer: Adder[V, V],
        *,
        value: SerdeLike = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table[Windowed[K], V]: ...
    @overload
    def reduce(
        self,
        reducer: KeyedAdder[K, V, V],
        *,
        value: SerdeLike = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table[Windowed[K], V]: ...
    def reduce(
        self,
        reducer: AnyFunction,
        *,
        value: SerdeLike = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table[Windowed[K], V]:
        """Combine the values of each key and window pairwise; sessions are merged in the same way."""
        return self._aggregate("reduce", None, reducer, reducer, value, retention, name)

    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        add: Adder[A, V],
        merge: Merger[A] | None = None,
        *,
        value: SerdeLike[A] = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        add: Adder[A, V],
        merge: KeyedMerger[K, A],
        *,
        value: SerdeLike[A] = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        add: KeyedAdder[K, A, V],
        merge: Merger[A] | None = None,
        *,
        value: SerdeLike[A] = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        add: KeyedAdder[K, A, V],
        merge: KeyedMerger[K, A],
        *,
        value: SerdeLike[A] = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table[Windowed[K], A]: ...
    def aggregate(
        self,
        initial: AnyFunction,
        add: AnyFunction,
        merge: AnyFunction | None = None,
        *,
        value: SerdeLike = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Add each value to the aggregate of its key and window; ``merge`` combines the aggregates of two sessions."""
        return self._aggregate("aggregate", initial, add, merge, value, retention, name)

    def _aggregated(
        self, measure: Measure, name: str | None, retention: Duration | None, build: type | None = None
    ) -> Table:
        source, ready = self._source, measure.aggregation
        if measure.select is not None:  # a step, so that only what is aggregated has to be sent
            source = self._draft.add(MapValues(source=source, mapper=measure.select, measure=measure.verb))
        node = WindowedAggregate(
            source=source,
            windows=self._windows,
            initial=nothing,
            adder=Function(ready.add, 2),
            merger=Function(lambda earlier, later: later if earlier is None else ready.merge(earlier, later), 2),
            final=self._final,
            late_to=self._late_to,
            retention=None if retention is None else milliseconds(retention),
            ready=ready,
            build=build,
            name=name,
        )
        return Table(self._draft, node)

    def _aggregate(
        self,
        verb: str,
        initial: Any,
        add: Any,
        merge: Any,
        value: SerdeLike,
        retention: Duration | None,
        name: str | None,
    ) -> Table:
        node = WindowedAggregate(
            source=self._source,
            windows=self._windows,
            initial=initial,
            adder=by_arity(verb, add, _ADDER),
            merger=None if merge is None else by_arity(verb, merge, _MERGER),
            final=self._final,
            late_to=self._late_to,
            retention=None if retention is None else milliseconds(retention),
            value=serde_for(value),
            counts=add is _plus_one,
            name=name,
        )
        return Table(self._draft, node)


def _plus_one(_key: Any, count: int, _value: Any) -> int:
    return count + 1


def _sum(left: int, right: int) -> int:
    return left + right
