"""Records as rows of an Arrow table: the fields of their values, and where they come from.

A column has the type that is declared for it, or that the target already has, or that its values suggest. A record
that does not fit is rejected.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from millstream.connect.protocols import Rejected
from millstream.connectors.rendering import fields_of, rejected
from millstream.errors import DefinitionError, SerdeError
from millstream.foundation.json_text import key_text
from millstream.foundation.text import error_text
from millstream.records import Record

KEY, DELETED = "_key", "_deleted"
_ORIGIN = {"_topic": pa.string(), "_partition": pa.int32(), "_offset": pa.int64()}
OWN_COLUMNS = {KEY: pa.string(), **_ORIGIN, "_timestamp": pa.timestamp("ms", tz="UTC"), DELETED: pa.bool_()}
"""Columns of every table; ``_deleted`` marks tombstones."""
_ARROW_TYPES = (bytes, dt.datetime, dt.date, dt.time, dt.timedelta, decimal.Decimal, uuid.UUID)
_WITHOUT_FIELDS = (str, int, float, list, tuple, set, frozenset, *_ARROW_TYPES)

Columns: TypeAlias = Mapping[str, pa.DataType]


def declared_columns(columns: Mapping[str, str] | None) -> dict[str, pa.DataType]:
    """Return the types of declared columns, which are named as in ``pyarrow``: ``int64``, ``string``, ``double``."""
    types = {}
    for name, type_name in (columns or {}).items():
        try:
            types[name] = pa.type_for_alias(type_name)
        except ValueError as error:
            raise DefinitionError(
                f"column {name!r} has the unknown type {type_name!r}",
                hint="use a type of Arrow, such as int64, double, string, bool, date32 or timestamp[ms]",
            ) from error
    return types


def row_of(record: Record[Any, Any]) -> dict[str, Any]:
    """Return the columns of a record; a value without named fields is the column ``value``."""
    own = {
        KEY: None if record.key is None else key_text(record.key),
        "_topic": record.topic,
        "_partition": record.partition,
        "_offset": record.offset,
        "_timestamp": record.timestamp,
        DELETED: record.value is None,
    }
    if record.value is None:
        return own
    is_plain = isinstance(record.value, _WITHOUT_FIELDS)
    fields = fields_of({"value": record.value} if is_plain else record.value, keep=_ARROW_TYPES)
    if clashing := sorted(fields.keys() & own.keys()):
        raise SerdeError(f"the value has a field {clashing[0]!r}, which is the name of a column of its own")
    return own | fields


def to_table(records: Sequence[Record[Any, Any]], known: Columns) -> tuple[pa.Table, list[Rejected]]:
    """Return the rows of records that fit the known columns, and the other records."""
    rows, problems = [], []
    for record in records:
        try:
            rows.append((record, row_of(record)))
        except SerdeError as error:
            problems.append(rejected(record, error))
    columns = {**OWN_COLUMNS, **known}
    for name in dict.fromkeys(name for _, row in rows for name in row):
        if name not in columns and (type_ := _suggested(row.get(name) for _, row in rows)) is not None:
            columns[name] = type_
    schema = pa.schema(list(columns.items()))
    try:
        return pa.Table.from_pylist([row for _, row in rows], schema), problems
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        fitting = [row for record, row in rows if _fits(record, row, schema, problems)]
    return pa.Table.from_pylist(fitting, schema), problems


def _suggested(values: Any) -> pa.DataType | None:
    """Return the type of a column by all its values, or by the first if they do not agree; None if all are null."""
    present = [value for value in values if value is not None]
    for sample in (present, present[:1]):
        try:
            type_ = pa.array(sample).type
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue
        return None if pa.types.is_null(type_) else type_
    return pa.string()


def _fits(record: Record[Any, Any], row: Mapping[str, Any], schema: pa.Schema, problems: list[Rejected]) -> bool:
    for field in schema:
        try:
            pa.array([row.get(field.name)], field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            reason = f"column {field.name!r} is {field.type}: {error_text(error)}"
            problems.append(rejected(record, SerdeError(reason)))
            return False
    return True
