"""Protobuf with a schema registry."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.schemas.registry import Registry

from millstream.errors import DefinitionError, SerdeError
from millstream.schemas import Protobuf, SchemaRegistry


def message(fields: dict[str, int], name: str = "Ride", before: int = 0) -> Any:
    """Return a generated class with integer fields, after ``before`` other messages in its file."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="taxi", syntax="proto3")
    for number in range(before):
        file.message_type.add(name=f"Other{number}")
    declared = file.message_type.add(name=name)
    for field, number in fields.items():
        kinds = descriptor_pb2.FieldDescriptorProto
        declared.field.add(name=field, number=number, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"taxi.{name}"))


OLD = message({"zone": 1})
NEW = message({"zone": 1, "tip": 2})


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


def test_bytes_equal_those_of_confluents_serializer(registry: Registry) -> None:
    serde = Protobuf(OLD, SchemaRegistry(registry.url))
    assert serde.encode(OLD(zone=7)) == bytes([0, 0, 0, 0, 1, 0, 8, 7])
    assert serde.decode(bytes([0, 0, 0, 0, 1, 0, 8, 7])) == OLD(zone=7)
    assert registry.subjects == {"taxi.Ride": [1]}
    assert registry.schemas[0]["schemaType"] == "PROTOBUF"


def test_a_message_is_identified_by_its_index_in_the_file(registry: Registry) -> None:
    later = message({"zone": 1}, "Later", before=70)
    serde = Protobuf(later, SchemaRegistry(registry.url))
    data = serde.encode(later(zone=7))
    assert data[5:] == bytes([2, 0x8C, 0x01, 8, 7])  # one index, which is 70
    assert serde.decode(data) == later(zone=7)


def test_a_new_field_is_read_by_old_and_new_programs(registry: Registry) -> None:
    old, new = Protobuf(OLD, SchemaRegistry(registry.url)), Protobuf(NEW, SchemaRegistry(registry.url))
    assert new.decode(old.encode(OLD(zone=1))) == NEW(zone=1, tip=0)
    assert old.decode(new.encode(NEW(zone=1, tip=5))).zone == 1


def test_invalid_messages_are_refused(registry: Registry) -> None:
    with pytest.raises(DefinitionError, match="generated"):
        Protobuf(int, SchemaRegistry(registry.url))
    serde = Protobuf(OLD, SchemaRegistry(registry.url))
    with pytest.raises(TypeError, match="not a Ride"):
        serde.encode({"zone": 1})
    for data in (b"{}", bytes([0, 0, 0, 0, 1, 0, 8]), bytes([0, 0, 0, 0, 1]), bytes([0, 0, 0, 0, 1, 0x80])):
        with pytest.raises(SerdeError):
            serde.decode(data)


def test_a_registry_can_be_pickled(registry: Registry) -> None:
    copy = pickle.loads(pickle.dumps(SchemaRegistry(registry.url)))
    assert copy.url == registry.url


@pytest.mark.parametrize("path", [b"\xff" * 1_000_000, b"\xce\x01" + b"\x02" * 103], ids=["number", "indexes"])
def test_the_path_of_a_message_is_bounded(registry: Registry, path: bytes) -> None:
    serde = Protobuf(OLD, SchemaRegistry(registry.url))
    with pytest.raises(SerdeError, match="the path of the message has"):
        serde.decode(bytes([0, 0, 0, 0, 1]) + path)
