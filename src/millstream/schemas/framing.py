"""The bytes before a value that name its schema, as Confluent's serializers write them."""

from __future__ import annotations

import struct

from millstream.errors import SerdeError

_HEADER = struct.Struct(">bI")
_MAGIC = 0


def framed(schema: int, payload: bytes) -> bytes:
    """Return a payload with the id of its schema before it."""
    return _HEADER.pack(_MAGIC, schema) + payload


def unframed(data: bytes) -> tuple[int, memoryview]:
    """Return the id of the schema and the payload."""
    if len(data) < _HEADER.size or data[0] != _MAGIC:
        raise SerdeError(
            f"{data[:8]!r} does not begin with the id of a schema",
            hint="was it written without a schema registry? choose another serde",
        )
    return _HEADER.unpack_from(data)[1], memoryview(data)[_HEADER.size :]
