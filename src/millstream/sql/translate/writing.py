"""Write the result of a query to the topic of a stream or table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.dsl.handle import Handle
from millstream.plan.select import Select as SelectNode
from millstream.plan.sinks import Sink
from millstream.sql.catalog import Columns, Relation
from millstream.sql.coercion import can_pass
from millstream.sql.nodes import InsertSelect
from millstream.sql.problems import Problem
from millstream.sql.selection import SqlSelection
from millstream.sql.translate.reading import ColumnTime
from millstream.sql.translate.result import DefinedResult
from millstream.sql.types import quoted


def check_insert(statement: InsertSelect, result: DefinedResult, target: Relation) -> None:
    """Reject a result whose columns are not those of the target."""
    mine: Columns = {**result.keys, **result.values}
    wanted: Columns = {**target.keys, **target.values}
    if list(result.keys.values()) != list(target.keys.values()):
        raise Problem(statement.start, f"the key of the query is not that of {target.name}", "select the same key")
    if len(mine) != len(wanted) or (result.window is None) != (target.window is None):
        raise Problem(
            statement.start,
            f"the query has the columns {', '.join(mine)}, but {target.name} has {', '.join(wanted)}",
            "select the columns of the target",
        )
    for (name, type), (column, target_type) in zip(result.values.items(), target.values.items(), strict=True):
        if name != column or not can_pass(type, target_type):
            raise Problem(
                statement.start,
                f"column {name} {type} does not match {column} {target_type} of {target.name}",
                "select the columns of the target in its order, and CAST them",
            )


def write(result: DefinedResult, target: Relation) -> Handle[Any, Any]:
    """Write a result to the topic of a relation."""
    stream = result.handle.to_stream() if result.kind == "TABLE" else result.handle
    timestamp = None if target.timestamp is None else ColumnTime(target)
    if result.values != target.values:
        stream = _converted(stream, result, target)
    node = Sink(
        source=stream._node, topic=target.topic, key=target.key_serde, value=target.value_serde, timestamp=timestamp
    )
    stream._draft.add(node)
    handle: Handle[Any, Any] = result.handle
    return handle


def _converted(stream: Any, result: DefinedResult, target: Relation) -> Any:
    """Return a stream whose columns have the types of the target."""
    from_columns: Mapping[str, Any] = result.values
    scope = tuple((name, str(type), "value") for name, type in from_columns.items())
    selection = SqlSelection(
        scope=scope,
        columns=tuple((name, quoted(name)) for name in from_columns),
        types=tuple(str(type) for type in target.values.values()),
    )
    node = SelectNode(source=stream._node, selection=selection)
    return type(stream)(stream._draft, node)
