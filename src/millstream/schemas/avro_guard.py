"""Check Avro bytes before the C reader, which neither limits recursion nor the items of a block."""

from __future__ import annotations

from typing import Any

from millstream.errors import SerdeError

_MAX_DEPTH = 64
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_MAX_VARINT_BYTES = 10


class AvroGuard:
    """Walks over bytes as the writer's schema describes them; only needed for some schemas.

    In a schema that is not recursive, and whose items all have a size, length and depth are bounded by the bytes.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._collect_named(schema)
        self.is_needed = self._is_dangerous(schema, frozenset())

    def check(self, data: memoryview) -> None:
        """Raise if data is nested too deeply or a block has more items than there are bytes."""
        position = _Walk(self._named, data).skip(self._schema, 0, 0)
        if position > len(data):
            raise SerdeError("the bytes end within a value")

    def _collect_named(self, schema: Any) -> None:
        for part in _parts(schema):
            self._collect_named(part)
        if isinstance(schema, dict) and "name" in schema:
            self._named[schema["name"]] = schema

    def _is_dangerous(self, schema: Any, path: frozenset[str]) -> bool:
        """Whether a schema is recursive or has arrays whose items have no size."""
        if isinstance(schema, str):
            if schema in path:
                return True
            return schema in self._named and self._is_dangerous(self._named[schema], path)
        if isinstance(schema, dict):
            if schema.get("type") == "array" and not self._has_size(schema["items"], frozenset()):
                return True
            if "name" in schema:
                path = path | {schema["name"]}
        return any(self._is_dangerous(part, path) for part in _parts(schema))

    def _has_size(self, schema: Any, path: frozenset[str]) -> bool:
        if isinstance(schema, str):
            if schema in path:
                return False
            return self._has_size(self._named[schema], path | {schema}) if schema in self._named else schema != "null"
        if isinstance(schema, list):
            return True
        if schema["type"] in ("record", "error"):
            return any(self._has_size(field["type"], path | {schema["name"]}) for field in schema["fields"])
        if schema["type"] == "fixed":
            return bool(schema["size"])
        return schema["type"] in ("array", "map", "enum") or self._has_size(schema["type"], path)


def _parts(schema: Any) -> list[Any]:
    """Return the schemas that a schema consists of."""
    if isinstance(schema, list):
        return schema
    if not isinstance(schema, dict):
        return []
    fields = [field["type"] for field in schema.get("fields", ())]
    return [*fields, *(schema[name] for name in ("items", "values") if name in schema), *_nested_type(schema)]


def _nested_type(schema: dict[str, Any]) -> list[Any]:
    return [] if schema["type"] in ("record", "error", "enum", "fixed", "array", "map") else [schema["type"]]


class _Walk:
    """One pass over the bytes of a value."""

    def __init__(self, named: dict[str, Any], data: memoryview) -> None:
        self._named = named
        self._data = data
        self._items_left = len(data)  # in all blocks together; items with a size need a byte each

    def skip(self, schema: Any, position: int, depth: int) -> int:
        """Return the position after a value."""
        if depth > _MAX_DEPTH:
            raise SerdeError(f"the Avro data is nested more than {_MAX_DEPTH} levels deep")
        if isinstance(schema, list):
            branch, position = self._number(position)
            if not 0 <= branch < len(schema):
                raise SerdeError(f"the union has no branch {branch}")
            return self.skip(schema[branch], position, depth)
        if isinstance(schema, str):
            return (
                self.skip(self._named[schema], position, depth)
                if schema in self._named
                else self._scalar(schema, position)
            )
        kind = schema["type"]
        if kind in ("record", "error"):
            for field in schema["fields"]:
                position = self.skip(field["type"], position, depth + 1)
            return position
        if kind in ("array", "map"):
            return self._skip_blocks(schema, position, depth + 1)
        if kind == "fixed":
            return position + int(schema["size"])
        return self._scalar(kind, position) if kind == "enum" else self.skip(kind, position, depth)

    def _skip_blocks(self, schema: Any, position: int, depth: int) -> int:
        while True:
            count, position = self._number(position)
            if count == 0:
                return position
            if count < 0:
                count, (_, position) = -count, self._number(position)
            self._items_left -= count
            if self._items_left < 0:
                raise SerdeError("a block of the Avro data has more items than there are bytes")
            for _ in range(count):
                if schema["type"] == "map":
                    position = self.skip(schema["values"], self._scalar("string", position), depth)
                else:
                    position = self.skip(schema["items"], position, depth)

    def _scalar(self, kind: str, position: int) -> int:
        if kind in _FIXED_SIZES:
            return position + _FIXED_SIZES[kind]
        number, position = self._number(position)
        if kind not in ("bytes", "string"):
            return position
        if number < 0:
            raise SerdeError(f"the Avro data has a text of {number} bytes")
        return position + number

    def _number(self, position: int) -> tuple[int, int]:
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            if position >= len(self._data):
                raise SerdeError("the bytes end within a value")
            byte = self._data[position]
            position += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), position
        raise SerdeError(f"the Avro data has a number of more than {_MAX_VARINT_BYTES} bytes")
