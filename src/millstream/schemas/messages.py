"""Protobuf messages from a schema, without a generated class: messages to dicts and back.

A dict has the names of the fields; well-known types are dates, times, datetimes, decimals and the values of wrappers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from millstream.errors import DefinitionError, SerdeError
from millstream.schemas.proto_text import ProtoFile, ProtoMessage, parse_proto

WELL_KNOWN = {
    "google/type/date.proto": "package google.type; message Date {int32 year = 1; int32 month = 2; int32 day = 3;}",
    "google/type/timeofday.proto": (
        "package google.type;"
        "message TimeOfDay {int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4;}"
    ),
    "confluent/type/decimal.proto": (
        "package confluent.type; message Decimal {bytes value = 1; uint32 precision = 2; int32 scale = 3;}"
    ),
    "confluent/meta.proto": "package confluent;",
    "google/protobuf/timestamp.proto": (
        "package google.protobuf; message Timestamp {int64 seconds = 1; int32 nanos = 2;}"
    ),
    "google/protobuf/wrappers.proto": "package google.protobuf;"
    + "".join(
        f"message {name}Value {{{kind} value = 1;}}"
        for name, kind in [
            *(("Double", "double"), ("Float", "float"), ("Int64", "int64"), ("UInt64", "uint64"), ("Int32", "int32")),
            *(("UInt32", "uint32"), ("Bool", "bool"), ("String", "string"), ("Bytes", "bytes")),
        ]
    ),
}
_SCALARS = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "", "", "bytes",
    "uint32", "", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
"""The names of scalar types at their numbers in descriptors."""
_MESSAGE, _ENUM = 11, 14
_DEFAULTS: dict[int, Any] = {_SCALARS.index("string"): "", _SCALARS.index("bytes"): b""}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Messages:
    """The messages of one .proto file; ``message`` is the full name of the one that is encoded, else the first."""

    def __init__(self, text: str, message: str | None = None, imports: Mapping[str, str] | None = None) -> None:
        pool, file = _import_protobuf(), parse_proto(text)
        self._pool = pool.DescriptorPool()
        known = {**WELL_KNOWN, **(imports or {})}
        self._add("schema.proto", file, known, set())
        prefix = f"{file.package}." if file.package else ""
        names = [prefix + each.name for each in file.messages]
        if not names:
            raise SerdeError("the Protobuf schema has no message", hint="check the schema in the registry")
        name = message or names[0]
        if name not in names and prefix + name in names:
            name = prefix + name
        if name not in names:
            raise DefinitionError(f"the schema has no message {name}", hint=f"it has {', '.join(names)}")
        self.index = names.index(name)
        self.file = file
        descriptor = self._pool.FindMessageTypeByName(name)
        self.field_names = [field.name for field in descriptor.fields]
        self._class = _message_class(descriptor)

    def _add(self, name: str, file: ProtoFile, known: Mapping[str, str], added: set[str]) -> None:
        added.add(name)
        files = [file]
        for each in file.imports:
            if each not in known:
                raise SerdeError(f"the Protobuf schema imports {each!r}, which is not one of its references")
            imported = parse_proto(known[each])
            files.append(imported)
            if each not in added:
                self._add(each, imported, known, added)
        types = {full: kind for each in files for full, kind in _named(each).items()}
        self._pool.Add(_file_descriptor(name, file, types))

    def encode(self, row: Mapping[str, Any]) -> bytes:
        """Return the bytes of a message."""
        message = self._class()
        _fill(message, row)
        data: bytes = message.SerializeToString()
        return data

    def decode(self, data: bytes) -> dict[str, Any]:
        """Return a message as a dict."""
        try:
            message = self._class.FromString(data)
        except Exception as error:  # the error of the library is only known where it is installed
            raise SerdeError(f"the bytes do not match the Protobuf schema: {error}") from error
        return _as_dict(message)


def _named(file: ProtoFile) -> dict[str, int]:
    """Return the full names of messages and enums with the number of their kind."""
    names: dict[str, int] = {}

    def add(prefix: str, messages: list[ProtoMessage], enums: Mapping[str, Any]) -> None:
        names.update((f"{prefix}{name}", _ENUM) for name in enums)
        for message in messages:
            names[f"{prefix}{message.name}"] = _MESSAGE
            add(f"{prefix}{message.name}.", message.messages, message.enums)

    add(f"{file.package}." if file.package else "", file.messages, file.enums)
    return names


def _file_descriptor(name: str, file: ProtoFile, types: Mapping[str, int]) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    proto = FileDescriptorProto(name=name, package=file.package, syntax="proto3", dependency=file.imports)
    _add_enums(proto, file.enums)
    for message in file.messages:
        _add_message(proto.message_type.add(), message, file.package, types)
    return proto


def _add_enums(proto: Any, enums: Mapping[str, Mapping[str, int]]) -> None:
    for name, values in enums.items():
        enum = proto.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)


def _add_message(proto: Any, message: ProtoMessage, scope: str, types: Mapping[str, int]) -> None:
    proto.name = message.name
    scope = f"{scope}.{message.name}" if scope else message.name
    _add_enums(proto, message.enums)
    for inner in message.messages:
        _add_message(proto.nested_type.add(), inner, scope, types)
    for field in message.fields:
        if field.key is None:
            added = _add_field(proto, field.name, field.number, field.type, scope, types)
        else:
            entry = proto.nested_type.add(name="".join(part.capitalize() for part in field.name.split("_")) + "Entry")
            entry.options.map_entry = True
            _add_field(entry, "key", 1, field.key, scope, types)
            _add_field(entry, "value", 2, field.type, scope, types)
            added = proto.field.add(name=field.name, number=field.number, type=_MESSAGE)
            added.type_name = f".{scope}.{entry.name}"
        added.label = 3 if field.label == "repeated" or field.key is not None else 1
        if field.label == "optional":
            added.proto3_optional = True
            added.oneof_index = len(proto.oneof_decl)
            proto.oneof_decl.add(name=f"_{field.name}")


def _add_field(proto: Any, name: str, number: int, type: str, scope: str, types: Mapping[str, int]) -> Any:
    if type in _SCALARS:
        return proto.field.add(name=name, number=number, type=_SCALARS.index(type), label=1)
    parts = scope.split(".") if scope else []
    for count in range(len(parts), -1, -1):
        full = ".".join([*parts[:count], type])
        if full in types:
            return proto.field.add(name=name, number=number, type=types[full], type_name=f".{full}", label=1)
    raise SerdeError(f"the Protobuf schema uses {type}, which it does not define", hint="check its imports")


# Messages and dicts


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _fill(message: Any, row: Mapping[str, Any]) -> None:
    for field in message.DESCRIPTOR.fields:
        value = row.get(field.name)
        if value is None:
            continue
        if _is_map(field) or field.is_repeated:
            _fill_several(getattr(message, field.name), field, value)
        elif field.message_type is not None:
            target = getattr(message, field.name)
            target.SetInParent()
            _fill_one(target, value)
        else:
            setattr(message, field.name, _scalar(field, value))


def _fill_several(target: Any, field: Any, value: Any) -> None:
    """Set a map or a list; it cannot contain null, which becomes the default in a list."""
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        for key, item in value.items():
            if item is not None and inner.message_type is not None:
                _fill_one(target[key], item)
            elif item is not None:
                target[key] = _scalar(inner, item)
        return
    for item in value:
        if field.message_type is not None:
            _fill_one(target.add(), item)
        else:
            target.append(_DEFAULTS.get(field.type, 0) if item is None else _scalar(field, item))


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return value


def _fill_one(message: Any, value: Any) -> None:
    """Set a message from a dict, or from the value that a well-known type stands for."""
    name = message.DESCRIPTOR.full_name
    if isinstance(value, Mapping):
        _fill(message, value)
    elif value is None:
        return
    elif name == "google.protobuf.Timestamp":
        since = value - _EPOCH
        message.seconds = since.days * 86_400 + since.seconds
        message.nanos = since.microseconds * 1000
    elif name == "google.type.Date":
        message.year, message.month, message.day = value.year, value.month, value.day
    elif name == "google.type.TimeOfDay":
        message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
        message.nanos = value.microsecond * 1000
    elif name == "confluent.type.Decimal":
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        message.value = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
        message.precision, message.scale = max(len(digits), -exponent), -exponent
    else:
        message.value = value


def _as_dict(message: Any) -> dict[str, Any]:
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return {key: _decoded(inner, item) for key, item in value.items()}
    if field.is_repeated:
        return [_decoded(field, item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _decoded(field, value)


def _decoded(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name == "google.type.Date":
        return dt.date(value.year, value.month, value.day)
    if name == "google.type.TimeOfDay":
        return dt.time(value.hours, value.minutes, value.seconds, value.nanos // 1000)
    if name == "confluent.type.Decimal":
        return Decimal(int.from_bytes(value.value, "big", signed=True)).scaleb(-value.scale)
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return value.value
    return _as_dict(value)


def _import_protobuf() -> Any:
    try:
        from google.protobuf import descriptor_pool
    except ImportError as error:
        raise DefinitionError("Protobuf needs protobuf", hint="run: pip install 'millstream[protobuf]'") from error
    return descriptor_pool


def _message_class(descriptor: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)
