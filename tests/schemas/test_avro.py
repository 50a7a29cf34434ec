"""Avro with a schema registry: writing, reading and schema changes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
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
