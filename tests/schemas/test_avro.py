"""Avro with a schema registry: writing, reading and schema changes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from tests.schemas.registry import Registry

from millstream import App
from millstream.errors import DefinitionError, SerdeError
from millstream.schemas import Avro, SchemaRegistry
from millstream.testing import TestDriver

RIDE: dict[str, Any] = {
    "type": "record",
    "name": "Ride",
    "namespace": "taxi",
    "fields": [{"name": "zone", "type": "int"}, {"name": "amount", "type": "double"}],
}
NEWER = {**RIDE, "fields": [*RIDE["fields"], {"name": "tip", "type": "double", "default": 0.5}]}
BROKEN = {**RIDE, "fields": [*RIDE["fields"], {"name": "tip", "type": "double"}]}


class Ride(msgspec.Struct):
    zone: int
    amount: float


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


def test_bytes_equal_those_of_confluents_serializer(registry: Registry) -> None:
    serde = Avro(RIDE, SchemaRegistry(registry.url))
    data = serde.encode({"zone": 7, "amount": 1.5})
    assert data == bytes([0, 0, 0, 0, 1, 14]) + b"\0\0\0\0\0\0\xf8\x3f"
    assert serde.decode(data) == {"zone": 7, "amount": 1.5}
    assert registry.subjects == {"taxi.Ride": [1]}


def test_a_schema_is_requested_once(registry: Registry) -> None:
    writer, reader = Avro(RIDE, SchemaRegistry(registry.url)), Avro(RIDE, SchemaRegistry(registry.url))
    for zone in range(20):
        assert reader.decode(writer.encode({"zone": zone, "amount": 0.0}))["zone"] == zone
    assert registry.requests == ["POST /subjects/taxi.Ride/versions", "GET /schemas/ids/1"]


def test_a_new_field_with_a_default_is_read_by_old_and_new_programs(registry: Registry) -> None:
    old, new = Avro(RIDE, SchemaRegistry(registry.url)), Avro(NEWER, SchemaRegistry(registry.url))
    from_old = old.encode({"zone": 1, "amount": 2.0})
    from_new = new.encode({"zone": 1, "amount": 2.0, "tip": 3.0})
    assert new.decode(from_old) == {"zone": 1, "amount": 2.0, "tip": 0.5}
    assert old.decode(from_new) == {"zone": 1, "amount": 2.0}


def test_a_change_that_breaks_readers_is_refused(registry: Registry) -> None:
    Avro(RIDE, SchemaRegistry(registry.url)).encode({"zone": 1, "amount": 2.0})
    with pytest.raises(SerdeError, match="not compatible"):
        Avro(BROKEN, SchemaRegistry(registry.url)).encode({"zone": 1, "amount": 2.0, "tip": 1.0})


def test_values_can_be_objects(registry: Registry) -> None:
    serde = Avro(RIDE, SchemaRegistry(registry.url), subject="rides-value", type=Ride)
    assert serde.decode(serde.encode(Ride(1, 2.0))) == Ride(1, 2.0)
    assert registry.subjects == {"rides-value": [1]}


def test_a_serde_can_be_pickled(registry: Registry) -> None:
    serde = Avro(RIDE, SchemaRegistry(registry.url), type=Ride)
    copy = pickle.loads(pickle.dumps(serde))
    assert copy.decode(serde.encode(Ride(1, 2.0))) == Ride(1, 2.0)


def test_a_topology_reads_and_writes_avro(registry: Registry) -> None:
    rides = Avro(RIDE, SchemaRegistry(registry.url), type=Ride)
    app = App("avro")
    app.stream("rides", value=rides).filter(lambda ride: ride.amount > 1).to("dear", value=rides)
    with TestDriver(app) as driver:
        driver.topic("rides").pipe(Ride(1, 2.0), Ride(2, 0.5))
        assert [value for _, value in driver.topic("dear").read_key_values()] == [Ride(1, 2.0)]


@pytest.mark.parametrize("data", [b"", b"{}", b"\0\0\0", b"\1\0\0\0\1xx", b"\0\0\0\0\x09x"])
def test_invalid_bytes_raise_an_error(registry: Registry, data: bytes) -> None:
    serde = Avro(RIDE, SchemaRegistry(registry.url))
    serde.encode({"zone": 1, "amount": 1.0})
    with pytest.raises(SerdeError):
        serde.decode(data)


def test_truncated_or_oversized_values_raise_an_error(registry: Registry) -> None:
    text = {"type": "record", "name": "Note", "fields": [{"name": "text", "type": "string"}]}
    serde = Avro(text, SchemaRegistry(registry.url))
    encoded = serde.encode({"text": "hello"})
    for data in (encoded[:-2], encoded[:5] + b"\xfe\xff\xff\xff\x0f" + b"x"):  # the second claims 2 GiB
        with pytest.raises((SerdeError, ValueError, EOFError)):
            serde.decode(data)


def test_invalid_schemas_are_refused(registry: Registry) -> None:
    for schema in ("{", '{"type": "record", "name": "X"}', {"type": "nonsense", "name": "X"}):
        with pytest.raises(DefinitionError, match="schema"):
            Avro(schema, SchemaRegistry(registry.url))


LIST = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "number", "type": "int"}, {"name": "next", "type": ["null", "Node"], "default": None}],
}


def test_a_recursive_value_is_read_up_to_a_depth(registry: Registry) -> None:
    serde = Avro(LIST, SchemaRegistry(registry.url))
    value: Any = None
    for number in range(60):
        value = {"number": number, "next": value}
    assert serde.decode(serde.encode(value)) == value
    with pytest.raises(SerdeError, match="nested more than 64 levels deep"):
        serde.decode(bytes([0, 0, 0, 0, 1]) + b"\x02" * 100_000)


@pytest.mark.parametrize(
    "items",
    ["null", {"type": "fixed", "name": "Nothing", "size": 0}, {"type": "record", "name": "Empty", "fields": []}],
)
def test_items_without_a_size_are_bounded_by_the_bytes(registry: Registry, items: Any) -> None:
    schema = {"type": "record", "name": "Many", "fields": [{"name": "all", "type": {"type": "array", "items": items}}]}
    serde = Avro(schema, SchemaRegistry(registry.url))
    empty = serde.encode({"all": []})
    assert serde.decode(empty) == {"all": []}
    for block in (b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\x0f\x00"):  # 2**31 items, without and with a size
        with pytest.raises(SerdeError, match="more items than there are bytes"):
            serde.decode(empty[:5] + block + b"\x00")


def test_a_recursive_schema_with_all_types_is_read_as_written(registry: Registry) -> None:
    fields: list[dict[str, Any]] = [
        {"name": "next", "type": ["null", "everything.All"]},
        {"name": "map", "type": {"type": "map", "values": ["null", "double", "All"]}},
        {"name": "list", "type": {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "plain", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "day", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        *({"name": f"_{kind}", "type": kind} for kind in ("boolean", "float", "long", "string", "bytes", "null")),
    ]
    schema = {"type": "record", "name": "All", "namespace": "everything", "fields": fields}
    inner: dict[str, Any] = {
        "next": None,
        "map": {"a": None, "b": 0.5},
        "list": ["A", "B"],
        "fixed": b"xy",
        "plain": Decimal("1.25"),
        "day": datetime(2026, 1, 2, tzinfo=UTC),
        "_boolean": True,
        "_float": 0.5,
        "_long": -5,
        "_string": "é",
        "_bytes": b"z",
        "_null": None,
    }
    serde = Avro(schema, SchemaRegistry(registry.url))
    value = {**inner, "next": inner, "map": {"c": inner}}
    data = serde.encode(value)
    assert serde.decode(data) == value
    for end in range(5, len(data)):
        with pytest.raises(SerdeError):
            serde.decode(data[:end])


def test_a_schema_that_does_not_exist_is_requested_once(registry: Registry) -> None:
    serde = Avro(RIDE, SchemaRegistry(registry.url))
    for _ in range(5):
        with pytest.raises(SerdeError, match="does not have the schema with id 77"):
            serde.decode(bytes([0, 0, 0, 0, 77, 14]))
    assert registry.requests == ["GET /schemas/ids/77"]
