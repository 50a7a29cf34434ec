"""Avro with a schema registry."""

from __future__ import annotations

import io
from typing import Any

import msgspec

from millstream.errors import DefinitionError, SerdeError
from millstream.schemas.framing import framed, unframed
from millstream.schemas.registry import Schema, SchemaRegistry

_DEEPEST = 64


class Avro:
    """Records in Avro, with the id of their schema before them, as Confluent's serializer writes them.

    What is read is resolved to the reader's own ``schema``: a field that an older writer did not know takes its
    default, one that a newer writer added is left out. Values are dicts, or objects of ``type`` if one is given. New
    schemas are registered under ``subject``; by default that is the full name of the record, ``"rides-value"`` is what
    Confluent's clients use for the topic ``rides``.
    """

    def __init__(
        self,
        schema: str | dict[str, Any],
        registry: SchemaRegistry,
        *,
        subject: str | None = None,
        type: Any = None,
    ) -> None:
        avro = _fastavro()
        try:
            source: Any = msgspec.json.decode(schema) if isinstance(schema, str) else schema
            _check_depth(source)
            self._parsed: Any = avro.parse_schema(source)
            if isinstance(source, dict) and source.get("type") == "record" and "fields" not in source:
                raise KeyError("fields")
        except (msgspec.DecodeError, avro.schema.SchemaParseException, avro.schema.UnknownType, KeyError) as error:
            raise DefinitionError(f"the Avro schema cannot be read: {error}", hint="give a JSON schema") from error
        self._source = source
        self._registry = registry
        self._type = type
        self._canonical = Schema(msgspec.json.encode(source).decode())
        self._written: dict[int, Any] = {}
        self.subject = subject or _name(source)
        self._reader, self._writer = avro.schemaless_reader, avro.schemaless_writer

    def __reduce__(self) -> tuple[Any, ...]:
        return _avro_again, (self._source, self._registry, self.subject, self._type)

    @property
    def name(self) -> str:
        return f"avro:{self.subject}"

    def encode(self, value: Any) -> bytes:
        """Return the value with the id of its schema before it."""
        out = io.BytesIO()
        plain = value if isinstance(value, dict) else msgspec.to_builtins(value)
        self._writer(out, self._parsed, plain)
        return framed(self._registry.register(self.subject, self._canonical), out.getvalue())

    def decode(self, data: bytes) -> Any:
        """Return the value in the form of our own schema, whichever it was written with."""
        schema, payload = unframed(data)
        written = self._written.get(schema)
        if written is None:
            written = self._written[schema] = self._parsed_of(schema)
        try:
            value = self._reader(io.BytesIO(payload), written, self._parsed)
        except (EOFError, IndexError, MemoryError, OverflowError) as error:
            raise SerdeError(f"the bytes do not match schema {schema}: {type(error).__name__}") from error
        return value if self._type is None else msgspec.convert(value, self._type)

    def _parsed_of(self, id: int) -> Any:
        avro = _fastavro()
        source = msgspec.json.decode(self._registry.schema(id).schema)
        _check_depth(source)
        try:
            return avro.parse_schema(source)
        except (avro.schema.SchemaParseException, avro.schema.UnknownType, KeyError) as error:
            raise SerdeError(f"schema {id} of the registry is not Avro: {error}") from error


def _avro_again(source: Any, registry: SchemaRegistry, subject: str, type: Any) -> Avro:
    return Avro(source, registry, subject=subject, type=type)


def _fastavro() -> Any:
    try:
        import fastavro
        import fastavro.schema
    except ImportError as error:
        raise DefinitionError("Avro needs fastavro", hint="run: pip install 'millstream[avro]'") from error
    return fastavro


def _name(source: Any) -> str:
    if not isinstance(source, dict) or "name" not in source:
        raise DefinitionError("an Avro schema without a name needs subject=", hint='for example subject="rides-value"')
    space = source.get("namespace")
    return f"{space}.{source['name']}" if space else str(source["name"])


def _check_depth(source: Any, depth: int = 0) -> None:
    """A schema is read by a function that calls itself; one from outside may be made to exhaust it."""
    if depth > _DEEPEST:
        raise SerdeError(f"an Avro schema is nested more than {_DEEPEST} deep", hint="is it a schema?")
    inner = source.values() if isinstance(source, dict) else source if isinstance(source, list) else ()
    for each in inner:
        _check_depth(each, depth + 1)
