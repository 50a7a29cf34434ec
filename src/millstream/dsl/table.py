"""The handle of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from millstream.dsl.grouped_table import GroupedTable
from millstream.dsl.handle import Handle
from millstream.durations import Duration
from millstream.errors import DefinitionError
from millstream.functions import AnyFunction, by_arity
from millstream.plan.foreign_keys import ForeignKeyJoin
from millstream.plan.histories import checked_history
from millstream.plan.node import Node
from millstream.plan.processors import TransformValues
from millstream.plan.stateful import ToStream
from millstream.plan.suppress import Suppress
from millstream.plan.tables import TableFilter, TableGroupBy, TableMapValues, TableTableJoin
from millstream.processors import Factory, ValueTransformer, checked
from millstream.serdes import SerdeLike, serde_for
from millstream.suppression import Suppression

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream

Kind: TypeAlias = Literal["inner", "left", "outer"]
_JOINER = {2: "(left value, right value)", 3: "(key, left value, right value)"}


class Table(Handle):
    """The newest row of each key; a change of it is a new row, and a tombstone deletes it."""

    _stream: ClassVar[type[Stream]]
    """Set by the module of streams: the two turn into each other, and imports must not run in a circle."""

    def to_stream(self, key: AnyFunction | None = None) -> Stream:
        """Return the changes of the table as records; a deleted row is a null value.

        ``key`` gives the records another key. With caching on there is one change per key and batch, with caching off
        one per update.

        >>> app = App("doc")
        >>> app.table("users", value=str).to_stream().to("out")
        >>> outputs(app, users=[("u1", "Ada"), ("u1", None)])
        [('u1', 'Ada'), ('u1', None)]
        """
        stream = self._stream(self._draft, ToStream(source=self._node))
        return stream if key is None else stream.select_key(key)

    def filter(self, predicate: AnyFunction, *, name: str | None = None) -> Table:
        """Keep the rows for which ``predicate`` holds; a row that fails, or does so now, is a tombstone.

        With ``name`` the result is stored and can be read; without, it is computed where it is needed.

        >>> app = App("doc")
        >>> app.table("stock", value=int).filter(lambda n: n > 0).to_stream().to("out")
        >>> outputs(app, stock=[("pen", 2), ("pen", 0)])
        [('pen', 2), ('pen', None)]
        """
        return self._filter("filter", predicate, name, negate=False)

    def filter_not(self, predicate: AnyFunction, *, name: str | None = None) -> Table:
        """Keep the rows for which ``predicate`` does not hold."""
        return self._filter("filter_not", predicate, name, negate=True)

    def _filter(self, verb: str, predicate: AnyFunction, name: str | None, *, negate: bool) -> Table:
        function = by_arity(verb, predicate)
        return Table(
            self._draft,
            TableFilter(source=self._node, predicate=function, negate=negate, name=name, stored=name is not None),
        )

    def map_values(self, mapper: AnyFunction, *, value: SerdeLike = None, name: str | None = None) -> Table:
        """Replace the value of each row; tombstones pass. With ``name`` the result is stored and can be read."""
        node = TableMapValues(
            source=self._node,
            mapper=by_arity("map_values", mapper),
            value=serde_for(value),
            name=name,
            stored=name is not None,
        )
        return Table(self._draft, node)

    def transform_values(self, transformer: Factory, *, value: SerdeLike = None, name: str | None = None) -> Table:
        """Replace the value of each row by what a ``ValueTransformer`` makes of it, with the help of stores.

        It is asked about deleted rows too. With ``name`` the result is stored, and it is asked once per change;
        without, also for old values and look-ups where these are needed.

        >>> from millstream import ValueTransformer
        >>> class Shown(ValueTransformer):
        ...     def transform(self, key, value):
        ...         return f"{key} is gone" if value is None else f"{key}: {value}"
        >>> app = App("doc")
        >>> app.table("stock", value=int).transform_values(Shown).to_stream().to("out")
        >>> outputs(app, stock=[("pen", 2), ("pen", None)])
        [('pen', 'pen: 2'), ('pen', 'pen is gone')]
        """
        facts = checked("transform_values", transformer, ValueTransformer)
        node = TransformValues(source=self._node, value=serde_for(value), name=name, stored=name is not None, **facts)
        return Table(self._draft, node)

    def group_by(
        self,
        mapper: AnyFunction,
        *,
        values: AnyFunction | None = None,
        key: SerdeLike = None,
        name: str | None = None,
    ) -> GroupedTable:
        """Group rows by the key that ``mapper`` returns, with the value or what ``values`` makes of it.

        A changed row leaves its old group before it enters the new one. None for the group or the value: in no group.
        """
        node = TableGroupBy(
            source=self._node,
            key_of=by_arity("group_by", mapper),
            value_of=None if values is None else by_arity("group_by", values),
            key=serde_for(key),
            name=name,
        )
        return GroupedTable(self._draft, node)

    def suppress(self, until: Suppression, *, name: str | None = None) -> Table:
        """Hold back changes and pass on only the last one of each row, when its time has come.

        ``until_window_closes()``: one final result per window; a window that ends as a tombstone is left out.
        ``until_time_limit("5 min")``: once that much stream time has passed since the first change held back. Time
        moves with the changes that come here; what is held back survives restarts. Look-ups see what was passed on.

        >>> app = App("doc")
        >>> words = app.stream("words", value=str).group_by(lambda word: word).windowed_by(tumbling("1 s")).count()
        >>> words.suppress(until_window_closes()).to_stream(lambda key, _: key.key).to("out")
        >>> outputs(app, words=["a", "a", "b"], every=500)
        [('a', 2)]
        """
        return Table(self._draft, Suppress(source=self._node, until=until, name=name))

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

        Partners have the same key, or with ``on`` the other row's key is what ``on`` computes from this one: many rows
        may then share a partner, the result has this table's keys, and partition counts may differ.

        Of a table with history only newest rows are joined: an update that is out of order is dropped and counted.
        With ``history`` (and ``name``) the result keeps one too, as in ``app.table``.

        >>> app = App("doc")
        >>> names, cities = app.table("names", value=str), app.table("cities", value=str)
        >>> names.join(cities, lambda name, city: f"{name} of {city}").to_stream().to("out")
        >>> outputs(app, names=[("u1", "Ann")], cities=[("u1", "Rome"), ("u1", None)])
        [('u1', 'Ann of Rome'), ('u1', None)]
        """
        return self._join("join", other, joiner, "inner", on, value, history, name)

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
        if not isinstance(other, Table):
            raise DefinitionError(f"{verb}() wants a table, not {other!r}", hint="make one with .to_table()")
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
            )
        return Table(self._draft, node)


GroupedTable._table = Table
