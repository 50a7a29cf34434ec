"""Protobuf with a schema registry."""

from __future__ import annotations

import base64
from typing import Any, Generic

from millstream.errors import DefinitionError, SerdeError
from millstream.foundation.type_variables import T
from millstream.schemas.framing import add_schema_id, split_schema_id
from millstream.schemas.registry import Schema, SchemaRegistry

_MAX_PATH = 100
_MAX_VARINT_BITS = 70


class Protobuf(Generic[T]):
    """Messages of a generated class preceded by their schema id, in the format of Confluent's serializer.

    Protobuf resolves versions by field numbers: unknown fields are kept, missing fields get their defaults. Schemas
    are registered under ``subject``, by default the full name of the message.
    """

    def __init__(self, type: type[T], registry: SchemaRegistry, *, subject: str | None = None) -> None:
        descriptor = getattr(type, "DESCRIPTOR", None)
        if descriptor is None:
            raise DefinitionError(f"{type!r} is not a generated Protobuf class", hint="generate it with protoc")
        try:
            from google.protobuf.message import DecodeError
        except ImportError as error:
            raise DefinitionError("Protobuf needs protobuf", hint="run: pip install 'millstream[protobuf]'") from error
        self._type: Any = type
        self._registry = registry
        self._errors = (DecodeError,)
        self.subject = subject or str(descriptor.full_name)
        self._schema = Schema(base64.b64encode(descriptor.file.serialized_pb).decode(), "PROTOBUF")
        self._path = _encode_path(_message_path(descriptor))

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_protobuf, (self._type, self._registry, self.subject)

    @property
    def name(self) -> str:
        return f"protobuf:{self.subject}"

    def encode(self, value: T) -> bytes:
        """Encode a message, preceded by its schema id and its path in the file."""
        message: Any = value
        if not isinstance(message, self._type):
            raise TypeError(f"{type(message).__name__} is not a {self._type.__name__}")
        payload: bytes = message.SerializeToString()
        return add_schema_id(self._registry.register(self.subject, self._schema), self._path + payload)

    def decode(self, data: bytes) -> T:
        """Decode a message."""
        schema_id, payload = split_schema_id(data)
        try:
            message: T = self._type.FromString(bytes(_skip_path(payload)))
        except (*self._errors, IndexError) as error:
            raise SerdeError(f"the bytes do not match schema {schema_id}: {error}") from error
        return message


def _make_protobuf(type: Any, registry: SchemaRegistry, subject: str) -> Protobuf:
    return Protobuf(type, registry, subject=subject)


def _message_path(descriptor: Any) -> list[int]:
    """Return the path of a message in its file: the indexes of the enclosing messages, then its own."""
    parent = descriptor.containing_type
    if parent is None:
        return [list(descriptor.file.message_types_by_name.values()).index(descriptor)]
    return [*_message_path(parent), parent.nested_types.index(descriptor)]


def _encode_path(path: list[int]) -> bytes:
    if path == [0]:
        return b"\0"  # the short form for the first message of a file, the most common case
    return b"".join(_encode_varint(number) for number in (len(path), *path))


def message_path(index: int) -> bytes:
    """Return the path of a message that is not inside another one."""
    return _encode_path([index])


def message_index(data: memoryview) -> tuple[int, memoryview]:
    """Return the number of the message in its file, and the bytes of the message; nested messages are refused."""
    count, position = _decode_varint(data, 0)
    if count == 0:
        return 0, data[position:]
    if count > 1:
        raise SerdeError("the message is inside another one, which SQL cannot read")
    index, position = _decode_varint(data, position)
    return index, data[position:]


def _encode_varint(number: int) -> bytes:
    """Encode a non-negative number as a zigzag varint."""
    zigzag = number << 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _skip_path(data: memoryview) -> memoryview:
    count, position = _decode_varint(data, 0)
    if count > _MAX_PATH:
        raise SerdeError(f"the path of the message has {count} indexes; at most {_MAX_PATH} are read")
    for _ in range(count):
        _, position = _decode_varint(data, position)
    return data[position:]


def _decode_varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < _MAX_VARINT_BITS:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1, position
    raise SerdeError("the path of the message has a number of more than 10 bytes")
