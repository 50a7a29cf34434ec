"""The catalog: what streams and tables exist, as data."""

from __future__ import annotations

import difflib
from typing import Literal

import msgspec

from millstream.serdes import Serde
from millstream.sql.nodes import Kind
from millstream.sql.problems import Problem
from millstream.sql.registries import RegistryAddress, registry_of
from millstream.sql.rows.formats import DelimitedRows, JsonRows, KafkaRows, NoRows
from millstream.sql.rows.registered import AvroRows, JsonSchemaRows, ProtobufRows, RegisteredSchema
from millstream.sql.types import Type
from millstream.windowed_serdes import SessionWindowed, TimeWindowed

Columns = dict[str, Type]


REGISTRY_FORMATS = ("AVRO", "PROTOBUF", "JSON_SR")
"""The formats whose schemas are in a registry."""


class Format(msgspec.Struct, frozen=True):
    """A format and its options."""

    name: str
    delimiter: str = ","
    is_wrapped: bool | None = None
    """Whether a single column is inside an object; None for the default of the format."""
    schema_id: int | None = None
    """The schema that a registry has already."""
    full_name: str | None = None
    """The name of the record or message of the schema."""
    nullable: str = ""
    """How Protobuf keeps null: OPTIONAL, WRAPPER or not at all."""

    @property
    def is_registered(self) -> bool:
        """Whether its schemas are in a registry."""
        return self.name in REGISTRY_FORMATS

    def serde(
        self, columns: Columns, *, is_key: bool, registry: RegistryAddress | None = None, topic: str = ""
    ) -> Serde:
        """Return the serde of rows with these columns; without a topic that of rows inside an app."""
        if self.name == "NONE" or not columns:
            return NoRows(columns, is_key=is_key) if self.name != "JSON" or is_key else JsonRows(columns)
        if self.name == "DELIMITED":
            return DelimitedRows(columns, is_key=is_key, delimiter=self.delimiter)
        if self.name == "KAFKA":
            return KafkaRows(columns, is_key=is_key)
        default = not (is_key and len(columns) == 1)
        is_wrapped = default if self.is_wrapped is None or len(columns) > 1 else self.is_wrapped
        if self.name == "PROTOBUF_NOSR":
            return ProtobufRows(columns, None, is_key=is_key, nullable=self.nullable)
        if not self.is_registered or registry is None or not topic:
            return JsonRows(columns, is_key=is_key, is_wrapped=is_wrapped)
        subject = f"{topic}-{'key' if is_key else 'value'}"
        where = RegisteredSchema(registry.client, subject, self.schema_id, self.full_name, self.nullable)
        if self.name == "PROTOBUF":
            return ProtobufRows(columns, where, is_key=is_key, nullable=self.nullable)
        rows = AvroRows if self.name == "AVRO" else JsonSchemaRows
        return rows(columns, where, is_key=is_key, is_wrapped=is_wrapped)


class SourceWindow(msgspec.Struct, frozen=True):
    """The windows of the keys of a source."""

    kind: Literal["TUMBLING", "HOPPING", "SESSION"]
    size: int | None = None


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """A stream or table: its topic, columns and formats."""

    name: str
    kind: Kind
    topic: str
    keys: Columns
    values: Columns
    headers: dict[str, str | None] = {}
    """Columns of headers: the name of the header, None for all of them."""
    key_format: Format
    value_format: Format
    window: SourceWindow | None = None
    timestamp: str | None = None
    timestamp_format: str | None = None
    on_invalid: Literal["fail", "skip"] = "skip"
    """What happens to a record without a valid time in the timestamp column."""
    partitions: int | None = None
    history: int | None = None
    """For how many milliseconds old rows of a table are kept, for joins as of a time."""
    is_read_only: bool = False
    registry: RegistryAddress | None = None
    query: str | None = None
    """The statement that writes it, if it is the result of a query."""

    @property
    def key_serde(self) -> Serde:
        inner = self.key_format.serde(self.keys, is_key=True, registry=self.registry, topic=self.topic)
        if self.window is None:
            return inner
        if self.window.kind == "SESSION":
            return SessionWindowed(inner)
        return TimeWindowed(inner, self.window.size)

    @property
    def value_serde(self) -> Serde:
        return self.value_format.serde(self.values, is_key=False, registry=self.registry, topic=self.topic)

    @property
    def schema(self) -> str:
        """The columns as they would be declared."""
        role = "KEY" if self.kind == "STREAM" else "PRIMARY KEY"
        keys = (f"{name} {type} {role}" for name, type in self.keys.items())
        values = (f"{name} {type}" for name, type in self.values.items())
        return ", ".join((*keys, *values))


class Catalog:
    """The streams, tables, types and settings that statements have defined so far."""

    def __init__(self) -> None:
        self.relations: dict[str, Relation] = {}
        self.types: dict[str, Type] = {}
        self.functions: dict[str, str] = {}
        """The declarations of functions of the user, by name."""
        self.settings: dict[str, str] = {}
        self.variables: dict[str, str] = {}

    @property
    def registry(self) -> RegistryAddress | None:
        """The registry that AVRO, PROTOBUF and JSON_SR use."""
        return registry_of(self.settings)

    def find(self, name: str, offset: int) -> Relation:
        """Return a stream or table by name."""
        if name not in self.relations:
            similar = difflib.get_close_matches(name, self.relations, 1)
            if similar:
                hint = f"did you mean {similar[0]}?"
            elif self.relations:
                hint = f"known are {', '.join(self.relations)}"
            else:
                hint = "define it with CREATE STREAM or CREATE TABLE"
            raise Problem(offset, f"stream or table {name} is unknown", hint)
        return self.relations[name]
