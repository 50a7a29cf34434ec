"""The ready aggregations, which grouped streams, windowed streams and grouped tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.dsl.measures import (
    Measure,
    Selector,
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

if TYPE_CHECKING:
    from millstream.dsl.table import Table


class ReadyAggregations:
    """Aggregations by name. ``of`` says of what: a field, a function of ``(value)`` or ``(key, value)``, or the value.

    Nulls are left out. ``retention`` is for windows only.
    """

    def _aggregated(
        self, measure: Measure, name: str | None, retention: Duration | None, build: type | None = None
    ) -> Table:
        """Return the table of an aggregation; each handle has its own way to make one."""
        raise NotImplementedError

    def sum(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Add values up.

        >>> app = App("doc")
        >>> app.stream("orders").group_by_key().sum("amount").to_stream().to("out")
        >>> outputs(app, orders=[("ann", {"amount": 3}), ("ann", {"amount": 4})])
        [('ann', 3), ('ann', 7)]
        """
        return self._aggregated(sum_of(of), name, retention)

    def mean(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Take the arithmetic mean.

        >>> app = App("doc")
        >>> app.stream("n", value=int).group_by(lambda n: "all").mean().to_stream().to("out")
        >>> outputs(app, n=[1, 2])
        [('all', 1.0), ('all', 1.5)]
        """
        return self._aggregated(mean_of(of), name, retention)

    def min(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Keep the smallest value; of equal ones the first. Not for grouped tables."""
        return self._aggregated(min_of(of), name, retention)

    def max(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Keep the greatest value; of equal ones the first. Not for grouped tables."""
        return self._aggregated(max_of(of), name, retention)

    def first(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Keep the value that came first, whatever its timestamp. Not for grouped tables."""
        return self._aggregated(first_of(of), name, retention)

    def last(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Keep the value that came last, whatever its timestamp. Not for grouped tables."""
        return self._aggregated(last_of(of), name, retention)

    def collect(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Collect all values into a list, in the order in which they came."""
        return self._aggregated(collect_of(of), name, retention)

    def collect_set(self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None) -> Table:
        """Collect each different value once, in the order in which they first came. Not for grouped tables.

        >>> app = App("doc")
        >>> app.stream("w", value=str).group_by(len).collect_set().to_stream().to("out")
        >>> outputs(app, w=["ab", "cd", "ab"])
        [('2', ['ab']), ('2', ['ab', 'cd']), ('2', ['ab', 'cd'])]
        """
        return self._aggregated(collect_set_of(of), name, retention)

    def count_distinct(
        self, of: Selector = None, *, name: str | None = None, retention: Duration | None = None
    ) -> Table:
        """Count the different values, exactly: each is kept. Not for grouped tables."""
        return self._aggregated(count_distinct_of(of), name, retention)

    def quantile(
        self, q: float, of: Selector = None, *, name: str | None = None, retention: Duration | None = None
    ) -> Table:
        """Find the value that the share ``q`` of all values does not exceed, within 1 %; 0.5 is the median."""
        return self._aggregated(quantile_of(q, of), name, retention)

    def top(
        self,
        n: int,
        of: Selector = None,
        *,
        by: Selector = None,
        name: str | None = None,
        retention: Duration | None = None,
    ) -> Table:
        """Keep the ``n`` greatest values as a list, the greatest first; of equal ones the first.

        ``by`` says what they are compared by, a field or a function. Not for grouped tables.

        >>> app = App("doc")
        >>> app.stream("w", value=str).group_by(lambda w: "longest").top(2, by=len).to_stream().to("out")
        >>> outputs(app, w=["a", "abc", "ab"])[-1]
        ('longest', ['abc', 'ab'])
        """
        return self._aggregated(top_of(n, of, by=by), name, retention)

    def agg(
        self,
        *,
        value: type | None = None,
        name: str | None = None,
        retention: Duration | None = None,
        **measures: Measure,
    ) -> Table:
        """Aggregate in several ways at once; a result is a dict, or a ``value`` if that is a type with such fields.

        >>> from millstream import count_of, max_of
        >>> app = App("doc")
        >>> app.stream("n", value=int).group_by(lambda n: "all").agg(high=max_of(), n=count_of()).to_stream().to("out")
        >>> outputs(app, n=[5, 3])
        [('all', {'high': 5, 'n': 1}), ('all', {'high': 5, 'n': 2})]
        """
        return self._aggregated(several(measures), name, retention, value)


def nothing() -> Any:
    """What ready aggregations begin with."""
    return None
