"""A fast path for JSON rows: msgspec decodes and checks all columns of a row in one call.

It reads objects that have exactly the declared columns, in upper or in lower case, with values of their types. All
other rows, such as those with missing columns or numbers as text, take the lenient path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

import msgspec

from millstream.sql.types import Type

_SIMPLE: dict[str, Any] = {
    "BOOLEAN": bool,
    "INTEGER": Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    "BIGINT": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    "DOUBLE": float,
    "STRING": str,
}
_PATIENCE = 1000
"""After that many more misses than hits the fast path is no longer tried."""


def _python_type(type: Type) -> Any:
    """Return the type that msgspec decodes a column to, None if it must be converted afterwards."""
    if type.kind in _SIMPLE:
        return _SIMPLE[type.kind] | None
    items = [_python_type(item) for item in type.items]
    if None in items or type.kind not in ("ARRAY", "MAP") or (type.kind == "MAP" and type.items[0].kind != "STRING"):
        return None
    return (list[items[0]] if type.kind == "ARRAY" else dict[str, items[1]]) | None  # type: ignore[valid-type]


class FastRows:
    """Decodes rows that have all columns; ``decode`` returns None for others."""

    def __init__(self, columns: Mapping[str, Type], types: Mapping[str, Any]) -> None:
        self._count = len(columns)
        self._balance = _PATIENCE
        self._exact = _decoder(dict(types))
        self._lower = _decoder({name.lower(): type for name, type in types.items()})
        self._rename = _renaming(tuple(columns))
        self._is_lower = False

    @classmethod
    def of(cls, columns: Mapping[str, Type]) -> FastRows | None:
        """Return the fast path for these columns, None if a column needs a conversion."""
        types = {name: _python_type(type) for name, type in columns.items()}
        is_plain = all(name.upper() == name for name in columns) and all(type is not None for type in types.values())
        return cls(columns, types) if columns and is_plain else None

    def decode(self, data: bytes) -> dict[str, Any] | None:
        """Return a row, None if it is not as declared."""
        if self._balance < 0:
            return None
        for _ in range(2):  # the case that the last row had, then the other one
            try:
                row: dict[str, Any] = (self._lower if self._is_lower else self._exact)(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            if len(row) == self._count:
                self._balance = _PATIENCE
                return self._rename(row) if self._is_lower else row
            self._is_lower = not self._is_lower
        self._balance -= 1
        return None


def _decoder(types: dict[str, Any]) -> Callable[[bytes], Any]:
    """Return what decodes an object with these fields, or some of them, to a dict."""
    row: Any = TypedDict("row", types, total=False)  # type: ignore[misc]
    return msgspec.json.Decoder(row).decode


def _renaming(names: tuple[str, ...]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    pairs = [(name, name.lower()) for name in names]
    return lambda row: {name: row[lower] for name, lower in pairs}
