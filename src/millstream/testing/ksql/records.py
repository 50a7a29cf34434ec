"""Records of cases: from JSON to the bytes of a topic, and comparison of the bytes of a topic with JSON."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from typing import Any, NamedTuple

from millstream.records import Headers
from millstream.schemas.avro import Avro
from millstream.serdes import Serde
from millstream.sql.catalog import REGISTRY_FORMATS, Columns, Format, Relation
from millstream.sql.rows.formats import JsonRows
from millstream.sql.rows.plain import from_plain, object_reader
from millstream.sql.types import Type

_TOLERANCE = 1e-6
WITH_SCHEMA = ("PROTOBUF_NOSR", *REGISTRY_FORMATS)


class Raw(NamedTuple):
    """A record of a topic as bytes."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


def dumped(value: Any) -> str:
    """Return JSON text; decimals keep their digits."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{dumped(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(dumped, value))}]"
    return json.dumps(value)


def encoded(value: Any, format: Format, columns: Columns) -> bytes | None:
    """Return the bytes of a key or value that a case contains."""
    if value is None:
        return None
    if format.name == "DELIMITED":
        return (value if isinstance(value, str) else dumped(value)).encode()
    if format.name == "KAFKA" and columns:
        [type] = columns.values()
        if isinstance(value, dict):
            value = next(iter(value.values()))
        return format.serde(columns, is_key=True).encode(_typed(value, type))
    if format.name in ("NONE", "KAFKA"):
        return str(value).encode()
    return dumped(value).encode()


def encoded_by(value: Any, serde: Serde, columns: Columns, *, is_key: bool, is_wrapped: bool) -> bytes | None:
    """Return the bytes of a key or value with a schema."""
    if value is None:
        return None
    if is_wrapped:
        row = object_reader(dict(columns))(value)
        return serde.encode(row if not is_key else next(iter(row.values())) if len(row) == 1 else tuple(row.values()))
    [(name, type)] = columns.items()
    item = from_plain(type)(value)
    return serde.encode(item if is_key else {name: item})


def _typed(value: Any, type: Type) -> Any:
    if type.kind == "BYTES":
        return base64.b64decode(value)
    if type.kind == "DOUBLE":
        return float(value)
    return value if type.kind != "STRING" or isinstance(value, str) else str(value)


class Writer(NamedTuple):
    """How records are written to a topic: the relation, and formats of schemas that exist already."""

    relation: Relation
    key: tuple[Format, Columns]
    value: tuple[Format, Columns]

    def part(self, value: Any, *, is_key: bool) -> bytes | None:
        """Return the bytes of a key or value."""
        format, columns = self.key if is_key else self.value
        if format.name not in WITH_SCHEMA:
            return encoded(value, format, columns)
        relation = self.relation
        serde = format.serde(columns, is_key=is_key, registry=relation.registry, topic=relation.topic)
        is_wrapped = has_fields(format, columns, is_key=is_key)
        return encoded_by(value, serde, columns, is_key=is_key, is_wrapped=is_wrapped)


def has_fields(format: Format, columns: Columns, *, is_key: bool) -> bool:
    """Whether the JSON of a case has an object with the columns, not the only column itself."""
    if format.name.startswith("PROTOBUF") or len(columns) > 1:
        return True
    return (not is_key) if format.is_wrapped is None else format.is_wrapped


def raw_record(record: dict[str, Any], writer: Writer) -> Raw:
    """Return a record of a case as the topic of a relation contains it."""
    key = writer.part(record.get("key"), is_key=True)
    window = record.get("window")
    if window is not None and key is not None:
        times = (window["end"], window["start"]) if window["type"].lower() == "session" else (window["start"],)
        key += b"".join(time.to_bytes(8, "big", signed=True) for time in times)
    value = writer.part(record.get("value"), is_key=False)
    return Raw(key, value, record.get("timestamp", 0), headers_of(record))


def headers_of(record: dict[str, Any]) -> Headers:
    """Return the headers of a record of a case."""
    return tuple(
        (header["KEY"], None if header.get("VALUE") is None else base64.b64decode(header["VALUE"]))
        for header in record.get("headers") or ()
    )


# Comparison


def difference(expected: dict[str, Any], actual: Raw, relation: Relation, *, checks_time: bool) -> str | None:
    """Return how a record differs from what a case expects, None if it does not."""
    key = actual.key
    window = expected.get("window")
    if relation.window is not None and key is not None:
        size = 16 if relation.window.kind == "SESSION" else 8
        times = [int.from_bytes(key[-size:][at : at + 8], "big", signed=True) for at in range(0, size, 8)]
        key = key[:-size]
        if window is not None and times[-1] != window["start"]:
            return f"window starts at {times[-1]}, not at {window['start']}"
        if window is not None and size == 16 and times[0] != window["end"]:
            return f"session ends at {times[0]}, not at {window['end']}"
    elif window is not None:
        return "the key has no window"
    if not _same_part(expected.get("key"), key, relation, is_key=True):
        return f"key is {key!r}, not {expected.get('key')!r}"
    if not _same_part(expected.get("value"), actual.value, relation, is_key=False):
        return f"value is {actual.value!r}, not {expected.get('value')!r}"
    if checks_time and "timestamp" in expected and expected["timestamp"] != actual.timestamp:
        return f"timestamp is {actual.timestamp}, not {expected['timestamp']}"
    if headers_of(expected) != actual.headers:
        return f"headers are {actual.headers!r}"
    return None


def _same_part(expected: Any, actual: bytes | None, relation: Relation, *, is_key: bool) -> bool:
    format, columns = (relation.key_format, relation.keys) if is_key else (relation.value_format, relation.values)
    if expected is None or actual is None:
        return expected is None and (actual is None or format.name == "NONE")
    if format.name == "DELIMITED":
        return bool(actual.decode() == (expected if isinstance(expected, str) else dumped(expected)))
    if format.name == "KAFKA":
        [(name, type)] = columns.items()
        if isinstance(expected, dict):
            expected = expected.get(name)
        decoded = format.serde(columns, is_key=True).decode(actual)
        return same(_typed(expected, type), decoded)
    if format.name == "NONE":
        return False
    if format.name in WITH_SCHEMA:
        serde = format.serde(columns, is_key=is_key, registry=relation.registry, topic=relation.topic)
        decoded = _as_json(serde.decode(actual), format, columns, is_key=is_key)
        are_objects = format.name == "AVRO" and isinstance(expected, dict) and isinstance(decoded, dict)
        if are_objects and len(expected) > len(decoded):  # the schema existed before, and has more fields
            return same(expected, _as_written(actual, relation))
        return same(expected, decoded) or same(_typed_json(expected, decoded, format, columns, is_key=is_key), decoded)
    return same(expected, json.loads(actual, parse_float=Decimal))


def _as_written(data: bytes, relation: Relation) -> Any:
    """Return all fields of an Avro record."""
    assert relation.registry is not None
    registry = relation.registry.client
    schema = registry.schema(int.from_bytes(data[1:5], "big"))
    return Avro(schema.schema, registry, subject=relation.topic, as_written=True).decode(data)


def _as_json(row: Any, format: Format, columns: Columns, *, is_key: bool) -> Any:
    """Return a row as the JSON that a case would have for it."""
    if row is None:
        return None
    if is_key:
        row = dict(zip(columns, [row] if len(columns) == 1 else row, strict=True))
    rows = JsonRows(columns, is_wrapped=has_fields(format, columns, is_key=is_key))
    data: bytes | None = rows.encode(row)
    return None if data is None else json.loads(data, parse_float=Decimal)


def _typed_json(expected: Any, actual: Any, format: Format, columns: Columns, *, is_key: bool) -> Any:
    """Return what a case expects with decimals as numbers, which it may have as text."""
    if not has_fields(format, columns, is_key=is_key):
        [(name, type)] = columns.items()
        row = {name: from_plain(type)(expected)}
    elif isinstance(expected, dict) and isinstance(actual, dict) and len(expected) == len(actual):
        row = object_reader(dict(columns))(expected)
    else:
        return expected
    key = next(iter(row.values())) if len(row) == 1 else tuple(row.values())
    return _as_json(key if is_key else row, format, columns, is_key=is_key)


def same(expected: Any, actual: Any) -> bool:
    """Whether two JSON values are equal: floats within a tolerance, names of fields also in upper case."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and len(expected) == len(actual) and _same_fields(expected, actual)
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(expected) == len(actual)
            and all(same(mine, its) for mine, its in zip(expected, actual, strict=True))
        )
    if _is_number(expected) and _is_number(actual):
        mine, its = float(expected), float(actual)
        return mine == its or math.isclose(mine, its, rel_tol=1e-9, abs_tol=_TOLERANCE)
    return type(expected) is type(actual) and bool(expected == actual)


def _same_fields(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    for name, value in expected.items():
        field = name if name in actual else name.upper()
        if not same(value, actual.get(field)):
            return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
