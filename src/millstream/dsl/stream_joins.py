"""Joins of a stream with another stream, a table or a global table."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from millstream.dsl.global_table import GlobalTable
from millstream.dsl.handle import Handle
from millstream.dsl.joins import JoinSettings, join_node
from millstream.dsl.table import Table
from millstream.durations import Duration
from millstream.foundation.type_variables import K2, V2, K, R, V
from millstream.functions import AnyFunction, Joiner, KeyedFunction, KeyedJoiner, ValueFunction
from millstream.serdes import SerdeLike
from millstream.windows import JoinWindow

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream


class StreamJoins(Handle[K, V]):
    """The joins of a stream. Overloads: by kind of partner, then by form of the joiner."""

    @overload
    def join(
        self,
        other: Stream[K, V2],
        joiner: Joiner[V, V2, R],
        *,
        within: JoinWindow,
        value: SerdeLike[R] = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: Stream[K, V2],
        joiner: KeyedJoiner[K, V, V2, R],
        *,
        within: JoinWindow,
        value: SerdeLike[R] = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K, V2] | GlobalTable[K, V2],
        joiner: Joiner[V, V2, R],
        *,
        grace: Duration | None = None,
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: Table[K, V2] | GlobalTable[K, V2],
        joiner: KeyedJoiner[K, V, V2, R],
        *,
        grace: Duration | None = None,
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalTable[K2, V2],
        joiner: Joiner[V, V2, R],
        *,
        key: ValueFunction[V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalTable[K2, V2],
        joiner: KeyedJoiner[K, V, V2, R],
        *,
        key: ValueFunction[V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalTable[K2, V2],
        joiner: Joiner[V, V2, R],
        *,
        key: KeyedFunction[K, V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalTable[K2, V2],
        joiner: KeyedJoiner[K, V, V2, R],
        *,
        key: KeyedFunction[K, V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    def join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: AnyFunction,
        *,
        within: JoinWindow | None = None,
        grace: Duration | None = None,
        key: AnyFunction | None = None,
        value: SerdeLike = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Join each record with records of another stream that are close in time, or with a table's row of its key.

        With a stream, each pair inside the window is passed on once, when its second record arrives, with the later
        timestamp; records too late to wait for partners also go to the topic ``late_to``. With a table, the record
        meets the current row, with history the row valid at its time, after waiting ``grace`` for late updates; table
        changes emit nothing. With a global table, ``key`` computes which row, by default that of the record's key.
        Records without partner, key or value are dropped. Both sides need the same number of partitions.

        >>> app = App("doc")
        >>> clicks, views = app.stream("clicks", value=str), app.stream("views", value=str)
        >>> clicks.join(views, lambda click, view: f"{view}/{click}", within=join_window("1 s")).to("out")
        >>> outputs(app, views=[("u1", "page")], clicks=[("u1", "buy"), ("u2", "buy")])
        [('u1', 'page/buy')]
        """
        settings = JoinSettings(within, grace, key, value, name, late_to)
        return self._stream(self._draft, join_node(self, "inner", other, joiner, settings))

    @overload
    def left_join(
        self,
        other: Stream[K, V2],
        joiner: Joiner[V, V2 | None, R],
        *,
        within: JoinWindow,
        value: SerdeLike[R] = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: Stream[K, V2],
        joiner: KeyedJoiner[K, V, V2 | None, R],
        *,
        within: JoinWindow,
        value: SerdeLike[R] = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K, V2] | GlobalTable[K, V2],
        joiner: Joiner[V, V2 | None, R],
        *,
        grace: Duration | None = None,
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: Table[K, V2] | GlobalTable[K, V2],
        joiner: KeyedJoiner[K, V, V2 | None, R],
        *,
        grace: Duration | None = None,
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[K2, V2],
        joiner: Joiner[V, V2 | None, R],
        *,
        key: ValueFunction[V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[K2, V2],
        joiner: KeyedJoiner[K, V, V2 | None, R],
        *,
        key: ValueFunction[V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[K2, V2],
        joiner: Joiner[V, V2 | None, R],
        *,
        key: KeyedFunction[K, V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[K2, V2],
        joiner: KeyedJoiner[K, V, V2 | None, R],
        *,
        key: KeyedFunction[K, V, K2 | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    def left_join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: AnyFunction,
        *,
        within: JoinWindow | None = None,
        grace: Duration | None = None,
        key: AnyFunction | None = None,
        value: SerdeLike = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Join each record with its partner, or with None if it has no partner.

        With a stream this is decided when the window and its grace have passed: the first later record of either
        stream passes the record on alone, with its own timestamp. A record without key has no partner.
        """
        settings = JoinSettings(within, grace, key, value, name, late_to)
        return self._stream(self._draft, join_node(self, "left", other, joiner, settings))

    @overload
    def outer_join(
        self,
        other: Stream[K, V2],
        joiner: Joiner[V | None, V2 | None, R],
        *,
        within: JoinWindow,
        value: SerdeLike[R] = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def outer_join(
        self,
        other: Stream[K, V2],
        joiner: KeyedJoiner[K, V | None, V2 | None, R],
        *,
        within: JoinWindow,
        value: SerdeLike[R] = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    def outer_join(
        self,
        other: Stream,
        joiner: AnyFunction,
        *,
        within: JoinWindow | None = None,
        value: SerdeLike = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Join the records of two streams that are close in time; either side may be None, see ``left_join``."""
        settings = JoinSettings(within, value=value, name=name, late_to=late_to)
        return self._stream(self._draft, join_node(self, "outer", other, joiner, settings))
