"""Avro with a schema registry."""

from __future__ import annotations

import io
from typing import Any, Generic, overload

import msgspec

from millstream.errors import DefinitionError, SerdeError
from millstream.foundation.type_variables import T
from millstream.foundation.typed_decoding import convert
from millstream.schemas.avro_guard import AvroGuard
from millstream.schemas.framing import add_schema_id, split_schema_id
from millstream.schemas.registry import Schema, SchemaRegistry

_MAX_DEPTH = 64
_MAX_SCHEMAS = 1_000


class Avro(Generic[T]):
    """Avro records preceded by their schema id, in the format of Confluent's serializer.

    Records are resolved to the reader's ``schema``: a field that an older writer did not have gets its default, and a
    field that a newer writer added is dropped. Values are dicts, or objects of ``type`` if it is given. New schemas are
    registered under ``subject``, by default the full name of the record; Confluent's clients use ``"rides-value"`` for
    the topic ``rides``. With ``as_written`` values are not resolved: they are as the writer's schema describes them.
    """

    @overload
    def __init__(
        self, schema: str | dict[str, Any], registry: SchemaRegistry, *, subject: str | None = None, type: type[T]
    ) -> None: ...
    @overload
    def __init__(
        self: Avro[Any],
        schema: str | dict[str, Any] | list[Any],
        registry: SchemaRegistry,
        *,
        subject: str | None = None,
        type: object = None,
        as_written: bool = False,
    ) -> None: ...
    def __init__(
        self,
        schema: str | dict[str, Any] | list[Any],
        registry: SchemaRegistry,
        *,
        subject: str | None = None,
        type: Any = None,
        as_written: bool = False,
    ) -> None:
        avro = _import_fastavro()
        try:
            source: Any = msgspec.json.decode(schema) if isinstance(schema, str) else schema
            _check_depth(source)
            self._parsed: Any = avro.parse_schema(source)
            if isinstance(source, dict) and source.get("type") == "record" and "fields" not in source:
                raise KeyError("fields")
        except (msgspec.DecodeError, avro.schema.SchemaParseException, avro.schema.UnknownType, KeyError) as error:
            raise DefinitionError(f"the Avro schema is invalid: {error}", hint="give an Avro schema in JSON") from error
        self._source = source
        self._registry = registry
        self._type = type
        self._as_written = as_written
        self._canonical = Schema(msgspec.json.encode(source).decode())
        self._writer_schemas: dict[int, tuple[Any, AvroGuard | None]] = {}
        self.subject = subject or _full_name(source)
        self._reader, self._writer = avro.schemaless_reader, avro.schemaless_writer

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_avro, (self._source, self._registry, self.subject, self._type, self._as_written)

    @property
    def name(self) -> str:
        return f"avro:{self.subject}"

    def encode(self, value: T) -> bytes:
        """Encode a value, preceded by its schema id."""
        out = io.BytesIO()
        plain = value if self._as_written or isinstance(value, dict) else msgspec.to_builtins(value)
        self._writer(out, self._parsed, plain)
        return add_schema_id(self._registry.register(self.subject, self._canonical), out.getvalue())

    def decode(self, data: bytes) -> T:
        """Decode a value and resolve it from the writer's schema to the reader's."""
        schema_id, payload = split_schema_id(data)
        cached = self._writer_schemas.get(schema_id)
        writer_schema, guard = self._fetch_schema(schema_id) if cached is None else cached
        try:
            if guard is not None:
                guard.check(payload)
            reader_schema = None if self._as_written else self._parsed
            value: Any = self._reader(io.BytesIO(payload), writer_schema, reader_schema)
        except (EOFError, IndexError, MemoryError, OverflowError) as error:
            raise SerdeError(f"the bytes do not match schema {schema_id}: {type(error).__name__}") from error
        decoded: T = value if self._type is None else convert(value, self._type)
        return decoded

    def _fetch_schema(self, id: int) -> tuple[Any, AvroGuard | None]:
        avro = _import_fastavro()
        source = msgspec.json.decode(self._registry.schema(id).schema)
        _check_depth(source)
        try:
            parsed = avro.parse_schema(source)
            guard = AvroGuard(parsed)
        except (avro.schema.SchemaParseException, avro.schema.UnknownType, KeyError) as error:
            raise SerdeError(f"schema {id} in the registry is not a valid Avro schema: {error}") from error
        if len(self._writer_schemas) >= _MAX_SCHEMAS:
            del self._writer_schemas[next(iter(self._writer_schemas))]
        self._writer_schemas[id] = parsed, guard if guard.is_needed else None
        return self._writer_schemas[id]


def _make_avro(source: Any, registry: SchemaRegistry, subject: str, type: Any, as_written: bool) -> Avro:
    return Avro(source, registry, subject=subject, type=type, as_written=as_written)


def _import_fastavro() -> Any:
    try:
        import fastavro
        import fastavro.schema
    except ImportError as error:
        raise DefinitionError("Avro needs fastavro", hint="run: pip install 'millstream[avro]'") from error
    return fastavro


def _full_name(source: Any) -> str:
    if not isinstance(source, dict) or "name" not in source:
        raise DefinitionError("an Avro schema without a name needs subject=", hint='for example subject="rides-value"')
    namespace = source.get("namespace")
    return f"{namespace}.{source['name']}" if namespace else str(source["name"])


def _check_depth(source: Any, depth: int = 0) -> None:
    """Limit the nesting depth: the parser is recursive, and a malicious schema could exhaust the stack."""
    if depth > _MAX_DEPTH:
        raise SerdeError(
            f"an Avro schema is nested more than {_MAX_DEPTH} levels deep", hint="check that it is an Avro schema"
        )
    items = source.values() if isinstance(source, dict) else source if isinstance(source, list) else ()
    for item in items:
        _check_depth(item, depth + 1)
