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
_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)

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
    columns, may_drop_fields = {**OWN_COLUMNS, **known}, False
    for name in dict.fromkeys(name for _, row in rows for name in row):
        if name not in columns or pa.types.is_nested(columns[name]):
            present = [value for _, row in rows if (value := row.get(name)) is not None]
            suggested = _type_of(present)
            may_drop_fields |= suggested is None
            type_ = suggested or _type_of(present[:1]) or pa.string()
            if name in columns:
                columns[name] = _extended(columns[name], type_)
            elif not pa.types.is_null(type_):
                columns[name] = type_
    schema = pa.schema(list(columns.items()))
    try:
        if not may_drop_fields:
            return pa.Table.from_pylist([row for _, row in rows], schema), problems
    except _MISFITS:
        pass
    fitting = [row for record, row in rows if _fits(record, row, schema, problems)]
    return pa.Table.from_pylist(fitting, schema), problems


def _type_of(values: Sequence[Any]) -> pa.DataType | None:
    """Return the type of values, None if they do not agree."""
    try:
        return pa.array(values).type  # infer_type() would choose one of several
    except _MISFITS:
        return None


def _extended(known: pa.DataType, suggested: pa.DataType) -> pa.DataType:
    """Return a known type with the nested fields that only values have: Arrow drops fields that a type lacks."""
    if pa.types.is_struct(known) and pa.types.is_struct(suggested):
        fields = {field.name: field for field in known}
        for field in suggested:
            if field.name in fields:
                own = fields[field.name]
                fields[field.name] = own.with_type(_extended(own.type, field.type))
            elif not pa.types.is_null(field.type):
                fields[field.name] = field
        return pa.struct(list(fields.values()))
    if pa.types.is_list(known) and pa.types.is_list(suggested):
        return pa.list_(known.value_field.with_type(_extended(known.value_type, suggested.value_type)))
    if pa.types.is_large_list(known) and pa.types.is_list(suggested):
        return pa.large_list(known.value_field.with_type(_extended(known.value_type, suggested.value_type)))
    return known


def _fits(record: Record[Any, Any], row: Mapping[str, Any], schema: pa.Schema, problems: list[Rejected]) -> bool:
    for field in schema:
        try:
            value = row.get(field.name)
            pa.array([value], field.type)
            type_ = _type_of([value]) if pa.types.is_nested(field.type) else None
            if type_ is not None and _extended(field.type, type_) != field.type:
                raise ValueError("the value has other fields")
        except _MISFITS as error:
            reason = f"column {field.name!r} is {field.type}: {error_text(error)}"
            problems.append(rejected(record, SerdeError(reason)))
            return False
    return True
