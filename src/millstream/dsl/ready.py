"""The ready-made aggregations of grouped streams, windowed streams and grouped tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypedDict, Unpack, overload

from millstream.dsl.measures import (
    Measure,
    Selector,
    ValueSelector,
    collect_of,
    collect_set_of,
    count_distinct_of,
    first_of,
    last_of,
    max_of,
    mean_of,
    min_of,
    quantile_of,
    several,
    sum_of,
    top_of,
)
from millstream.durations import Duration
from millstream.foundation.type_variables import RK, K, R, V
from millstream.functions import PairFunction, ValueFunction

if TYPE_CHECKING:
    from millstream.dsl.table import Table


class StoreOptions(TypedDict, total=False):
    """Options of all ready-made aggregations, for their overloads."""

    name: str | None
    retention: Duration | None


class ReadyAggregations(Generic[K, V, RK]):
    """Aggregations by name.

    ``of`` selects what is aggregated: a field, a function of ``(value)`` or ``(key, value)``, or by default the value.
    Nulls are left out. ``retention`` is for windows only. ``RK`` is the key of the result.
    """

    def _aggregated(
        self, measure: Measure, name: str | None, retention: Duration | None, build: type | None = None
    ) -> Table:
        """Return the table of an aggregation; each handle builds its own node."""
        raise NotImplementedError

    @overload
    def sum(self, of: None = None, **options: Unpack[StoreOptions]) -> Table[RK, V]: ...
    @overload
    def sum(self, of: str, **options: Unpack[StoreOptions]) -> Table[RK, Any]: ...
    @overload
    def sum(self, of: ValueFunction[V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    @overload
    def sum(self, of: PairFunction[K, V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    def sum(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Add values up.

        >>> app = App("doc")
        >>> app.stream("orders").group_by_key().sum("amount").to_stream().to("out")
        >>> outputs(app, orders=[("ann", {"amount": 3}), ("ann", {"amount": 4})])
        [('ann', 3), ('ann', 7)]
        """
        return self._aggregated(sum_of(of), name, retention)

    @overload
    def mean(self, of: ValueSelector[V] = None, **options: Unpack[StoreOptions]) -> Table[RK, float]: ...
    @overload
    def mean(self, of: PairFunction[K, V, object], **options: Unpack[StoreOptions]) -> Table[RK, float]: ...
    def mean(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Compute the arithmetic mean.

        >>> app = App("doc")
        >>> app.stream("n", value=int).group_by(lambda n: "all").mean().to_stream().to("out")
        >>> outputs(app, n=[1, 2])
        [('all', 1.0), ('all', 1.5)]
        """
        return self._aggregated(mean_of(of), name, retention)

    @overload
    def min(self, of: None = None, **options: Unpack[StoreOptions]) -> Table[RK, V]: ...
    @overload
    def min(self, of: str, **options: Unpack[StoreOptions]) -> Table[RK, Any]: ...
    @overload
    def min(self, of: ValueFunction[V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    @overload
    def min(self, of: PairFunction[K, V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    def min(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Keep the smallest value; of equal values the first. Not for grouped tables."""
        return self._aggregated(min_of(of), name, retention)

    @overload
    def max(self, of: None = None, **options: Unpack[StoreOptions]) -> Table[RK, V]: ...
    @overload
    def max(self, of: str, **options: Unpack[StoreOptions]) -> Table[RK, Any]: ...
    @overload
    def max(self, of: ValueFunction[V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    @overload
    def max(self, of: PairFunction[K, V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    def max(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Keep the greatest value; of equal values the first. Not for grouped tables."""
        return self._aggregated(max_of(of), name, retention)

    @overload
    def first(self, of: None = None, **options: Unpack[StoreOptions]) -> Table[RK, V]: ...
    @overload
    def first(self, of: str, **options: Unpack[StoreOptions]) -> Table[RK, Any]: ...
    @overload
    def first(self, of: ValueFunction[V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    @overload
    def first(self, of: PairFunction[K, V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    def first(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Keep the value that arrived first, regardless of timestamps. Not for grouped tables."""
        return self._aggregated(first_of(of), name, retention)

    @overload
    def last(self, of: None = None, **options: Unpack[StoreOptions]) -> Table[RK, V]: ...
    @overload
    def last(self, of: str, **options: Unpack[StoreOptions]) -> Table[RK, Any]: ...
    @overload
    def last(self, of: ValueFunction[V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    @overload
    def last(self, of: PairFunction[K, V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, R]: ...
    def last(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Keep the value that arrived last, regardless of timestamps. Not for grouped tables."""
        return self._aggregated(last_of(of), name, retention)

    @overload
    def collect(self, of: None = None, **options: Unpack[StoreOptions]) -> Table[RK, list[V]]: ...
    @overload
    def collect(self, of: str, **options: Unpack[StoreOptions]) -> Table[RK, list[Any]]: ...
    @overload
    def collect(self, of: ValueFunction[V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, list[R]]: ...
    @overload
    def collect(self, of: PairFunction[K, V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, list[R]]: ...
    def collect(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Collect all values into a list, in order of arrival."""
        return self._aggregated(collect_of(of), name, retention)

    @overload
    def collect_set(self, of: None = None, **options: Unpack[StoreOptions]) -> Table[RK, list[V]]: ...
    @overload
    def collect_set(self, of: str, **options: Unpack[StoreOptions]) -> Table[RK, list[Any]]: ...
    @overload
    def collect_set(self, of: ValueFunction[V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, list[R]]: ...
    @overload
    def collect_set(self, of: PairFunction[K, V, R | None], **options: Unpack[StoreOptions]) -> Table[RK, list[R]]: ...
    def collect_set(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Collect each distinct value once, in order of first arrival. Not for grouped tables.

        >>> app = App("doc")
        >>> app.stream("w", value=str).group_by(len).collect_set().to_stream().to("out")
        >>> outputs(app, w=["ab", "cd", "ab"])
        [('2', ['ab']), ('2', ['ab', 'cd']), ('2', ['ab', 'cd'])]
        """
        return self._aggregated(collect_set_of(of), name, retention)

    @overload
    def count_distinct(self, of: ValueSelector[V] = None, **options: Unpack[StoreOptions]) -> Table[RK, int]: ...
    @overload
    def count_distinct(self, of: PairFunction[K, V, object], **options: Unpack[StoreOptions]) -> Table[RK, int]: ...
    def count_distinct(
        self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None
    ) -> Table:
        """Count the distinct values exactly; each of them is kept. Not for grouped tables."""
        return self._aggregated(count_distinct_of(of), name, retention)

    @overload
    def quantile(self, q: float, of: ValueSelector[V] = None, **options: Unpack[StoreOptions]) -> Table[RK, float]: ...
    @overload
    def quantile(
        self, q: float, of: PairFunction[K, V, object], **options: Unpack[StoreOptions]
    ) -> Table[RK, float]: ...
    def quantile(
        self, q: float, of: Selector = None, *, name: str | None = None, retention: Duration | None = None
    ) -> Table:
        """Find the value that the share ``q`` of all values does not exceed, within 1 %; 0.5 is the median."""
        return self._aggregated(quantile_of(q, of), name, retention)

    @overload
    def top(
        self, n: int, of: None = None, *, by: Selector = None, **options: Unpack[StoreOptions]
    ) -> Table[RK, list[V]]: ...
    @overload
    def top(self, n: int, of: str, *, by: Selector = None, **options: Unpack[StoreOptions]) -> Table[RK, list[Any]]: ...
    @overload
    def top(
        self, n: int, of: ValueFunction[V, R | None], *, by: Selector = None, **options: Unpack[StoreOptions]
    ) -> Table[RK, list[R]]: ...
    @overload
    def top(
        self, n: int, of: PairFunction[K, V, R | None], *, by: Selector = None, **options: Unpack[StoreOptions]
    ) -> Table[RK, list[R]]: ...
    def top(
        self,
        n: int,
        of: Selector = None,
        *,
        by: Selector = None,
        name: str | None = None,
        retention: Duration | None = None,
    ) -> Table:
        """Keep the ``n`` greatest values as a list, the greatest first; of equal values the first.

        ``by`` selects what they are compared by, a field or a function. Not for grouped tables.

        >>> app = App("doc")
        >>> app.stream("w", value=str).group_by(lambda w: "longest").top(2, by=len).to_stream().to("out")
        >>> outputs(app, w=["a", "abc", "ab"])[-1]
        ('longest', ['abc', 'ab'])
        """
        return self._aggregated(top_of(n, of, by=by), name, retention)

    @overload
    def agg(
        self,
        *,
        value: None = None,
        name: str | None = None,
        retention: Duration | None = None,
        **measures: Measure,
    ) -> Table[RK, dict[str, Any]]: ...
    @overload
    def agg(
        self,
        *,
        value: type[R],
        name: str | None = None,
        retention: Duration | None = None,
        **measures: Measure,
    ) -> Table[RK, R]: ...
    def agg(
        self,
        *,
        value: type | None = None,
        name: str | None = None,
        retention: Duration | None = None,
        **measures: Measure,
    ) -> Table:
        """Compute several aggregations at once; the result is a dict, or an object of the type ``value``.

        >>> from millstream import count_of, max_of
        >>> app = App("doc")
        >>> app.stream("n", value=int).group_by(lambda n: "all").agg(high=max_of(), n=count_of()).to_stream().to("out")
        >>> outputs(app, n=[5, 3])
        [('all', {'high': 5, 'n': 1}), ('all', {'high': 5, 'n': 2})]
        """
        return self._aggregated(several(measures), name, retention, value)


def nothing() -> Any:
    """Return the initial state of a ready-made aggregation."""
    return None
