"""A fast path for JSON rows: msgspec decodes and checks all columns of a row in one call.

It reads objects that have exactly the declared columns, in upper or in lower case, with values of their types. All
other rows, such as those with missing columns or numbers as text, take the lenient path. Of a name that an object has
in several cases, both take the field in upper case, then that in lower case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, TypedDict

import msgspec

from millstream.foundation.struct_rows import StructRow, attribute_of, struct_type
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
        lower_names = {name: name.lower() for name in types}
        refused = [name for name, in_lower_case in lower_names.items() if name != in_lower_case]
        exact, lower = _decoder(types), _struct_decoder(types, lower_names, refused)
        self._exact, self._exact_lines = exact.decode, exact.decode_lines
        self._lower, self._lower_lines = lower.decode, lower.decode_lines
        self._exact_structs = _struct_decoder(types, {name: name for name in types}).decode_lines
        self._renamed = _renaming(tuple(columns))
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
                row: dict[str, Any] = self._renamed([self._lower(data)])[0] if self._is_lower else self._exact(data)
                if len(row) == self._count:
                    self._balance = _PATIENCE
                    return row
            except (msgspec.DecodeError, UnicodeDecodeError):
                pass
            self._is_lower = not self._is_lower
        self._balance -= 1
        return None

    def decode_lines(self, lines: bytes) -> list[dict[str, Any]]:
        """Return the rows of lines, nothing if one of them is not as declared."""
        for _ in range(2 if self._balance >= 0 else 0):
            try:
                if self._is_lower:
                    return self._renamed(self._lower_lines(lines))
                rows: list[dict[str, Any]] = self._exact_lines(lines)
                if set(map(len, rows)) == {self._count}:
                    return rows
            except (msgspec.DecodeError, UnicodeDecodeError):
                pass
            self._is_lower = not self._is_lower
        return []

    def decode_structs(self, lines: bytes) -> list[StructRow]:
        """Return the rows of lines as Structs, nothing if one of them is not as declared."""
        for _ in range(2 if self._balance >= 0 else 0):
            try:
                return self._lower_lines(lines) if self._is_lower else self._exact_structs(lines)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self._is_lower = not self._is_lower
        return []


def _decoder(types: Mapping[str, Any]) -> msgspec.json.Decoder[Any]:
    """Return what decodes an object with these fields, or some of them, to a dict."""
    row: Any = TypedDict("row", dict(types), total=False)  # type: ignore[misc]
    return msgspec.json.Decoder(row)


def _struct_decoder(
    types: Mapping[str, Any], names: Mapping[str, str], refused: Collection[str] = ()
) -> msgspec.json.Decoder[StructRow]:
    """Return what decodes an object with all these fields to a Struct, which is faster than a dict."""
    return msgspec.json.Decoder(struct_type(types, names, refused))


def _renamed_row(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name!r}: row.{attribute_of(name)}" for name in names)


def _renaming(names: tuple[str, ...]) -> Callable[[list[Any]], list[dict[str, Any]]]:
    """Return what makes rows of Structs; a dict display is faster than a loop over names."""
    rename: Callable[[list[Any]], list[dict[str, Any]]]
    rename = eval(f"lambda rows: [{{{_renamed_row(names)}}} for row in rows]")  # noqa: S307  # only literals
    return rename
