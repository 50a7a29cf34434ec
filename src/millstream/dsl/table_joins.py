"""Joins of two tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from millstream.dsl.handle import Handle
from millstream.durations import Duration
from millstream.errors import DefinitionError
from millstream.foundation.type_variables import K2, V2, K, R, V
from millstream.functions import AnyFunction, Joiner, KeyedFunction, KeyedJoiner, ValueFunction, by_arity
from millstream.plan.foreign_keys import ForeignKeyJoin
from millstream.plan.histories import checked_history
from millstream.plan.node import Node
from millstream.plan.tables import TableTableJoin
from millstream.serdes import SerdeLike, serde_for

if TYPE_CHECKING:
    from millstream.dsl.table import Table

Kind: TypeAlias = Literal["inner", "left", "outer"]
_JOINER = {2: "(left value, right value)", 3: "(key, left value, right value)"}


class TableJoins(Handle[K, V]):
    """The joins of a table. Overloads: by the same key or a foreign key, then by form of the joiner."""

    @overload
    def join(
        self,
        other: Table[K, V2],
        joiner: Joiner[V, V2, R],
        *,
        on: None = None,
        value: SerdeLike[R] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K, V2],
        joiner: KeyedJoiner[K, V, V2, R],
        *,
        on: None = None,
        value: SerdeLike[R] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K2, V2],
        joiner: Joiner[V, V2, R],
        *,
        on: ValueFunction[V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K2, V2],
        joiner: KeyedJoiner[K, V, V2, R],
        *,
        on: ValueFunction[V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K2, V2],
        joiner: Joiner[V, V2, R],
        *,
        on: KeyedFunction[K, V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K2, V2],
        joiner: KeyedJoiner[K, V, V2, R],
        *,
        on: KeyedFunction[K, V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    def join(
        self,
        other: Table,
        joiner: AnyFunction,
        *,
        on: AnyFunction | None = None,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Join the rows of two tables; a row without partner is not in the result.

        Rows are joined by key, or with ``on`` by foreign key: ``on`` computes the key of the other row from this one.
        Then many rows may share a partner, the result has this table's keys, and partition counts may differ.

        With history only current rows are joined: an update that is out of order is dropped and counted. With
        ``history`` (and ``name``) the result keeps its own, as in ``app.table``.

        >>> app = App("doc")
        >>> names, cities = app.table("names", value=str), app.table("cities", value=str)
        >>> names.join(cities, lambda name, city: f"{name} of {city}").to_stream().to("out")
        >>> outputs(app, names=[("u1", "Ann")], cities=[("u1", "Rome"), ("u1", None)])
        [('u1', 'Ann of Rome'), ('u1', None)]
        """
        return self._join("join", other, joiner, "inner", on, value, history, name)

    @overload
    def left_join(
        self,
        other: Table[K, V2],
        joiner: Joiner[V, V2 | None, R],
        *,
        on: None = None,
        value: SerdeLike[R] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K, V2],
        joiner: KeyedJoiner[K, V, V2 | None, R],
        *,
        on: None = None,
        value: SerdeLike[R] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K2, V2],
        joiner: Joiner[V, V2 | None, R],
        *,
        on: ValueFunction[V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K2, V2],
        joiner: KeyedJoiner[K, V, V2 | None, R],
        *,
        on: ValueFunction[V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K2, V2],
        joiner: Joiner[V, V2 | None, R],
        *,
        on: KeyedFunction[K, V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K2, V2],
        joiner: KeyedJoiner[K, V, V2 | None, R],
        *,
        on: KeyedFunction[K, V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    def left_join(
        self,
        other: Table,
        joiner: AnyFunction,
        *,
        on: AnyFunction | None = None,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Join each row with its partner in the other table, or with None; ``on`` as for ``join``.

        >>> app = App("doc")
        >>> orders, users = app.table("orders", value=dict), app.table("users", value=str)
        >>> joined = orders.left_join(users, lambda order, user: [order["item"], user], on=lambda order: order["by"])
        >>> joined.to_stream().to("out")
        >>> outputs(app, orders=[("o1", {"item": "pen", "by": "u1"})], users=[("u1", "Ann")])
        [('o1', ['pen', None]), ('o1', ['pen', 'Ann'])]
        """
        return self._join("left_join", other, joiner, "left", on, value, history, name)

    @overload
    def outer_join(
        self,
        other: Table[K, V2],
        joiner: Joiner[V | None, V2 | None, R],
        *,
        value: SerdeLike[R] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def outer_join(
        self,
        other: Table[K, V2],
        joiner: KeyedJoiner[K, V | None, V2 | None, R],
        *,
        value: SerdeLike[R] = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    def outer_join(
        self,
        other: Table,
        joiner: AnyFunction,
        *,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Join the rows of both tables; either side may be None."""
        return self._join("outer_join", other, joiner, "outer", None, value, history, name)

    def _join(
        self,
        verb: str,
        other: Table,
        joiner: AnyFunction,
        kind: Kind,
        on: AnyFunction | None,
        value: SerdeLike,
        history: Duration | None,
        name: str | None,
    ) -> Table:
        if not isinstance(other, self._table):
            raise DefinitionError(f"{verb}() expects a table, not {other!r}", hint="use .to_table() for a table")
        function, serde = by_arity(verb, joiner, _JOINER), serde_for(value)
        node: Node
        if on is None:
            node = TableTableJoin(
                left=self._node,
                right=other._node,
                joiner=function,
                kind=kind,
                value=serde,
                name=name,
                stored=name is not None,
                history=checked_history(verb, history),
            )
        elif history is not None:
            raise DefinitionError(
                f"{verb}() by a foreign key cannot keep a history",
                hint="use .to_stream().to_table(history=...)",
            )
        else:
            node = ForeignKeyJoin(
                left=self._node,
                right=other._node,
                foreign_key=by_arity("on", on),
                joiner=function,
                keeps_left=kind == "left",
                value=serde,
                name=name,
                named=name is not None,
            )
        return self._table(self._draft, node)
