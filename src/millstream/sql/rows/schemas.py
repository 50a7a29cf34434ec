"""Schemas of columns: Avro, Protobuf and JSON Schema from columns, and columns from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from millstream.schemas.proto_text import ProtoField, ProtoFile, ProtoMessage, parse_proto
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Type,
    array,
    decimal,
    map_of,
    struct_of,
)

AVRO_NAME = "io.confluent.ksql.avro_schemas.KsqlDataSourceSchema"
"""The name of records that ksqlDB gives by default, so that both register the same schema."""
PROTOBUF_NAME = "ConnectDefault1"
Columns = Mapping[str, Type]

# Avro

_AVRO: dict[str, Any] = {
    "BOOLEAN": "boolean", "INTEGER": "int", "BIGINT": "long", "DOUBLE": "double", "STRING": "string", "BYTES": "bytes",
    "DATE": {"type": "int", "logicalType": "date"}, "TIME": {"type": "int", "logicalType": "time-millis"},
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-millis"},
}  # fmt: skip


def avro_record(columns: Columns, name: str = AVRO_NAME) -> dict[str, Any]:
    """Return the Avro schema of rows; each field can be null."""
    namespace, _, short = name.rpartition(".")
    fields = [
        {"name": column, "type": ["null", avro_type(type, f"{short}_{column}")], "default": None}
        for column, type in columns.items()
    ]
    record: dict[str, Any] = {"type": "record", "name": short, "fields": fields}
    return record | ({"namespace": namespace} if namespace else {})


def avro_type(type: Type, name: str) -> Any:
    """Return the Avro schema of a type; ``name`` is that of a record."""
    if type.kind == "DECIMAL":
        return {"type": "bytes", "logicalType": "decimal", "precision": type.precision, "scale": type.scale}
    if type.kind == "ARRAY":
        return {"type": "array", "items": ["null", avro_type(type.items[0], name)]}
    if type.kind == "MAP":
        return {"type": "map", "values": ["null", avro_type(type.items[1], name)]}
    return avro_record(type.fields, name) if type.kind == "STRUCT" else _AVRO[type.kind]


_FROM_AVRO = {
    "boolean": BOOLEAN, "int": INTEGER, "long": BIGINT, "float": DOUBLE, "double": DOUBLE, "string": STRING,
    "bytes": BYTES, "enum": STRING, "fixed": BYTES,
}  # fmt: skip
_LOGICAL = {"date": DATE, "time-millis": TIME, "time-micros": TIME, "timestamp-millis": TIMESTAMP,
            "timestamp-micros": TIMESTAMP}  # fmt: skip


def from_avro(schema: Any, named: dict[str, Any] | None = None) -> Type | None:
    """Return the type that an Avro schema describes, None if SQL has none."""
    named = {} if named is None else named
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        return from_avro(kinds[0], named) if len(kinds) == 1 else None
    if isinstance(schema, str):
        return _FROM_AVRO.get(schema) or (from_avro(named[schema], named) if schema in named else None)
    if "name" in schema:
        named[schema["name"]] = {**schema, "type": "null"}  # a recursive record has no type
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return decimal(int(schema["precision"]), int(schema.get("scale", 0)))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        type: Type | None = _struct({field["name"]: from_avro(field["type"], named) for field in schema["fields"]})
        named[schema["name"]] = schema
    elif kind == "array":
        item = from_avro(schema["items"], named)
        type = None if item is None else _array_or_map(schema["items"], item)
    elif kind == "map":
        value = from_avro(schema["values"], named)
        type = None if value is None else map_of(STRING, value)
    else:
        type = from_avro(kind, named)
    return type


def _array_or_map(items: Any, item: Type) -> Type:
    """Return the type of an array; entries of keys and values, as Connect writes them, are a map."""
    is_map = isinstance(items, dict) and items.get("connect.internal.type") == "MapEntry"
    return map_of(*item.items) if is_map else array(item)


def _struct(fields: Mapping[str, Type | None]) -> Type:
    return struct_of({name: type for name, type in fields.items() if type is not None})


# Protobuf

_PROTO = {
    "BOOLEAN": "bool", "INTEGER": "int32", "BIGINT": "int64", "DOUBLE": "double", "STRING": "string", "BYTES": "bytes",
    "DECIMAL": "confluent.type.Decimal", "DATE": "google.type.Date", "TIME": "google.type.TimeOfDay",
    "TIMESTAMP": "google.protobuf.Timestamp",
}  # fmt: skip
_WRAPPERS = {"bool": "Bool", "int32": "Int32", "int64": "Int64", "double": "Double", "string": "String",
             "bytes": "Bytes"}  # fmt: skip
_IMPORTS = {
    "confluent.type.Decimal": "confluent/type/decimal.proto", "google.type.Date": "google/type/date.proto",
    "google.type.TimeOfDay": "google/type/timeofday.proto",
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
}  # fmt: skip


def proto_text(columns: Columns, name: str = PROTOBUF_NAME, nullable: str = "") -> str:
    """Return the .proto file of rows; ``nullable`` is how null is kept: OPTIONAL, WRAPPER or not at all."""
    package, _, short = name.rpartition(".")
    body, imports = _message(columns, short, nullable)
    lines = ['syntax = "proto3";', *([f"package {package};"] if package else [])]
    return "\n".join([*lines, *(f'import "{path}";' for path in sorted(imports)), body, ""])


def _message(columns: Columns, name: str, nullable: str) -> tuple[str, set[str]]:
    lines, imports = [], set()
    for number, (column, type) in enumerate(columns.items(), 1):
        item = type.items[-1] if type.kind in ("ARRAY", "MAP") else type
        if item.kind == "STRUCT":
            spelled = f"{column.capitalize()}Row"
            inner, inner_imports = _message(item.fields, spelled, nullable)
            lines.append(inner)
            imports |= inner_imports
        else:
            spelled = _PROTO[item.kind]
            imports |= {_IMPORTS[spelled]} if spelled in _IMPORTS else set()
        label = ""
        if type.kind == "MAP":
            spelled = f"map<{_PROTO[type.items[0].kind]}, {spelled}>"
        elif type.kind == "ARRAY":
            label = "repeated "
        elif nullable == "WRAPPER" and spelled in _WRAPPERS:
            spelled = f"google.protobuf.{_WRAPPERS[spelled]}Value"
            imports.add("google/protobuf/wrappers.proto")
        elif nullable == "OPTIONAL" and item.kind in _PROTO:
            label = "optional "
        options = _decimal_options(item) if item.kind == "DECIMAL" else ""
        imports |= {"confluent/meta.proto"} if options else set()
        lines.append(f"{label}{spelled} {column} = {number}{options};")
    return f"message {name} {{\n" + "\n".join(lines) + "\n}", imports


def _decimal_options(type: Type) -> str:
    pairs = (("precision", type.precision), ("scale", type.scale))
    parameters = ", ".join(f'{{ key: "{name}", value: "{number}" }}' for name, number in pairs)
    return f" [(confluent.field_meta) = {{ params: [{parameters}] }}]"


_FROM_PROTO = {
    "bool": BOOLEAN, "int32": INTEGER, "sint32": INTEGER, "sfixed32": INTEGER, "int64": BIGINT, "sint64": BIGINT,
    "sfixed64": BIGINT, "uint32": BIGINT, "fixed32": BIGINT, "uint64": BIGINT, "fixed64": BIGINT, "float": DOUBLE,
    "double": DOUBLE, "string": STRING, "bytes": BYTES, "google.protobuf.Timestamp": TIMESTAMP,
    "google.type.Date": DATE, "google.type.TimeOfDay": TIME, "confluent.type.Decimal": decimal(38, 10),
    **{f"google.protobuf.{name}Value": type for name, type in (
        ("Bool", BOOLEAN), ("Int32", INTEGER), ("Int64", BIGINT), ("UInt32", BIGINT), ("UInt64", BIGINT),
        ("Float", DOUBLE), ("Double", DOUBLE), ("String", STRING), ("Bytes", BYTES))},
}  # fmt: skip


def from_proto(text: str, message: str | None = None, imports: Mapping[str, str] | None = None) -> Type | None:
    """Return the STRUCT that a message describes, by default the first; None if there is no such message."""
    file = parse_proto(text)
    files = [file, *(parse_proto(imported) for imported in (imports or {}).values())]
    known = {full: each for other in files for full, each in _messages(other.messages, other.package)}
    enums = {name for other in files for name in _enums(other)}
    prefix = f"{file.package}." if file.package else ""
    names = [prefix + each.name for each in file.messages]
    name = names[0] if message is None and names else message if message in names else f"{prefix}{message}"
    return _proto_struct(name, known, enums, 0) if name in names else None


def _messages(messages: Iterable[ProtoMessage], scope: str) -> Iterable[tuple[str, ProtoMessage]]:
    for message in messages:
        full = f"{scope}.{message.name}" if scope else message.name
        yield full, message
        yield from _messages(message.messages, full)


def _enums(file: ProtoFile) -> Iterable[str]:
    yield from file.enums
    for _, message in _messages(file.messages, ""):
        yield from message.enums


def _proto_struct(name: str, known: Mapping[str, ProtoMessage], enums: set[str], depth: int) -> Type | None:
    if depth > 10:  # recursive messages have no type
        return None
    return _struct({field.name: _proto_field(field, name, known, enums, depth) for field in known[name].fields})


def _proto_field(
    field: ProtoField, scope: str, known: Mapping[str, ProtoMessage], enums: set[str], depth: int
) -> Type | None:
    type = _FROM_PROTO.get(field.type)
    if type is None and field.type.rpartition(".")[2] in enums:
        type = STRING
    parts = scope.split(".")
    for count in range(len(parts), -1, -1):
        full = ".".join([*parts[:count], field.type])
        if type is None and full in known:
            type = _proto_struct(full, known, enums, depth + 1)
    if type is None:
        return None
    if type.kind == "DECIMAL":
        given = field.parameters
        type = decimal(int(given.get("precision", type.precision)), int(given.get("scale", type.scale)))
    if field.key is not None:
        return map_of(_FROM_PROTO[field.key], type)
    return array(type) if field.label == "repeated" else type


# JSON Schema

_JSON: dict[str, dict[str, Any]] = {
    "BOOLEAN": {"type": "boolean"}, "INTEGER": {"type": "integer", "connect.type": "int32"},
    "BIGINT": {"type": "integer", "connect.type": "int64"}, "DOUBLE": {"type": "number", "connect.type": "float64"},
    "STRING": {"type": "string"}, "BYTES": {"type": "string", "connect.type": "bytes"},
    "DATE": {"type": "integer", "title": "org.apache.kafka.connect.data.Date", "connect.type": "int32"},
    "TIME": {"type": "integer", "title": "org.apache.kafka.connect.data.Time", "connect.type": "int32"},
    "TIMESTAMP": {"type": "integer", "title": "org.apache.kafka.connect.data.Timestamp", "connect.type": "int64"},
}  # fmt: skip
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_TITLES = {"Date": DATE, "Time": TIME, "Timestamp": TIMESTAMP}


def json_schema(type: Type) -> dict[str, Any]:
    """Return the JSON Schema of a type."""
    if type.kind == "STRUCT":
        properties = {
            name: {"connect.index": number, "oneOf": [{"type": "null"}, json_schema(item)]}
            for number, (name, item) in enumerate(type.fields.items())
        }
        return {"type": "object", "properties": properties}
    if type.kind == "DECIMAL":
        parameters = {"scale": str(type.scale), "connect.decimal.precision": str(type.precision)}
        return {"type": "number", "title": _DECIMAL, "connect.type": "bytes", "connect.parameters": parameters}
    if type.kind == "ARRAY":
        return {"type": "array", "items": {"oneOf": [{"type": "null"}, json_schema(type.items[0])]}}
    if type.kind == "MAP":
        values = {"oneOf": [{"type": "null"}, json_schema(type.items[1])]}
        return {"type": "object", "connect.type": "map", "additionalProperties": values}
    return _JSON[type.kind]


def from_json_schema(schema: Any, root: Any = None, depth: int = 0) -> Type | None:
    """Return the type that a JSON Schema describes, None if SQL has none."""
    root = schema if root is None else root
    if depth > 50 or not isinstance(schema, dict):
        return None
    if "$ref" in schema:
        return from_json_schema(_referenced(schema["$ref"], root), root, depth + 1)
    for union in ("oneOf", "anyOf"):
        if union in schema:
            kinds = [each for each in schema[union] if each.get("type") != "null"]
            return from_json_schema(kinds[0], root, depth + 1) if len(kinds) == 1 else None
    return _json_type(schema, root, depth)


def _referenced(path: Any, root: Any) -> Any:
    """Return the part of a schema that a reference such as ``#/definitions/order`` names."""
    target = root
    for part in str(path).lstrip("#/").split("/"):
        target = target.get(part, {}) if isinstance(target, dict) else {}
    return target


def _json_type(schema: dict[str, Any], root: Any, depth: int) -> Type | None:
    kind, title = schema.get("type"), str(schema.get("title", "")).rpartition(".")[2]
    if title in _TITLES:
        return _TITLES[title]
    if title == "Decimal":
        parameters = schema.get("connect.parameters", {})
        return decimal(int(parameters.get("connect.decimal.precision", 38)), int(parameters.get("scale", 0)))
    if kind == "object":
        return _json_object(schema, root, depth)
    if kind == "array":
        item = from_json_schema(schema.get("items"), root, depth + 1)
        return None if item is None else array(item)
    if kind == "integer":
        return INTEGER if schema.get("connect.type") in ("int8", "int16", "int32") else BIGINT
    if kind == "string":
        return BYTES if schema.get("connect.type") == "bytes" else STRING
    return {"boolean": BOOLEAN, "number": DOUBLE}.get(str(kind))


def _json_object(schema: dict[str, Any], root: Any, depth: int) -> Type | None:
    if schema.get("connect.type") == "map" or ("properties" not in schema and "additionalProperties" in schema):
        value = from_json_schema(schema.get("additionalProperties"), root, depth + 1)
        return None if value is None else map_of(STRING, value)
    properties: dict[str, Any] = schema.get("properties", {})
    ordered = sorted(properties.items(), key=lambda pair: pair[1].get("connect.index", 0))
    return _struct({name: from_json_schema(item, root, depth + 1) for name, item in ordered})


def type_of_schema(
    format: str, text: str, message: str | None = None, imports: Mapping[str, str] | None = None
) -> Type | None:
    """Return the type that a schema of a format describes, None if it has none."""
    if format.startswith("PROTOBUF"):
        return from_proto(text, message, imports)
    schema = msgspec.json.decode(text)
    return from_avro(schema) if format == "AVRO" else from_json_schema(schema)
