"""The schema id before a value, in the format of Confluent's serializers."""

from __future__ import annotations

import struct

from millstream.errors import SerdeError

_HEADER = struct.Struct(">bI")
_MAGIC = 0


def add_schema_id(schema_id: int, payload: bytes) -> bytes:
    """Prefix a payload with its schema id."""
    return _HEADER.pack(_MAGIC, schema_id) + payload


def split_schema_id(data: bytes) -> tuple[int, memoryview]:
    """Return the schema id and the payload."""
    if len(data) < _HEADER.size or data[0] != _MAGIC:
        raise SerdeError(
            f"{data[:8]!r} does not start with a schema id",
            hint="if it was written without a schema registry, use another serde",
        )
    return _HEADER.unpack_from(data)[1], memoryview(data)[_HEADER.size :]
