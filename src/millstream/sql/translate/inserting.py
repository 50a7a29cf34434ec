"""INSERT INTO … VALUES: from expressions to a record."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from millstream.sql.catalog import Columns, Relation
from millstream.sql.constants import constant_value
from millstream.sql.nodes import AnyExpression, InsertValues
from millstream.sql.problems import Problem
from millstream.sql.types import BYTES, Type


class Insertion(NamedTuple):
    """A record for the topic of a relation, as bytes; without a timestamp it gets the time of writing."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int | None


def insertion_of(statement: InsertValues, relation: Relation) -> Insertion:
    """Return the record of a statement."""
    if relation.is_read_only:
        raise Problem(statement.start, f"{relation.name} is read-only")
    if relation.headers:
        raise Problem(statement.start, f"{relation.name} has columns of headers, which cannot be inserted")
    if relation.window is not None:
        raise Problem(statement.start, f"{relation.name} is windowed: rows of windows cannot be inserted")
    types: Columns = {**relation.keys, **relation.values}
    names = statement.columns or tuple(types)
    if len(names) != len(statement.values):
        raise Problem(statement.start, f"{len(statement.values)} values are given for {len(names)} columns")
    row: dict[str, Any] = dict.fromkeys(types)
    timestamp = None
    for name, node in zip(names, statement.values, strict=True):
        if name == "ROWTIME":
            timestamp = constant_value(node)
        elif name not in types:
            raise Problem(node.offset, f"{relation.name} has no column {name}", f"it has {', '.join(types)}")
        else:
            row[name] = _inserted(node, types[name])
    keys = [row[name] for name in relation.keys]
    if relation.kind == "TABLE" and None in keys:
        raise Problem(statement.start, "a row of a table needs its primary key", "insert it too")
    values = {name: row[name] for name in relation.values}
    key = None if not keys or all(key is None for key in keys) else keys[0] if len(keys) == 1 else tuple(keys)
    return Insertion(
        relation.topic,
        None if key is None else relation.key_serde.encode(key),
        None if relation.value_format.name == "NONE" else relation.value_serde.encode(values),
        timestamp,
    )


def _inserted(node: AnyExpression, type: Type) -> Any:
    """Return the value of an expression as a column stores it; text for BYTES is base64."""
    value = constant_value(node) if type == BYTES else None
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError as error:
            raise Problem(node.offset, f"{value!r} is not base64", "write bytes as base64, or use TO_BYTES") from error
    try:
        return constant_value(node, type)
    except (ValueError, ArithmeticError) as error:
        raise Problem(node.offset, str(error), f"the column is {type}") from error
