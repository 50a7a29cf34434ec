"""Protobuf with a schema registry."""

from __future__ import annotations

import base64
from typing import Any

from millstream.errors import DefinitionError, SerdeError
from millstream.schemas.framing import framed, unframed
from millstream.schemas.registry import Schema, SchemaRegistry


class Protobuf:
    """Messages of a generated class, with the id of their schema before them, as Confluent's serializer writes them.

    Protobuf resolves versions by field numbers: unknown fields are kept, missing ones take their defaults. Schemas are
    registered under ``subject``, by default the full name of the message.
    """

    def __init__(self, type: Any, registry: SchemaRegistry, *, subject: str | None = None) -> None:
        descriptor = getattr(type, "DESCRIPTOR", None)
        if descriptor is None:
            raise DefinitionError(f"{type!r} is not a generated Protobuf class", hint="make it with protoc")
        try:
            from google.protobuf.message import DecodeError
        except ImportError as error:
            raise DefinitionError("Protobuf needs protobuf", hint="run: pip install 'millstream[protobuf]'") from error
        self._type = type
        self._registry = registry
        self._errors = (DecodeError,)
        self.subject = subject or str(descriptor.full_name)
        self._schema = Schema(base64.b64encode(descriptor.file.serialized_pb).decode(), "PROTOBUF")
        self._path = _encoded_path(_path_of(descriptor))

    def __reduce__(self) -> tuple[Any, ...]:
        return _protobuf_again, (self._type, self._registry, self.subject)

    @property
    def name(self) -> str:
        return f"protobuf:{self.subject}"

    def encode(self, value: Any) -> bytes:
        """Return the message with the id of its schema and its place in the file before it."""
        if not isinstance(value, self._type):
            raise TypeError(f"{type(value).__name__} is not a {self._type.__name__}")
        payload: bytes = value.SerializeToString()
        return framed(self._registry.register(self.subject, self._schema), self._path + payload)

    def decode(self, data: bytes) -> Any:
        """Return a message of our own class."""
        schema, rest = unframed(data)
        try:
            return self._type.FromString(bytes(_after_path(rest)))
        except (*self._errors, IndexError) as error:
            raise SerdeError(f"the bytes do not match schema {schema}: {error}") from error


def _protobuf_again(type: Any, registry: SchemaRegistry, subject: str) -> Protobuf:
    return Protobuf(type, registry, subject=subject)


def _path_of(descriptor: Any) -> list[int]:
    """Return the place of a message in its file: its index, after those of the messages around it."""
    around = descriptor.containing_type
    if around is None:
        return [list(descriptor.file.message_types_by_name.values()).index(descriptor)]
    return [*_path_of(around), around.nested_types.index(descriptor)]


def _encoded_path(path: list[int]) -> bytes:
    if path == [0]:
        return b"\0"  # the first message of a file, which is nearly always the one
    return b"".join(_zigzag(number) for number in (len(path), *path))


def _zigzag(number: int) -> bytes:
    left = number << 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _after_path(data: memoryview) -> memoryview:
    count, at = _number(data, 0)
    for _ in range(count):
        _, at = _number(data, at)
    return data[at:]


def _number(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1, at
