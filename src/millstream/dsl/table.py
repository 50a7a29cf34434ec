"""The handle of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from millstream.dsl.alert_verbs import AlertVerbs
from millstream.dsl.grouped_table import GroupedTable
from millstream.dsl.handle import Handle
from millstream.dsl.table_joins import TableJoins
from millstream.foundation.type_variables import V2, K, R, V
from millstream.functions import AnyFunction, ContextFunction, PairFunction, ValueFunction, by_arity
from millstream.plan.node import Node
from millstream.plan.processors import TransformValues
from millstream.plan.stateful import ToStream
from millstream.plan.suppress import Suppress
from millstream.plan.tables import TableFilter, TableGroupBy, TableMapValues
from millstream.processors import Factory, ValueTransformer, checked
from millstream.serdes import SerdeLike, serde_for
from millstream.suppression import Suppression

if TYPE_CHECKING:
    from millstream.connect.protocols import Sink as ConnectorProtocol
    from millstream.dsl.stream import Stream


class Table(TableJoins[K, V], AlertVerbs[K, V]):
    """The current row of each key; a new record replaces the row, a tombstone deletes it."""

    def _changes(self) -> Node:
        """Return the changes of the table; a deleted row resolves its alert."""
        return self.to_stream()._node

    @overload
    def to_stream(self, key: None = None) -> Stream[K, V]: ...
    @overload
    def to_stream(self, key: ValueFunction[V, R]) -> Stream[R, V]: ...
    @overload
    def to_stream(self, key: PairFunction[K, V, R]) -> Stream[R, V]: ...
    @overload
    def to_stream(self, key: ContextFunction[K, V, R]) -> Stream[R, V]: ...
    def to_stream(self, key: AnyFunction | None = None) -> Stream:
        """Return the changes of the table as records; a deleted row is a null value.

        ``key`` computes a new key for the records. With caching there is one change per key and batch, without it one
        per update.

        >>> app = App("doc")
        >>> app.table("users", value=str).to_stream().to("out")
        >>> outputs(app, users=[("u1", "Ada"), ("u1", None)])
        [('u1', 'Ada'), ('u1', None)]
        """
        stream = self._stream(self._draft, ToStream(source=self._node))
        return stream if key is None else stream.select_key(key)

    def sink(self, sink: ConnectorProtocol, *, name: str, key: SerdeLike[K] = None, value: SerdeLike[V] = None) -> None:
        """Write the changes of the table to another system; a deleted row is a null value. See ``Stream.sink``."""
        self.to_stream().sink(sink, name=name, key=key, value=value)

    @overload
    def filter(self, predicate: ValueFunction[V, object], *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def filter(self, predicate: PairFunction[K, V, object], *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def filter(self, predicate: ContextFunction[K, V, object], *, name: str | None = None) -> Table[K, V]: ...
    def filter(self, predicate: AnyFunction, *, name: str | None = None) -> Table[K, V]:
        """Keep the rows for which ``predicate`` holds; a row for which it does not hold becomes a tombstone.

        With ``name`` the result is stored and can be read; without, it is computed where it is needed.

        >>> app = App("doc")
        >>> app.table("stock", value=int).filter(lambda n: n > 0).to_stream().to("out")
        >>> outputs(app, stock=[("pen", 2), ("pen", 0)])
        [('pen', 2), ('pen', None)]
        """
        return self._filter("filter", predicate, name, negate=False)

    @overload
    def filter_not(self, predicate: ValueFunction[V, object], *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def filter_not(self, predicate: PairFunction[K, V, object], *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def filter_not(self, predicate: ContextFunction[K, V, object], *, name: str | None = None) -> Table[K, V]: ...
    def filter_not(self, predicate: AnyFunction, *, name: str | None = None) -> Table[K, V]:
        """Keep the rows for which ``predicate`` does not hold; see ``filter``."""
        return self._filter("filter_not", predicate, name, negate=True)

    def _filter(self, verb: str, predicate: AnyFunction, name: str | None, *, negate: bool) -> Table[K, V]:
        function = by_arity(verb, predicate)
        return Table(
            self._draft,
            TableFilter(source=self._node, predicate=function, negate=negate, name=name, stored=name is not None),
        )

    @overload
    def map_values(
        self,
        mapper: ValueFunction[V, R],
        *,
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def map_values(
        self,
        mapper: PairFunction[K, V, R],
        *,
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
    @overload
    def map_values(
        self,
        mapper: ContextFunction[K, V, R],
        *,
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Table[K, R]: ...
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

    def transform_values(
        self, transformer: Factory[ValueTransformer[K, V, R]], *, value: SerdeLike[R] = None, name: str | None = None
    ) -> Table[K, R]:
        """Replace the value of each row by the result of a ``ValueTransformer``, which can use stores.

        It is called for deleted rows too. With ``name`` the result is stored, and it is called once per change;
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

    @overload
    def group_by(
        self,
        mapper: ValueFunction[V, R | None],
        *,
        values: None = None,
        key: SerdeLike[R] = None,
        name: str | None = None,
    ) -> GroupedTable[R, V]: ...
    @overload
    def group_by(
        self,
        mapper: PairFunction[K, V, R | None],
        *,
        values: None = None,
        key: SerdeLike[R] = None,
        name: str | None = None,
    ) -> GroupedTable[R, V]: ...
    @overload
    def group_by(
        self,
        mapper: ContextFunction[K, V, R | None],
        *,
        values: None = None,
        key: SerdeLike[R] = None,
        name: str | None = None,
    ) -> GroupedTable[R, V]: ...
    @overload
    def group_by(
        self,
        mapper: ValueFunction[V, R | None],
        *,
        values: ValueFunction[V, V2 | None],
        key: SerdeLike[R] = None,
        name: str | None = None,
    ) -> GroupedTable[R, V2]: ...
    @overload
    def group_by(
        self,
        mapper: PairFunction[K, V, R | None],
        *,
        values: ValueFunction[V, V2 | None],
        key: SerdeLike[R] = None,
        name: str | None = None,
    ) -> GroupedTable[R, V2]: ...
    @overload
    def group_by(
        self,
        mapper: ContextFunction[K, V, R | None],
        *,
        values: ValueFunction[V, V2 | None],
        key: SerdeLike[R] = None,
        name: str | None = None,
    ) -> GroupedTable[R, V2]: ...
    @overload
    def group_by(
        self,
        mapper: ValueFunction[V, R | None],
        *,
        values: PairFunction[K, V, V2 | None],
        key: SerdeLike[R] = None,
        name: str | None = None,
    ) -> GroupedTable[R, V2]: ...
    @overload
    def group_by(
        self,
        mapper: PairFunction[K, V, R | None],
        *,
        values: PairFunction[K, V, V2 | None],
        key: SerdeLike[R] = None,
        name: str | None = None,
    ) -> GroupedTable[R, V2]: ...
    @overload
    def group_by(
        self,
        mapper: ContextFunction[K, V, R | None],
        *,
        values: PairFunction[K, V, V2 | None],
        key: SerdeLike[R] = None,
        name: str | None = None,
    ) -> GroupedTable[R, V2]: ...
    def group_by(
        self,
        mapper: AnyFunction,
        *,
        values: AnyFunction | None = None,
        key: SerdeLike = None,
        name: str | None = None,
    ) -> GroupedTable:
        """Group rows by the key that ``mapper`` returns, with the row's value or the one that ``values`` returns.

        A changed row leaves its old group before it enters the new one. A row whose group or value is None is in no
        group.
        """
        node = TableGroupBy(
            source=self._node,
            key_of=by_arity("group_by", mapper),
            value_of=None if values is None else by_arity("group_by", values),
            key=serde_for(key),
            name=name,
        )
        return GroupedTable(self._draft, node)

    def suppress(self, until: Suppression, *, name: str | None = None) -> Table[K, V]:
        """Hold back changes and pass on only the last one of each row, when it is due.

        ``until_window_closes()``: one final result per window; a window that ends as a tombstone is left out.
        ``until_time_limit("5 min")``: when that much stream time has passed since the first change held back. Stream
        time advances with the changes that arrive here. What is held back survives restarts. Look-ups see only what
        was passed on.

        >>> app = App("doc")
        >>> words = app.stream("words", value=str).group_by(lambda word: word).windowed_by(tumbling("1 s")).count()
        >>> words.suppress(until_window_closes()).to_stream(lambda key, _: key.key).to("out")
        >>> outputs(app, words=["a", "a", "b"], every=500)
        [('a', 2)]
        """
        return Table(self._draft, Suppress(source=self._node, until=until, name=name))


Handle._table = Table
