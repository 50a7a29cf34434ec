"""The handle of a windowed stream: records that meet by key and window."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from millstream.dsl.handle import Verbs
from millstream.dsl.measures import Measure
from millstream.dsl.ready import ReadyAggregations, nothing
from millstream.dsl.table import Table
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.functions import AnyFunction, Function, by_arity
from millstream.plan.node import Node
from millstream.plan.stateful import WindowedAggregate
from millstream.plan.stateless import MapValues
from millstream.plan.topology import Draft
from millstream.serdes import SerdeLike, serde_for
from millstream.windows import Windows

_ADDER = {2: "(aggregate, value)", 3: "(key, aggregate, value)"}
_MERGER = {2: "(aggregate, aggregate)", 3: "(key, aggregate, aggregate)"}


@dataclasses.dataclass(frozen=True)
class WindowedStream(ReadyAggregations, Verbs):
    """Records of the same key and window. Keys of results are ``Windowed(key, start, end)``.

    Null keys are dropped. Null values reach the aggregation, but for sliding windows, which drop them. A record that
    is late for a window is dropped for that window, and counted.
    """

    _draft: Draft
    _source: Node
    _windows: Windows
    _final: bool = False
    _late_to: str | None = None

    def emit(self, when: Literal["updates", "final"]) -> WindowedStream:
        """Say when results are passed on: at each update (default), or once when the window has closed.

        A window closes when stream time has reached its end and the grace; only a further record can bring it there.
        """
        if when not in ("updates", "final"):
            raise DefinitionError(f"emit({when!r}) is not known", hint='use "updates" or "final"')
        return dataclasses.replace(self, _final=when == "final")

    def count(self, *, retention: Duration | None = None, name: str | None = None) -> Table:
        """Count the records of each key and window.

        >>> from millstream import tumbling
        >>> app = App("doc")
        >>> counts = app.stream("n", value=int).group_by(lambda n: "all").windowed_by(tumbling("1 s")).count()
        >>> counts.to_stream().map(lambda window, n: (window.key, n)).to("out")
        >>> outputs(app, n=[1, 2])
        [('all', 1), ('all', 2)]
        """
        return self._aggregate("count", lambda: 0, _plus_one, _sum, int, retention, name)

    def reduce(
        self,
        reducer: AnyFunction,
        *,
        value: SerdeLike = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Combine the values of each key and window two by two; sessions are merged in the same way."""
        return self._aggregate("reduce", None, reducer, reducer, value, retention, name)

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
        """Add each value to the aggregate of its key and window; sessions also need ``merge``, which joins two."""
        return self._aggregate("aggregate", initial, add, merge, value, retention, name)

    def _aggregated(
        self, measure: Measure, name: str | None, retention: Duration | None, build: type | None = None
    ) -> Table:
        source, ready = self._source, measure.aggregation
        if measure.select is not None:  # before records move to their task, so that only what counts moves
            source = self._draft.add(MapValues(source=source, mapper=measure.select))
        node = WindowedAggregate(
            source=source,
            windows=self._windows,
            initial=nothing,
            adder=Function(ready.add, 2),
            merger=Function(lambda one, other: other if one is None else ready.merge(one, other), 2),
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


def _sum(one: int, other: int) -> int:
    return one + other
