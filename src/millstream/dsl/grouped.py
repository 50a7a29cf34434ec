"""The handle of a grouped stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

from millstream.dsl.cogrouped import CogroupedStream
from millstream.dsl.handle import Handle
from millstream.dsl.measures import Measure
from millstream.dsl.ready import ReadyAggregations, nothing
from millstream.dsl.table import Table
from millstream.dsl.windowed import WindowedStream
from millstream.durations import Duration
from millstream.errors import DefinitionError
from millstream.foundation.type_variables import A, K, V, Value
from millstream.functions import Adder, AnyFunction, Function, KeyedAdder, by_arity
from millstream.plan.stateful import Aggregate, Count, Reduce
from millstream.plan.stateless import MapValues
from millstream.serdes import SerdeLike, serde_for
from millstream.windows import Windows, check_windows

_ADDER = {2: "(aggregate, value)", 3: "(key, aggregate, value)"}
_REDUCER = {2: "(result so far, value)", 3: "(key, result so far, value)"}
_INITIAL = {0: "()"}


class GroupedStream(Handle[K, V], ReadyAggregations[K, V, K]):
    """Records grouped by key, ready to be aggregated. Null keys and null values are dropped and counted."""

    def count(self, *, name: str | None = None) -> Table[K, int]:
        """Count the records of each key.

        >>> app = App("doc")
        >>> app.stream("w", value=str).group_by(lambda w: w).count(name="words").to_stream().to("out")
        >>> outputs(app, w=["a", "b", "a"])
        [('a', 1), ('b', 1), ('a', 2)]
        """
        return Table(self._draft, Count(source=self._node, name=name))

    @overload
    def reduce(self, reducer: Adder[V, V], *, value: SerdeLike = None, name: str | None = None) -> Table[K, V]: ...
    @overload
    def reduce(
        self, reducer: KeyedAdder[K, V, V], *, value: SerdeLike = None, name: str | None = None
    ) -> Table[K, V]: ...
    def reduce(self, reducer: AnyFunction, *, value: SerdeLike = None, name: str | None = None) -> Table[K, V]:
        """Combine the values of each key pairwise; the first value is the first result, None deletes the row.

        >>> app = App("doc")
        >>> app.stream("n", value=int).group_by(lambda n: n % 2).reduce(max).to_stream().to("out")
        >>> outputs(app, n=[1, 5, 3])
        [('1', 1), ('1', 5), ('1', 5)]
        """
        function = by_arity("reduce", reducer, _REDUCER)
        return Table(self._draft, Reduce(source=self._node, reducer=function, value=serde_for(value), name=name))

    @overload
    def aggregate(
        self, initial: Callable[[], A], add: Adder[A, V], *, value: SerdeLike[A] = None, name: str | None = None
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self, initial: Callable[[], A], add: KeyedAdder[K, A, V], *, value: SerdeLike[A] = None, name: str | None = None
    ) -> Table[K, A]: ...
    def aggregate(
        self, initial: AnyFunction, add: AnyFunction, *, value: SerdeLike = None, name: str | None = None
    ) -> Table:
        """Add each value to the aggregate of its key, which starts as ``initial()``.

        ``add`` returns the new aggregate. None deletes the row, and the next record starts again.

        >>> app = App("doc")
        >>> (app.stream("n", value=int).group_by(lambda n: "all")
        ...     .aggregate(lambda: [], lambda seen, n: [*seen, n]).to_stream().to("out"))
        >>> outputs(app, n=[1, 2])
        [('all', [1]), ('all', [1, 2])]
        """
        by_arity("aggregate", initial, _INITIAL)
        node = Aggregate(
            source=self._node,
            initial=initial,
            adder=by_arity("aggregate", add, _ADDER),
            value=serde_for(value),
            name=name,
        )
        return Table(self._draft, node)

    def _aggregated(
        self, measure: Measure, name: str | None, retention: Duration | None, build: type | None = None
    ) -> Table:
        if retention is not None:
            raise DefinitionError(
                f"{measure.verb}(retention={retention!r}) is for windows only", hint="remove it: all keys are kept"
            )
        source = self._node
        if measure.select is not None:  # a step, so that only what is aggregated has to be sent
            source = self._draft.add(MapValues(source=source, mapper=measure.select, measure=measure.verb))
        node = Aggregate(
            source=source,
            initial=nothing,
            adder=Function(measure.aggregation.add, 2),
            ready=measure.aggregation,
            build=build,
            name=name,
        )
        return Table(self._draft, node)

    def windowed_by(self, windows: Windows, *, late_to: str | None = None) -> WindowedStream[K, V]:
        """Group by key and window: ``tumbling``, ``hopping``, ``sliding``, ``session`` or ``unlimited``.

        Records that are too late for a window are counted and, with ``late_to``, sent to that topic unchanged, with
        headers that name the window they missed.
        """
        check_windows(windows)
        return WindowedStream(self._draft, self._node, windows, _late_to=late_to)

    @overload
    def cogroup(self, add: Adder[Value, V]) -> CogroupedStream[K, Value]: ...
    @overload
    def cogroup(self, add: KeyedAdder[K, Value, V]) -> CogroupedStream[K, Value]: ...
    def cogroup(self, add: AnyFunction) -> CogroupedStream:
        """Start to aggregate several grouped streams into one table: ``.cogroup(other, add).aggregate(initial)``."""
        return CogroupedStream(self._draft, (self._node,), (by_arity("cogroup", add, _ADDER),))
