"""Records as rows: the key and the fields of the value are columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from millstream.foundation.text import shown
from millstream.records import Record, Windowed

ColumnKind: TypeAlias = Literal["boolean", "integer", "number", "text", "json", "other"]
"""What a column can hold; other: a type that the user has chosen, which the database checks."""

_HOLDS: dict[ColumnKind, set[ColumnKind]] = {
    "boolean": {"boolean"},
    "integer": {"integer"},
    "number": {"integer", "number"},
    "text": {"text", "json"},
    "json": {"json", "text", "boolean", "integer", "number"},
    "other": {"boolean", "integer", "number", "text", "json"},
}
_MAX_INTEGER = 2**63


class RowError(ValueError):
    """A record that is not a row of the table."""


def kind_of(value: Any) -> ColumnKind | None:
    """Return the kind of column that a value needs, None for a null, which fits all."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        if not -_MAX_INTEGER <= value < _MAX_INTEGER:
            raise RowError(f"{value} does not fit into 64 bits")
        return "integer"
    if isinstance(value, float):
        return "number"
    return "text" if isinstance(value, str) else "json"


def plain(value: Any) -> Any:
    """Return a value as a driver takes it: what is neither a number nor text is written as JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return msgspec.json.encode(value).decode()


def as_json(value: Any) -> str | None:
    """Return a value for a column of JSON."""
    return None if value is None else msgspec.json.encode(value).decode()


def check_fits(column: str, held: ColumnKind, value: Any) -> None:
    """Raise if a column cannot hold a value."""
    kind = kind_of(value)
    if kind is not None and kind not in _HOLDS[held]:
        raise RowError(f"column {column!r} holds values of type {held}, not {value!r:.40}")


def check_name(name: str, longest: int) -> None:
    """Raise if a database cannot have a column of this name: it has a null character, or is not UTF-8, or too long."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not size or "\0" in name:
        raise RowError(f"the field {shown(name):.80} cannot be the name of a column")
    if size > longest:
        raise RowError(f"the field {shown(name):.80} has {size:,} bytes, and the name of a column at most {longest:,}")


def key_columns(record: Record[Any, Any], name: str) -> dict[str, Any]:
    """Return the columns of the key: the fields of an object, or one column called ``name``."""
    key = record.key
    if isinstance(key, Windowed):
        return {**_fields(key.key, name), "window_start": key.start, "window_end": key.end}
    return _fields(key, name)


def value_columns(record: Record[Any, Any]) -> dict[str, Any]:
    """Return the columns of the value: the fields of an object, or one column called ``value``."""
    return _fields(record.value, "value")


def _fields(item: Any, name: str) -> dict[str, Any]:
    if item is None:
        return {}
    builtin = item if isinstance(item, dict | str | int | float | list) else msgspec.to_builtins(item)
    if type(builtin) is not dict and not isinstance(builtin, Mapping):
        return {name: builtin}
    if "" in builtin or ({*map(type, builtin)} != {str} and not all(isinstance(column, str) for column in builtin)):
        raise RowError("the names of its fields are not all text")
    return dict(builtin)


Shape: TypeAlias = tuple[tuple[str, ...], tuple[type, ...], tuple[str, ...]]
"""The columns of a row, the types of their values, and the columns of its key."""
_PLAIN_TYPES = frozenset({type(None), bool, int, float, str})


class TableRow:
    """A record as columns; those of the key replace fields of the value with the same name."""

    __slots__ = ("columns", "key", "keys", "record", "values")

    def __init__(self, record: Record[Any, Any], key_name: str) -> None:
        self.record = record
        self.keys = key_columns(record, key_name)
        self.columns = {**value_columns(record), **self.keys}
        self.values: tuple[Any, ...] = ()
        self.key: tuple[tuple[str, ...], tuple[Any, ...]] = ((), ())
        """The names of the key in order, and their values."""

    def shape(self) -> Shape | None:
        """Return what decides whether a table can hold the row; None if that depends on its values."""
        values = self.columns.values()
        types = tuple(map(type, values))
        if not _PLAIN_TYPES.issuperset(types):
            return None
        integers = [value for value in values if type(value) is int]
        if integers and not -_MAX_INTEGER <= min(integers) <= max(integers) < _MAX_INTEGER:
            return None
        return tuple(self.columns), types, tuple(self.keys)

    def encode(self, columns: Mapping[str, ColumnKind]) -> None:
        """Set the values of columns as a driver takes them."""
        get = self.columns.get
        values = tuple(map(get, columns))
        if "json" in columns.values() or not _PLAIN_TYPES.issuperset(map(type, values)):
            values = tuple(
                [as_json(get(name)) if kind == "json" else plain(get(name)) for name, kind in columns.items()]
            )
        self.values = values
        names = tuple(sorted(self.keys))
        self.key = names, tuple([plain(self.keys[name]) for name in names])
