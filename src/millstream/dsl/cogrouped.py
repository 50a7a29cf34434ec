"""The handles of cogrouped streams: several streams that are aggregated into one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, overload

from millstream.dsl.handle import Verbs
from millstream.dsl.table import Table
from millstream.durations import Duration, milliseconds
from millstream.foundation.type_variables import V2, K, Value
from millstream.functions import Adder, AnyFunction, Function, KeyedAdder, KeyedMerger, Merger, by_arity
from millstream.plan.node import Node
from millstream.plan.stateful import Aggregate, WindowedAggregate
from millstream.plan.topology import Draft
from millstream.records import Windowed
from millstream.serdes import SerdeLike, serde_for
from millstream.windows import Windows, check_windows

if TYPE_CHECKING:
    from millstream.dsl.grouped import GroupedStream

_ADDER = {2: "(aggregate, value)", 3: "(key, aggregate, value)"}
_MERGER = {2: "(aggregate, aggregate)", 3: "(key, aggregate, aggregate)"}


@dataclasses.dataclass(frozen=True)
class CogroupedStream(Verbs, Generic[K, Value]):
    """Grouped streams that share one aggregate, each with a function that adds its values."""

    _draft: Draft
    _sources: tuple[Node, ...]
    _adders: tuple[Function, ...]

    @overload
    def cogroup(self, grouped: GroupedStream[K, V2], add: Adder[Value, V2]) -> CogroupedStream[K, Value]: ...
    @overload
    def cogroup(self, grouped: GroupedStream[K, V2], add: KeyedAdder[K, Value, V2]) -> CogroupedStream[K, Value]: ...
    def cogroup(self, grouped: GroupedStream, add: AnyFunction) -> CogroupedStream[K, Value]:
        """Include another grouped stream; ``add`` adds its values to the aggregate."""
        adder = by_arity("cogroup", add, _ADDER)
        return dataclasses.replace(self, _sources=(*self._sources, grouped._node), _adders=(*self._adders, adder))

    def windowed_by(self, windows: Windows, *, late_to: str | None = None) -> WindowedCogroup[K, Value]:
        """Aggregate by key and window; records that are too late also go to the topic ``late_to``."""
        check_windows(windows)
        return WindowedCogroup(self, windows, late_to)

    def aggregate(
        self, initial: Callable[[], Value], *, value: SerdeLike[Value] = None, name: str | None = None
    ) -> Table[K, Value]:
        """Aggregate the records of all streams by key; records without key or value are dropped and counted.

        >>> app = App("doc")
        >>> buys, sells = (app.stream(topic, value=int).group_by_key() for topic in ("buys", "sells"))
        >>> stock = buys.cogroup(lambda n, bought: n + bought).cogroup(sells, lambda n, sold: n - sold)
        >>> stock.aggregate(lambda: 0).to_stream().to("out")
        >>> outputs(app, buys=[("pen", 5)], sells=[("pen", 2)])
        [('pen', 5), ('pen', 3)]
        """
        by_arity("aggregate", initial, {0: "()"})
        node = Aggregate(
            source=self._sources[0],
            others=self._sources[1:],
            initial=initial,
            adder=self._adders[0],
            other_adders=self._adders[1:],
            value=serde_for(value),
            name=name,
        )
        return Table(self._draft, node)


@dataclasses.dataclass(frozen=True)
class WindowedCogroup(Verbs, Generic[K, Value]):
    """Cogrouped streams by key and window."""

    _streams: CogroupedStream[K, Value]
    _windows: Windows
    _late_to: str | None = None

    @overload
    def aggregate(
        self,
        initial: Callable[[], Value],
        merge: Merger[Value] | None = None,
        *,
        value: SerdeLike[Value] = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table[Windowed[K], Value]: ...
    @overload
    def aggregate(
        self,
        initial: Callable[[], Value],
        merge: KeyedMerger[K, Value],
        *,
        value: SerdeLike[Value] = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table[Windowed[K], Value]: ...
    def aggregate(
        self,
        initial: AnyFunction,
        merge: AnyFunction | None = None,
        *,
        value: SerdeLike = None,
        retention: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Aggregate the records of all streams by key and window; ``merge`` combines two sessions."""
        streams = self._streams
        node = WindowedAggregate(
            source=streams._sources[0],
            others=streams._sources[1:],
            windows=self._windows,
            initial=initial,
            adder=streams._adders[0],
            other_adders=streams._adders[1:],
            merger=None if merge is None else by_arity("aggregate", merge, _MERGER),
            retention=None if retention is None else milliseconds(retention),
            value=serde_for(value),
            late_to=self._late_to,
            name=name,
        )
        return Table(streams._draft, node)
