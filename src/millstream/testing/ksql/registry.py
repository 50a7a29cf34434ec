"""A schema registry in memory, with the schemas that a case expects to exist."""

from __future__ import annotations

import json
from typing import Any

from millstream.schemas.registry import Reference, Schema, SchemaRegistry
from millstream.sql.catalog import REGISTRY_FORMATS, Columns, Format
from millstream.sql.rows.schemas import type_of_schema

_TYPES = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON_SR": "JSON"}
_REFERENCES = 1_000_000
"""Ids from here on belong to schemas that others refer to; cases do not name them."""


class MemoryRegistry(SchemaRegistry):
    """Keeps schemas by id and subject; nothing is sent anywhere."""

    def __init__(self) -> None:
        super().__init__("http://localhost")
        self._by_id: dict[int, Schema] = {}
        self._by_subject: dict[str, list[int]] = {}

    def schema(self, id: int) -> Schema:
        if id not in self._by_id:
            return super()._fetch(id)
        return self._by_id[id]

    def version(self, subject: str, version: int | None = None) -> tuple[int, Schema] | None:
        ids = self._by_subject.get(subject, [])
        if not ids or (version is not None and version > len(ids)):
            return None
        id = ids[-1 if version is None else version - 1]
        return id, self._by_id[id]

    def register(self, subject: str, schema: Schema, references: Any = ()) -> int:
        del references
        return self.add(subject, schema, None)

    def add(self, subject: str, schema: Schema, id: int | None) -> int:
        """Add a schema, under an id if a case gives one."""
        same = next((known for known, other in self._by_id.items() if other == schema), None)
        number = (
            id
            if id is not None
            else same
            if same is not None
            else max((id for id in self._by_id if id < _REFERENCES), default=0) + 1
        )
        self._by_id[number] = schema
        ids = self._by_subject.setdefault(subject, [])
        if number not in ids:
            ids.append(number)
        return number

    def id_of_reference(self, schema: Schema) -> int:
        """Return an id that no case uses."""
        known = next((id for id, other in self._by_id.items() if other == schema), None)
        return known if known is not None else _REFERENCES + len(self._by_id)

    def _request(self, method: str, path: str, _body: Any, what: str) -> bytes:
        raise self.missing(f"{what} ({method} {path})")


class TopicSchema:
    """The schema of the key or value of a topic that a case defines: how its records are written."""

    def __init__(self, registry: MemoryRegistry, topic: dict[str, Any], part: str) -> None:
        name, format = topic["name"], _format(topic, part)
        schema = topic[f"{part}Schema"]
        text = schema if format.startswith("PROTOBUF") else json.dumps(schema, default=str)
        references = []
        for each in topic.get(f"{part}SchemaReferences") or ():
            inner = each["schema"]
            inner_text = inner if isinstance(inner, str) else json.dumps(inner)
            references.append((Reference(each["name"], each["name"], 1), Schema(inner_text, _TYPES[each["format"]])))
        stored = Schema(text, _TYPES[format], tuple(reference for reference, _ in references))
        self.id = registry.add(f"{name}-{part}", stored, topic.get(f"{part}SchemaId"))
        for reference, inner_schema in references:
            registry.add(reference.subject, inner_schema, registry.id_of_reference(inner_schema))
        self.type = type_of_schema(format, text, None, registry.referenced(stored))
        self.format = format

    def parts(self, full_name: str | None, registry: MemoryRegistry, *, is_key: bool) -> tuple[Format, Columns]:
        """Return the format and columns with which records of the topic are written."""
        schema = registry.schema(self.id)
        type = type_of_schema(self.format, schema.schema, full_name, registry.referenced(schema))
        assert type is not None
        is_wrapped = type.kind == "STRUCT" and not (is_key and self.format != "PROTOBUF")
        columns = type.fields if is_wrapped else {"ROWVAL": type}
        return Format(self.format, ",", is_wrapped, self.id, full_name), columns


def _format(topic: dict[str, Any], part: str) -> str:
    name = str(topic.get(f"{part}Format") or "AVRO").upper()
    return "JSON_SR" if name == "JSON" else name


def schemas_of(registry: MemoryRegistry, topics: list[Any]) -> dict[tuple[str, str], TopicSchema]:
    """Register the schemas of the topics of a case; return them by topic and part."""
    return {
        (topic["name"], part): TopicSchema(registry, topic, part)
        for topic in topics
        if isinstance(topic, dict)
        for part in ("key", "value")
        if topic.get(f"{part}Schema") is not None and _format(topic, part) in REGISTRY_FORMATS
    }
