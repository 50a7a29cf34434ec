"""GROUP BY: aggregates of streams and tables, with and without windows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from millstream.aggregations import AnyAggregation, Count, Mean, Several, Sum
from millstream.dsl.ready import nothing
from millstream.dsl.table import Table
from millstream.functions import Function
from millstream.plan.stateful import Aggregate, WindowedAggregate
from millstream.plan.tables import TableAggregate, TableGroupBy
from millstream.serdes import Serde
from millstream.sql.aggregates import Use, is_aggregate, is_row, limited, use_of
from millstream.sql.catalog import SourceWindow
from millstream.sql.compiled import Scope
from millstream.sql.nodes import AnyExpression, Call, Cast, Column, Constant, Query, Window
from millstream.sql.problems import Problem
from millstream.sql.selection import SqlFunction, SqlSelection
from millstream.sql.translate.flow import QueryFlow
from millstream.sql.translate.names import BOUNDS
from millstream.sql.tree import columns_of, sql, transform, walk
from millstream.sql.types import BIGINT, INTEGER, Type
from millstream.windows import SessionWindows, TimeWindows, Windows, hopping, session, tumbling

DAY = 86_400_000


class Grouping:
    """The groups of a query and the aggregates that it uses, collected from SELECT and HAVING."""

    def __init__(
        self, flow: QueryFlow, groups: list[AnyExpression], window: Window | None, settings: Mapping[str, str]
    ) -> None:
        self.flow = flow
        self._settings = settings
        self.groups = groups
        self.window = window
        self._texts = [sql(group) for group in groups]
        self._generator = flow.generator()
        self._uses: dict[str, tuple[str, Use]] = {}
        self.types = [self._generator.code(group).type for group in groups]

    def replaced(self, node: AnyExpression, clause: str) -> AnyExpression:
        """Return an expression over groups and aggregates: their columns are called ``#0`` and ``#A0``."""

        def change(part: AnyExpression) -> AnyExpression | None:
            text = sql(part)
            if text in self._texts:
                return Column(name=f"#{self._texts.index(text)}", offset=part.offset)
            if is_aggregate(part):
                return self._aggregate(part, text)
            return None

        result = transform(node, change)
        for column in columns_of(result):
            if not column.name.startswith("#") and not (self.window is not None and column.name in BOUNDS):
                raise Problem(
                    column.offset,
                    f"column {column.name} of {clause} is neither aggregated nor part of GROUP BY",
                    f"add it to GROUP BY, or use LATEST_BY_OFFSET({column.name})",
                )
        return result

    def _aggregate(self, call: Call, text: str) -> AnyExpression:
        for argument in call.arguments:
            for part in walk(argument):
                if is_aggregate(part):
                    raise Problem(part.offset, f"{part.name} cannot be inside {call.name}", "use one aggregate")
                if self.window is not None and isinstance(part, Column) and part.name in BOUNDS:
                    raise Problem(part.offset, f"{part.name} can only be selected, not aggregated")
        if text not in self._uses:
            use = limited(use_of(call, lambda node: self._generator.code(node).type), call, self._settings)
            if self.flow.is_table and use.aggregation.cannot_remove:
                raise Problem(
                    call.offset,
                    f"{call.name} cannot be applied to a table: {use.aggregation.cannot_remove}",
                    "aggregate a stream",
                )
            self._generator.code(use.argument)
            self._uses[text] = f"#A{len(self._uses)}", use
        name, use = self._uses[text]
        return _finished(Column(name=name, offset=call.offset), use)

    def rename(self, outputs: Mapping[str, AnyExpression]) -> bool:
        """Name aggregates after the columns of the result, if these are the aggregates themselves."""
        columns = {node.name: name for name, node in outputs.items() if isinstance(node, Column)}
        if len(columns) < len(outputs) or set(columns) != {name for name, _ in self._uses.values()}:
            return False
        uses = {columns[name]: (text, use) for text, (name, use) in self._uses.items()}
        self._uses = {uses[name][0]: (name, uses[name][1]) for name in outputs}
        return True

    @property
    def has_aggregates(self) -> bool:
        return bool(self._uses)

    @property
    def scope(self) -> Scope:
        """Where groups and aggregates are after the aggregation."""
        base = "key" if self.window is None else "window.key"
        single = len(self.groups) == 1
        groups = (
            (f"#{number}", str(type), base if single else f"{base}.{number}") for number, type in enumerate(self.types)
        )
        uses = ((name, str(_stored(use)), "value") for name, use in self._uses.values())
        bounds: Scope = ()
        if self.window is not None:
            bounds = tuple((name, str(type), f"window.{name[6:].lower()}") for name, type in BOUNDS.items())
        return (*groups, *uses, *bounds)

    def aggregated(self, name: str | None, query: Query, key: Serde) -> QueryFlow:
        """Return the table of aggregates."""
        uses = list(self._uses.values())
        parts: tuple[AnyAggregation, ...] = tuple(use.aggregation for _, use in uses)
        ready = Several(tuple(name for name, _ in uses), parts, tuple(range(len(uses))))
        selection = SqlSelection(
            scope=self.flow.scope,
            key=None if self._keeps_key() else tuple(self._texts),
            keeps_null_keys=False,
            arguments=tuple(sql(use.argument) for _, use in uses),
            query=self.flow.query,
        )
        build = self._of_table if self.flow.is_table else self._of_stream
        window = None if self.window is None else SourceWindow(self.window.kind, _size(self.window))
        return QueryFlow(
            handle=Table(self.flow.handle._draft, build(selection, ready, name, query, key)),
            scope=self.scope,
            keys=tuple((f"#{number}",) for number in range(len(self.groups))),
            key_types=tuple(self.types),
            window=window,
            key_serde=key,
            query=self.flow.query,
        )

    def _keeps_key(self) -> bool:
        """Whether the only group is the key of the stream, so that no shuffle is needed."""
        keys = self.flow.keys
        group = self.groups[0]
        is_key = len(self.groups) == len(keys) == 1 and isinstance(group, Column) and group.name in keys[0]
        return is_key and not self.flow.is_table and self.flow.window is None

    def _of_stream(self, selection: SqlSelection, ready: Several, name: str | None, query: Query, key: Serde) -> Any:
        source = self.flow.selected(selection, key)._node
        if self.window is None:
            return Aggregate(source=source, initial=nothing, adder=Function(ready.add, 2), ready=ready, name=name)
        counts = all(isinstance(use.aggregation, Count) and is_row(use.argument) for _, use in self._uses.values())
        windows = windows_of(self.window, is_final=query.emit == "FINAL")
        is_final = query.emit == "FINAL"
        kept = max(self.window.retention or 0, windows.retention)
        return WindowedAggregate(
            source=source,
            windows=windows,
            initial=nothing,
            adder=Function(ready.count if counts else ready.add, 2),
            counts=counts,
            merger=Function(lambda earlier, later: later if earlier is None else ready.merge(earlier, later), 2),
            final=is_final,
            keeps_unemitted=True if is_final and self.window.retention is not None else None,
            retention=None if kept == windows.retention else kept,
            ready=ready,
            name=name,
        )

    def _of_table(self, selection: SqlSelection, ready: Several, name: str | None, _query: Query, key: Serde) -> Any:
        draft = self.flow.handle._draft
        groups = draft.add(
            TableGroupBy(
                source=self.flow.handle._node,
                key_of=SqlFunction(selection, "key"),
                value_of=SqlFunction(selection, "value"),
                key=key,
            )
        )
        return TableAggregate(
            source=groups,
            initial=nothing,
            adder=Function(ready.add, 2),
            subtractor=Function(ready.remove, 2),
            ready=ready,
            name=name,
        )


def _stored(use: Use) -> Type:
    return BIGINT if isinstance(use.aggregation, Sum) and use.type == INTEGER else use.type


def _finished(column: Column, use: Use) -> AnyExpression:
    """Return the result of an aggregate: a mean of nothing is 0, and a sum of INTEGER overflows as one."""
    if isinstance(use.aggregation, Sum):
        return Cast(operand=column, type=use.type, offset=column.offset) if use.type == INTEGER else column
    if not isinstance(use.aggregation, Mean):
        return column
    zero = Cast(operand=Constant(kind="integer", text="0", offset=column.offset), type=_stored(use))
    return Call(name="IFNULL", arguments=(column, zero), offset=column.offset)


def windows_of(window: Window, *, is_final: bool) -> Windows:
    """Return the windows of a WINDOW clause; grace is a day unless it is given or results are final."""
    grace = window.grace if window.grace is not None else 0 if is_final else max(0, DAY - window.size)
    size, late = timedelta(milliseconds=window.size), timedelta(milliseconds=grace)
    if window.kind == "SESSION":
        windows: SessionWindows = session(gap=size, grace=late)
        return windows
    if window.kind == "HOPPING":
        assert window.advance is not None
        hopped: TimeWindows = hopping(size, every=timedelta(milliseconds=window.advance), grace=late)
        return hopped
    return tumbling(size, grace=late)


def _size(window: Window) -> int | None:
    return None if window.kind == "SESSION" else window.size
