"""The row formats AVRO, PROTOBUF and JSON_SR: rows with a schema that a registry has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from millstream.errors import SerdeError
from millstream.schemas.avro import Avro
from millstream.schemas.framing import add_schema_id, split_schema_id
from millstream.schemas.messages import Messages
from millstream.schemas.protobuf import message_index, message_path
from millstream.schemas.registry import Schema, SchemaRegistry
from millstream.sql.rows.avro_fields import fitting
from millstream.sql.rows.formats import Columns, JsonRows, RowSerde
from millstream.sql.rows.plain import from_plain, object_reader
from millstream.sql.rows.schemas import AVRO_NAME, PROTOBUF_NAME, avro_record, avro_type, json_schema, proto_text
from millstream.sql.types import struct_of


class RegisteredSchema(msgspec.Struct, frozen=True):
    """Where the schema of a part of a topic is: the subject, or a schema that exists already by its id."""

    registry: SchemaRegistry
    subject: str
    id: int | None = None
    full_name: str | None = None
    nullable: str = ""
    """How Protobuf keeps null: OPTIONAL, WRAPPER or not at all."""

    def text(self, otherwise: Callable[[], str]) -> str:
        """Return the text of the schema: of that with the id, otherwise one that is made of the columns."""
        return otherwise() if self.id is None else self.registry.schema(self.id).schema

    def registered(self, schema: Schema) -> int:
        """Return the id of the schema; a new one is registered."""
        return self.registry.register(self.subject, schema) if self.id is None else self.id


class _FixedId:
    """A registry whose schemas exist already: records are written with that id."""

    def __init__(self, where: RegisteredSchema) -> None:
        self._where = where

    def register(self, _subject: str, schema: Schema) -> int:
        return self._where.registered(schema)

    def schema(self, id: int) -> Schema:
        return self._where.registry.schema(id)


class AvroRows(RowSerde):
    """Avro records, or with ``is_wrapped=False`` the value of the only column itself."""

    format = "avro_rows"

    def __init__(self, columns: Columns, where: RegisteredSchema, *, is_key: bool, is_wrapped: bool) -> None:
        super().__init__(columns, is_key=is_key)
        self._is_wrapped = is_wrapped
        only = next(iter(columns.values()))
        name = where.full_name or AVRO_NAME
        own: Any = avro_record(columns, name) if is_wrapped else avro_type(only, name.rpartition(".")[2])
        text = where.text(lambda: msgspec.json.encode(own).decode())
        registry: Any = _FixedId(where)
        self._inner: Avro[Any] = Avro(text, registry, subject=where.subject, as_written=True)
        self._fit = None if where.id is None else fitting(msgspec.json.decode(text))
        self._read = object_reader(dict(columns)) if is_wrapped else from_plain(only)

    def encode(self, row: Any, /) -> bytes:
        """Encode a row, preceded by the id of its schema."""
        items = self._items(row)
        if not self._is_wrapped:
            return None if items[0] is None else self._inner.encode(items[0])  # type: ignore[return-value]  # null
        value = dict(zip(self._names, items, strict=True))
        return self._inner.encode(value if self._fit is None else self._fit(value))

    def decode(self, data: bytes, /) -> Any:
        """Decode a row as its writer's schema describes it."""
        value = self._inner.decode(data)
        if not self._is_wrapped:
            return self._row({self._names[0]: self._read(value)})
        return None if value is None else self._row(self._read(value))


class JsonSchemaRows(JsonRows):
    """JSON preceded by the id of its JSON Schema."""

    format = "json_schema_rows"

    def __init__(self, columns: Columns, where: RegisteredSchema, *, is_key: bool, is_wrapped: bool) -> None:
        super().__init__(columns, is_key=is_key, is_wrapped=is_wrapped)
        self._where = where
        own = struct_of(dict(columns)) if is_wrapped else next(iter(columns.values()))
        self._schema = Schema(where.text(lambda: msgspec.json.encode(json_schema(own)).decode()), "JSON")

    def encode(self, row: Any, /) -> bytes:
        """Encode a row, preceded by the id of its schema."""
        data: bytes | None = super().encode(row)
        if data is None:  # a null that is not wrapped
            return data  # type: ignore[return-value]
        return add_schema_id(self._where.registered(self._schema), data)

    def decode(self, data: bytes, /) -> Any:
        """Decode a row; the schema is not needed for it."""
        return super().decode(bytes(split_schema_id(data)[1]))


class ProtobufRows(RowSerde):
    """Protobuf messages, preceded by the id of their schema if there is a registry; null fields have defaults."""

    format = "protobuf_rows"

    def __init__(self, columns: Columns, where: RegisteredSchema | None, *, is_key: bool, nullable: str = "") -> None:
        super().__init__(columns, is_key=is_key)
        self._where = where
        name = PROTOBUF_NAME if where is None or where.full_name is None else where.full_name
        if where is None or where.id is None:
            text, imports = proto_text(columns, name, nullable), {}
        else:
            text, imports = where.text(str), where.registry.referenced(where.registry.schema(where.id))
        full_name = None if where is None else where.full_name
        self._messages = Messages(text, full_name, imports)
        self._schema = Schema(text, "PROTOBUF")
        self._writers: dict[tuple[int, int], Messages] = {}
        self._read = object_reader(dict(columns))
        fields = {name.upper(): name for name in self._messages.field_names}
        known = set(fields.values())
        self._fields = [name if name in known else fields.get(name.upper(), name) for name in self._names]

    def encode(self, row: Any, /) -> bytes:
        """Encode a row."""
        data = self._messages.encode(dict(zip(self._fields, self._items(row), strict=True)))
        if self._where is None:
            return data
        return add_schema_id(self._where.registered(self._schema), message_path(self._messages.index) + data)

    def decode(self, data: bytes, /) -> Any:
        """Decode a row as its writer's schema describes it."""
        if self._where is None:
            return self._row(self._read(self._messages.decode(data)))
        id, payload = split_schema_id(data)
        index, payload = message_index(payload)
        return self._row(self._read(self._writer(id, index).decode(bytes(payload))))

    def _writer(self, id: int, index: int) -> Messages:
        if (id, index) not in self._writers:
            assert self._where is not None
            registry = self._where.registry
            schema = registry.schema(id)
            imports = registry.referenced(schema)
            file = Messages(schema.schema, None, imports).file
            if index >= len(file.messages):
                raise SerdeError(f"schema {id} has no message with the number {index}")
            prefix = f"{file.package}." if file.package else ""
            self._writers[id, index] = Messages(schema.schema, prefix + file.messages[index].name, imports)
        return self._writers[id, index]
