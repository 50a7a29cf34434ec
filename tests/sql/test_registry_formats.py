"""AVRO, PROTOBUF and JSON_SR: rows with schemas of a registry, over its real REST API."""

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.schemas.registry import Registry
from tests.sql.test_formats import NESTED, VALUES, rows_of

from millstream import App
from millstream.errors import SerdeError, SqlError
from millstream.schemas.messages import Messages
from millstream.schemas.registry import Schema, SchemaRegistry
from millstream.sql.catalog import Format
from millstream.sql.compiled import parse_type
from millstream.sql.registries import RegistryAddress
from millstream.sql.rows.schemas import (
    avro_record,
    from_avro,
    from_json_schema,
    from_proto,
    json_schema,
    proto_text,
)
from millstream.sql.types import struct_of
from millstream.testing import TestDriver

FORMATS = ("AVRO", "PROTOBUF", "JSON_SR")
TYPES = [*VALUES, *NESTED]
COLUMNS = {f"C{number}": parse_type(name) for number, name in enumerate(TYPES)}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry() as server:
        yield server


def client(registry: Registry) -> SchemaRegistry:
    return SchemaRegistry(registry.url)


@settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_read_as_they_were_written(registry: Registry, format: str, data: Any) -> None:
    drawn = data.draw(rows_of(VALUES | NESTED))
    row = {column: drawn[name] for column, name in zip(COLUMNS, TYPES, strict=True)}
    if format == "PROTOBUF":  # it keeps null in messages only
        row = {name: row[name] for name in row if COLUMNS[name].kind in ("DATE", "TIME", "TIMESTAMP", "DECIMAL")}
    columns = {name: COLUMNS[name] for name in row}
    serde = Format(format).serde(columns, is_key=False, registry=RegistryAddress(registry.url), topic=f"{format}-laws")
    assert serde.decode(serde.encode(row)) == row


def test_protobuf_has_defaults_for_null_unless_it_is_told_to_keep_it() -> None:
    columns = {name: parse_type(name) for name in ("INTEGER", "STRING", "BOOLEAN", "BYTES")}
    nothing = dict.fromkeys(columns)
    plain = Format("PROTOBUF_NOSR").serde(columns, is_key=False)
    assert plain.decode(plain.encode(nothing)) == {"INTEGER": 0, "STRING": "", "BOOLEAN": False, "BYTES": b""}
    for nullable in ("OPTIONAL", "WRAPPER"):
        serde = Format("PROTOBUF_NOSR", nullable=nullable).serde(columns, is_key=False)
        assert serde.decode(serde.encode(nothing)) == nothing
        assert serde.decode(serde.encode(nothing | {"INTEGER": 0})) == nothing | {"INTEGER": 0}


def test_a_schema_made_of_columns_has_the_columns() -> None:
    assert from_avro(avro_record(COLUMNS, "shop.Order")) == struct_of(COLUMNS)
    assert from_proto(proto_text(COLUMNS, "shop.Order")) == struct_of(COLUMNS)
    assert from_json_schema(json_schema(struct_of(COLUMNS))) == struct_of(COLUMNS)


SOURCE = "CREATE STREAM s (id INT KEY, name STRING, at TIMESTAMP) WITH (KAFKA_TOPIC='s-{0}', FORMAT='{0}');"


@pytest.mark.parametrize("format", FORMATS)
def test_a_result_registers_its_schema_under_the_subjects_of_its_topic(registry: Registry, format: str) -> None:
    topic = f"out-{format}"
    app = App("formats")
    app.sql(f"SET 'ksql.schema.registry.url' = '{registry.url}';" + SOURCE.format(format))
    app.sql(f"CREATE STREAM o WITH (KAFKA_TOPIC='{topic}') AS SELECT id, UCASE(name) AS name, at FROM s;")
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=dt.UTC)
    with TestDriver(app) as driver:
        driver.topic(f"s-{format}").pipe({"NAME": "ann", "AT": moment}, key=7)
        [raw] = driver.topic(topic).read_raw()
        assert raw.value[0] == 0
        reader = App("reader")
        reader.sql(f"SET 'ksql.schema.registry.url' = '{registry.url}';")
        reader.sql(
            f"CREATE STREAM i WITH (KAFKA_TOPIC='{topic}', FORMAT='{format}'); CREATE STREAM x AS SELECT * FROM i;"
        )
        with TestDriver(reader) as second:  # its columns are those of the registry
            second.topic(topic).pipe_raw(raw.value, key=raw.key)
            [(key, value)] = second.topic("X").read_key_values()
    assert (key, value) == (7, {"NAME": "ANN", "AT": moment})
    assert {f"{topic}-key", f"{topic}-value"} <= set(registry.subjects)


def test_columns_of_a_registered_schema_match_in_any_case_and_keep_theirs_by_id(registry: Registry) -> None:
    avro = {
        "type": "record",
        "name": "Ride",
        "fields": [{"name": "zone", "type": "string"}, {"name": "km", "type": "float"}],
    }
    number = client(registry).register("rides-value", Schema(json.dumps(avro)))
    app = App("rides")
    app.sql(
        f"SET 'ksql.schema.registry.url' = '{registry.url}';"
        "CREATE STREAM rides (id INT KEY) WITH (KAFKA_TOPIC='rides', VALUE_FORMAT='AVRO');"
        "CREATE STREAM lower (id INT KEY) WITH (KAFKA_TOPIC='l', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=%d);"
        "CREATE STREAM far AS SELECT id, zone FROM rides WHERE km > 1.0;"
        "CREATE STREAM same WITH (VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=%d) AS SELECT id, `zone`, `km` FROM lower;"
        % (number, number)
    )
    with TestDriver(app) as driver:
        driver.topic("rides").pipe({"ZONE": "Mitte", "KM": 1.5}, {"ZONE": "Moabit", "KM": 0.5}, key=1)
        assert driver.topic("FAR").read_values() == [{"ZONE": "Mitte"}]
        driver.topic("l").pipe({"zone": "Mitte", "km": 2.5}, key=1)
        [raw] = driver.topic("SAME").read_raw()
        assert raw.value[:5] == b"\0" + number.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE STREAM s (`1a` INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');", "cannot have a column 1a"),
        ("CREATE STREAM s (a MAP<INT, INT>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON_SR');", "cannot contain A MAP"),
        ("CREATE STREAM s WITH (KAFKA_TOPIC='nothing', VALUE_FORMAT='AVRO');", "no schema for the value of 'nothing'"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=1);", "remove one"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', VALUE_SCHEMA_ID=1);", "has no schema"),
    ],
)
def test_what_a_format_cannot_do_is_refused(registry: Registry, statement: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        App("bad").sql(f"SET 'ksql.schema.registry.url' = '{registry.url}';" + statement)


def test_without_a_registry_its_formats_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLSTREAM_SCHEMA_REGISTRY", raising=False)
    with pytest.raises(SqlError, match="format AVRO needs a schema registry"):
        App("none").sql(SOURCE.format("AVRO"))


def test_messages_have_nested_types_enums_and_imports() -> None:
    messages = Messages(
        """
        syntax = "proto3";  // a comment
        package shop;
        import "parts.proto";
        message Other { int32 a = 1; }
        message Order {
            enum State { NEW = 0; SENT = 1; }
            message Line { string item = 1; repeated int64 counts = 2 [packed = true]; }
            State state = 1;
            repeated Line lines = 2;
            map<string, Line> by_name = 3;
            oneof extra { string note = 4; Part part = 5; }
            reserved 9;
        }
        """,
        "shop.Order",
        {"parts.proto": "package shop; message Part { bytes data = 1; }"},
    )
    row = {
        "state": "SENT",
        "lines": [{"item": "a", "counts": [1, 2]}],
        "by_name": {"x": {"item": "b", "counts": []}},
        "note": None,
        "part": {"data": b"\1"},
    }
    assert messages.index == 1
    assert messages.decode(messages.encode(row)) == row
    with pytest.raises(SerdeError, match="do not match the Protobuf schema"):
        messages.decode(b"\xff\xff")


@pytest.mark.parametrize("text", ["message A {", "message A { int32 a 1; }", "message A { B b = 1; }", "nothing"])
def test_wrong_protobuf_schemas_are_refused(text: str) -> None:
    with pytest.raises(SerdeError):
        Messages(text)


def test_decimals_keep_their_scale_in_protobuf() -> None:
    serde = Format("PROTOBUF_NOSR").serde({"D": parse_type("DECIMAL(9, 3)")}, is_key=False)
    for number in ("0.000", "-12.340", "99999.999"):
        assert str(serde.decode(serde.encode({"D": Decimal(number)}))["D"]) == number
