"""The handle of a grouped table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from millstream.aggregations import AnyAggregation, Counted, Several
from millstream.dsl.handle import Handle
from millstream.dsl.measures import Measure
from millstream.dsl.ready import ReadyAggregations, nothing
from millstream.durations import Duration
from millstream.errors import DefinitionError
from millstream.foundation.type_variables import A, K, V
from millstream.functions import Adder, AnyFunction, Function, KeyedAdder, by_arity
from millstream.plan.histories import checked_history
from millstream.plan.tables import TableAggregate
from millstream.serdes import SerdeLike, serde_for

if TYPE_CHECKING:
    from millstream.dsl.table import Table

_ADDER = {2: "(aggregate, value)", 3: "(key, aggregate, value)"}


class GroupedTable(Handle[K, V], ReadyAggregations[K, V, K]):
    """Rows grouped by a new key, ready to be aggregated. When a row changes, the old row is removed first."""

    def count(self, *, history: Duration | None = None, name: str | None = None) -> Table[K, int]:
        """Count the rows of each group; a group that loses its last row counts 0.

        With ``history`` earlier counts are kept for that long, as in ``app.table``; the other verbs do the same.

        >>> app = App("doc")
        >>> app.table("users", value=str).group_by(lambda city: city).count().to_stream().to("out")
        >>> outputs(app, users=[("ann", "Rome"), ("bob", "Rome"), ("ann", "Oslo")])
        [('Rome', 1), ('Rome', 2), ('Rome', 1), ('Oslo', 1)]
        """
        return self.aggregate(lambda: 0, _plus_one, _minus_one, value=int, history=history, name=name)

    @overload
    def reduce(
        self,
        add: Adder[V, V],
        remove: Adder[V, V],
        *,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, V]: ...
    @overload
    def reduce(
        self,
        add: KeyedAdder[K, V, V],
        remove: KeyedAdder[K, V, V],
        *,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, V]: ...
    @overload
    def reduce(
        self,
        add: Adder[V, V],
        remove: KeyedAdder[K, V, V],
        *,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, V]: ...
    @overload
    def reduce(
        self,
        add: KeyedAdder[K, V, V],
        remove: Adder[V, V],
        *,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, V]: ...
    def reduce(
        self,
        add: AnyFunction,
        remove: AnyFunction,
        *,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """Combine the rows of each group; ``remove`` takes an old row out again. The first row is the first result."""
        return self._aggregate("reduce", None, add, remove, value, history, name)

    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        add: Adder[A, V],
        remove: Adder[A, V],
        *,
        value: SerdeLike[A] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        add: KeyedAdder[K, A, V],
        remove: KeyedAdder[K, A, V],
        *,
        value: SerdeLike[A] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        add: Adder[A, V],
        remove: KeyedAdder[K, A, V],
        *,
        value: SerdeLike[A] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initial: Callable[[], A],
        add: KeyedAdder[K, A, V],
        remove: Adder[A, V],
        *,
        value: SerdeLike[A] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    def aggregate(
        self,
        initial: AnyFunction,
        add: AnyFunction,
        remove: AnyFunction,
        *,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Add each row to the aggregate of its group and take old rows out with ``remove``; None deletes the group."""
        return self._aggregate("aggregate", initial, add, remove, value, history, name)

    def _aggregated(
        self, measure: Measure, name: str | None, retention: Duration | None, build: type | None = None
    ) -> Table:
        """Return the table of an aggregation; a group that loses its last row is deleted."""
        if retention is not None:
            raise DefinitionError(
                f"{measure.verb}(retention={retention!r}) is for windows only", hint="remove it: all groups are kept"
            )
        ready = _retractable(f"{measure.verb}()", measure.aggregation)
        node = TableAggregate(
            source=self._node,
            initial=nothing,
            adder=Function(ready.add, 2),
            subtractor=Function(ready.remove, 2),
            select=measure.select,
            ready=ready,
            build=build,
            name=name,
        )
        return self._table(self._draft, node)

    def _aggregate(
        self,
        verb: str,
        initial: AnyFunction | None,
        add: AnyFunction,
        remove: AnyFunction,
        value: SerdeLike,
        history: Duration | None,
        name: str | None,
    ) -> Table:
        node = TableAggregate(
            source=self._node,
            initial=initial,
            adder=by_arity(verb, add, _ADDER),
            subtractor=by_arity(verb, remove, _ADDER),
            value=serde_for(value),
            history=checked_history(verb, history),
            name=name,
        )
        return self._table(self._draft, node)


def _retractable(verb: str, aggregation: AnyAggregation) -> Counted:
    """Return an aggregation from which rows can be removed; raise if this one cannot be made so."""
    if isinstance(aggregation, Several):
        parts = tuple(
            _retractable(f"agg({name}=…)", part)
            for name, part in zip(aggregation.names, aggregation.parts, strict=True)
        )
        return Counted(Several(aggregation.names, parts, aggregation.indexes))
    if aggregation.cannot_remove:
        raise DefinitionError(
            f"{verb} of a grouped table cannot remove a row that has changed: {aggregation.cannot_remove}",
            hint="use aggregate(initial, add, remove), or collect()",
        )
    return Counted(aggregation)


def _plus_one(count: int, _value: Any) -> int:
    return count + 1


def _minus_one(count: int, _value: Any) -> int:
    return count - 1
