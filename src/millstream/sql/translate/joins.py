"""Joins: of streams by key and time, of streams with tables, and of tables by key or foreign key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.plan.foreign_keys import ForeignKeyJoin
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.stateful import StreamTableJoin
from millstream.plan.tables import TableTableJoin
from millstream.sql.checks import check_key_type
from millstream.sql.compiled import Scope
from millstream.sql.nodes import AnyExpression, Binary, Column, Join
from millstream.sql.problems import Problem
from millstream.sql.selection import JoinedRows, SqlFunction, SqlSelection
from millstream.sql.translate.flow import QueryFlow
from millstream.sql.translate.names import Input, QueryNames
from millstream.sql.tree import columns_of, sql
from millstream.sql.types import Type
from millstream.windows import JoinWindow, join_window

DAY = 86_400_000
Kind = Literal["inner", "left", "outer"]


class Side(NamedTuple):
    """A side of a join: its flow, and the expression that is compared."""

    flow: QueryFlow
    expression: AnyExpression
    type: Type

    @property
    def column(self) -> str | None:
        """The column that is compared, None if it is an expression."""
        return self.expression.name if isinstance(self.expression, Column) else None

    @property
    def is_key(self) -> bool:
        keys = self.flow.keys
        return len(keys) == 1 and (self.column or sql(self.expression)) in keys[0]


def prefixed(flow: QueryFlow, source: Input, names: QueryNames, needed: set[str]) -> QueryFlow:
    """Return a flow whose columns are all in the value, under their names inside the query."""
    expressions = {
        names.internal(source, name): sql(Column(name=name))
        for name, _, _ in flow.scope
        if names.internal(source, name) in needed
    }
    types = {names.internal(source, name): type for name, type in source.all_columns.items()}
    handle = flow.projected(types, expressions)
    scope = tuple((name, str(types[name]), "value") for name in expressions)
    keys = tuple(tuple(names.internal(source, name) for name in key) for key in flow.keys)
    return flow._replace(handle=handle, scope=scope, keys=keys)


def joined(left: QueryFlow, right: QueryFlow, join: Join, names: QueryNames, source: Input, name: str) -> QueryFlow:
    """Return the flow of a join."""
    mine, its = _sides(left, right, join, names, source)
    check_key_type(mine.type, join.on.offset)
    _check_windows(left, right, mine, its, join)
    _check_partitions(mine, its, join, names, source)
    if mine.type != its.type:
        raise Problem(
            join.on.offset,
            f"the sides of the join have different types, {mine.type} and {its.type}",
            "CAST one of them",
        )
    build: Callable[..., Any]
    if left.is_table and not right.is_table:
        raise Problem(join.offset, "a table cannot be joined with a stream", "join the stream with the table")
    if join.within is not None and (left.is_table or right.is_table):
        raise Problem(join.offset, "WITHIN is only for joins of two streams", "remove it")
    _check_as_of(left, right, join, names, source)
    build = _streams if not right.is_table else _tables if left.is_table else _stream_table
    handle = build(mine, its, join, name)
    scope: Scope = (*left.scope, *right.scope)
    keys = _keys(mine, its, join, handle)
    row_key = () if "ROWKEY" not in keys[0] else (("ROWKEY", str(mine.type), "key"),)
    scope = (*(column for column in scope if column[0] != "ROWKEY"), *row_key)
    types = (mine.type,) if len(keys) == 1 and keys != left.keys else left.key_types
    window = left.window if mine.is_key and its.is_key else None
    return QueryFlow(handle, scope, keys, types, window, left.key_serde, left.query)


def _check_as_of(left: QueryFlow, right: QueryFlow, join: Join, names: QueryNames, source: Input) -> None:
    """Reject AS OF unless a stream is joined with a table that keeps its history."""
    if join.as_of is None:
        if join.grace is not None and right.is_table:
            raise Problem(join.offset, "GRACE PERIOD needs a join of streams, or AS OF", "remove it")
        return
    if left.is_table or not right.is_table:
        raise Problem(join.as_of.offset, "AS OF is for joins of a stream with a table", "remove it")
    is_time = isinstance(join.as_of, Column) and join.as_of.name == "ROWTIME"
    if not is_time or names.find(_qualified(join.as_of, names))[0].alias != names.inputs[0].alias:
        raise Problem(
            join.as_of.offset,
            "AS OF needs the time of the stream",
            f"write AS OF {names.inputs[0].alias}.ROWTIME; the property TIMESTAMP makes a column that time",
        )
    if source.relation.history is None:
        raise Problem(
            join.as_of.offset,
            f"{source.relation.name} keeps no history",
            "add HISTORY to its properties: WITH (HISTORY = '1 DAY', …)",
        )


def _qualified(column: AnyExpression, names: QueryNames) -> Column:
    assert isinstance(column, Column)
    return column if column.source is not None else Column(name=column.name, source=names.inputs[0].alias)


def _check_windows(left: QueryFlow, right: QueryFlow, mine: Side, its: Side, join: Join) -> None:
    if left.window is None and right.window is None:
        return
    if left.window is None or right.window is None:
        raise Problem(join.offset, "a windowed source can only be joined with a windowed source")
    if (left.window.kind == "SESSION") != (right.window.kind == "SESSION") or left.window.size != right.window.size:
        raise Problem(join.offset, "the windows of both sources must be of the same kind and size")
    if not (mine.is_key and its.is_key):
        raise Problem(join.on.offset, "windowed sources are joined by their keys")


def _check_partitions(mine: Side, its: Side, join: Join, names: QueryNames, source: Input) -> None:
    first, second = names.inputs[0].relation, source.relation
    counts = first.partitions, second.partitions
    if mine.is_key and its.is_key and None not in counts and counts[0] != counts[1]:
        raise Problem(
            join.offset,
            f"{first.name} has {counts[0]} partitions and {second.name} has {counts[1]}",
            "joins need the same number; write one of them to another topic with PARTITION BY",
        )


def _sides(left: QueryFlow, right: QueryFlow, join: Join, names: QueryNames, source: Input) -> tuple[Side, Side]:
    on = join.on
    if not isinstance(on, Binary) or on.operator != "=":
        raise Problem(on.offset, "a join needs one equality", "write ON left.column = right.column")
    resolved = [names.resolved(side, "ON") for side in (on.left, on.right)]
    sources = [{_source_of(column, names) for column in columns_of(side)} for side in (on.left, on.right)]
    for side, origin in zip((on.left, on.right), sources, strict=True):
        if len(origin) != 1:
            raise Problem(side.offset, "each side of a join must refer to one source", "write ON a.x = b.y")
    if source.alias in sources[0] and source.alias not in sources[1]:
        resolved.reverse()
        sources.reverse()
    if sources[1] != {source.alias} or sources[0] == sources[1]:
        raise Problem(on.offset, f"the join does not compare {source.alias} with another source")
    first = Side(left, resolved[0], left.generator().code(resolved[0]).type)
    return first, Side(right, resolved[1], right.generator().code(resolved[1]).type)


def _source_of(column: Column, names: QueryNames) -> str:
    return names.find(column, "ON")[0].alias


def _keys(left: Side, right: Side, join: Join, handle: Any) -> tuple[tuple[str, ...], ...]:
    """Return which columns are equal to the key of the result."""
    if isinstance(handle, Table) and isinstance(handle._node, ForeignKeyJoin):
        return left.flow.keys
    if join.kind == "OUTER":
        return (("ROWKEY",),)
    equal = [
        *(left.flow.keys[0] if left.is_key else ()),
        *(side.column or sql(side.expression) for side in (left, right)),
    ]
    equal = [name for name in dict.fromkeys(equal) if name != "ROWKEY"]
    has_column = any("(" not in name for name in equal)
    return (tuple(equal if has_column else [*equal, "ROWKEY"]),)


def _rekeyed(side: Side, *, keeps_null: bool = True) -> Any:
    """Return the stream with the compared expression as key."""
    if side.is_key:
        return side.flow.handle
    selection = SqlSelection(scope=side.flow.scope, key=(sql(side.expression),), keeps_null_keys=keeps_null)
    return side.flow.selected(selection)


def _columns(side: Side) -> list[str]:
    return [name for name, _, where in side.flow.scope if where == "value"]


def _streams(left: Side, right: Side, join: Join, name: str) -> Stream:
    if join.within is None:
        raise Problem(join.offset, "a join of two streams needs a window", "add WITHIN 1 HOUR before ON")
    kind: Kind = {"INNER": "inner", "LEFT": "left", "RIGHT": "left", "OUTER": "outer"}[join.kind]  # type: ignore[assignment]
    before, after = join.within
    if join.kind == "RIGHT":
        left, right, before, after = right, left, after, before
    node = StreamStreamJoin(
        left=_rekeyed(left)._node,
        right=_rekeyed(right)._node,
        joiner=JoinedRows(_columns(left), _columns(right)),
        kind=kind,
        within=_window(before, after, join),
        name=name,
    )
    return Stream(left.flow.handle._draft, node)


def _window(before: int, after: int, join: Join) -> JoinWindow:
    """Return the window; without GRACE, left and outer joins forward records without partner at once."""
    grace = DAY - before - after if join.grace is None else join.grace
    return join_window(
        before=timedelta(milliseconds=before),
        after=timedelta(milliseconds=after),
        grace=timedelta(milliseconds=max(0, grace)),
        eager=join.grace is None and join.kind != "INNER",
    )


def _stream_table(left: Side, right: Side, join: Join, name: str) -> Stream:
    if join.kind not in ("INNER", "LEFT"):
        raise Problem(join.offset, f"a stream and a table cannot have a {join.kind} join", "use JOIN or LEFT JOIN")
    if not right.is_key:
        raise Problem(
            join.on.offset,
            "a stream is joined with a table by the table's primary key",
            f"compare it, not {sql(right.expression)}",
        )
    node = StreamTableJoin(
        stream=_rekeyed(left)._node,
        table=right.flow.handle._node,
        joiner=JoinedRows(_columns(left), _columns(right)),
        left=join.kind == "LEFT",
        grace=join.grace,
        name=name,
    )
    return Stream(left.flow.handle._draft, node)


def _tables(left: Side, right: Side, join: Join, name: str) -> Table:
    if join.kind == "RIGHT" and left.is_key and right.is_key:
        return _by_key(right, left, "left")
    if not right.is_key:
        raise Problem(
            join.on.offset,
            "tables are joined by the primary key of the right table",
            f"{sql(right.expression)} is not its key",
        )
    if left.is_key:
        kinds: dict[str, Kind] = {"INNER": "inner", "LEFT": "left", "OUTER": "outer"}
        return _by_key(left, right, kinds[join.kind])
    if join.kind not in ("INNER", "LEFT"):
        raise Problem(join.offset, f"a {join.kind} join by a foreign key is not possible", "use JOIN or LEFT JOIN")
    selection = left.flow.named(SqlSelection(scope=left.flow.scope, key=(sql(left.expression),)))
    foreign_key = SqlFunction(selection, "key")
    node = ForeignKeyJoin(
        left=left.flow.handle._node,
        right=right.flow.handle._node,
        foreign_key=foreign_key,
        joiner=JoinedRows(_columns(left), _columns(right)),
        keeps_left=join.kind == "LEFT",
        name=name,
    )
    return Table(left.flow.handle._draft, node)


def _by_key(left: Side, right: Side, kind: Kind) -> Table:
    node = TableTableJoin(
        left=left.flow.handle._node,
        right=right.flow.handle._node,
        joiner=JoinedRows(_columns(left), _columns(right)),
        kind=kind,
    )
    return Table(left.flow.handle._draft, node)
