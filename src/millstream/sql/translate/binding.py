"""Use handles of Python in SQL: columns from the type of their values."""

from __future__ import annotations

import datetime as dt
from typing import Any

from msgspec import inspect

from millstream.dsl.handle import Handle
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.errors import DefinitionError
from millstream.functions import Function
from millstream.plan.declared import declared_serdes
from millstream.plan.key_types import decoded_type
from millstream.plan.stateless import MapValues
from millstream.plan.tables import TableMapValues
from millstream.serdes import Json, MessagePack, Serde
from millstream.sql.catalog import Columns, Format, Relation
from millstream.sql.python_types import sql_type
from millstream.sql.types import BIGINT, BOOLEAN, BYTES, DATE, DOUBLE, STRING, TIME, TIMESTAMP, Type, contains

_SIMPLE: dict[type, Type] = {
    bool: BOOLEAN, int: BIGINT, float: DOUBLE, str: STRING, bytes: BYTES, dt.date: DATE, dt.time: TIME,
    dt.datetime: TIMESTAMP,
}  # fmt: skip


def bind(name: str, handle: Handle[Any, Any]) -> tuple[Relation, Handle[Any, Any]]:
    """Return a handle as a relation, and the handle whose values are rows; its key is the column ``KEY``."""
    if not isinstance(handle, Stream | Table):
        raise DefinitionError(f"{name}= expects a stream or a table, not {handle!r}", hint="pass a handle of this app")
    serdes = declared_serdes(tuple(handle._draft.nodes))[handle._node]
    fields = _fields(name, serdes.value)
    relation = Relation(
        name=name.upper(),
        kind="STREAM" if isinstance(handle, Stream) else "TABLE",
        topic="",
        keys={"KEY": _key_type(serdes.key)},
        values={field.upper(): type for field, type in fields.items()},
        key_format=Format("JSON"),
        value_format=Format("JSON"),
    )
    mapper = RowOf(tuple(fields))
    node_type = MapValues if isinstance(handle, Stream) else TableMapValues
    rows: Handle[Any, Any] = type(handle)(handle._draft, node_type(source=handle._node, mapper=mapper))
    return relation, rows


def _key_type(serde: Serde | None) -> Type:
    return STRING if serde is None else _SIMPLE.get(decoded_type(serde), STRING)


def _fields(name: str, serde: Serde | None) -> Columns:
    declared = getattr(serde, "type", None) if isinstance(serde, Json | MessagePack) else None
    info = None if declared is None or declared is Any else inspect.type_info(declared)
    if not isinstance(
        info, inspect.StructType | inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType
    ):
        raise DefinitionError(
            f"the columns of {name} are unknown: its values have no declared fields",
            hint="declare them where it is read: value=MyStruct, a dataclass or a TypedDict",
        )
    return {field.name: _type(name, field.name, field.type) for field in info.fields}


def _type(name: str, field: str, info: Any) -> Type:
    type = sql_type(info)
    if type is None or contains(type, "DECIMAL"):
        raise DefinitionError(
            f"field {field} of {name} has a type that SQL does not know: {info}",
            hint="use bool, int, float, str, bytes, dates, times, lists or dicts of them",
        )
    return type


class RowOf(Function):
    """Makes a row of an object: a dict by the names of its fields in upper case."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        self._fields = [(field, field.upper()) for field in fields]
        super().__init__(self._row, 1)

    @property
    def name(self) -> str:
        return f"sql:row:{','.join(field for field, _ in self._fields)}"

    def _row(self, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if isinstance(value, dict):
            return {column: value.get(field) for field, column in self._fields}
        return {column: getattr(value, field) for field, column in self._fields}
