"""The format "debezium": envelopes as Debezium's JSON converter writes them without schemas."""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from importlib.metadata import version
from typing import Any

import msgspec
import pytest
from tests.connectors.change_data_reading import Reading

from millstream.connectors.postgres_cdc import PostgresCdc
from millstream.errors import DefinitionError

Sql = Callable[[str], list[Any]]
MakeReading = Callable[..., Reading]

_LARGE = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)"


def envelopes(shop: Reading, topic: str, first: int = 0) -> list[Any]:
    """Return key, operation, before and after of records; a tombstone has none of the latter."""
    events: list[Any] = []
    for key, value in shop.records.get(topic, [])[first:]:
        event = None if value is None else msgspec.json.decode(value)
        decoded = msgspec.json.decode(key or b"null")
        events.append((decoded, event and event["op"], event and event["before"], event and event["after"]))
    return events


def test_changes_are_envelopes_with_the_rows_before_and_after(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a')")
    shop = reading("t", format="debezium")
    shop.until(lambda: shop.count("t") == 1)
    sql("INSERT INTO t VALUES (2, NULL); UPDATE t SET v = 'b'")
    sql("DELETE FROM t WHERE id = 1")
    shop.until(lambda: shop.count("t") == 6)
    assert envelopes(shop, "t") == [
        ({"id": 1}, "r", None, {"id": 1, "v": "a"}),
        ({"id": 2}, "c", None, {"id": 2, "v": None}),
        ({"id": 1}, "u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}),
        ({"id": 2}, "u", {"id": 2, "v": None}, {"id": 2, "v": "b"}),
        ({"id": 1}, "d", {"id": 1, "v": "b"}, None),
        ({"id": 1}, None, None, None),
    ]


def test_an_envelope_has_the_fields_of_debezium_and_no_schema(sql: Sql, reading: MakeReading, database: str) -> None:
    sql("CREATE SCHEMA sales; CREATE TABLE sales.t (id int PRIMARY KEY); INSERT INTO sales.t VALUES (1)")
    shop = reading("sales.t", format="debezium")
    shop.until(lambda: shop.count("t") == 1)
    before = sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, extract(epoch FROM clock_timestamp()) * 1000")[0]
    [(transaction,)] = sql("INSERT INTO sales.t VALUES (2) RETURNING pg_current_xact_id()::text::int8")
    after = sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, extract(epoch FROM clock_timestamp()) * 1000")[0]
    shop.until(lambda: shop.count("t") == 2)
    read, created = shop.values("t")
    assert list(created) == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    source = created["source"]
    assert {name: source[name] for name in ("connector", "name", "db", "schema", "table", "snapshot", "txId")} == {
        "connector": "postgresql",
        "name": "shop",
        "db": database,
        "schema": "sales",
        "table": "t",
        "snapshot": "false",
        "txId": transaction,
    }
    assert source["version"] == version("millstream")
    assert before[0] <= source["lsn"] <= after[0]
    assert msgspec.json.decode(source["sequence"]) == [None, str(source["lsn"])]
    assert int(before[1]) <= source["ts_ms"] <= after[1]
    assert (source["ts_us"] // 1000, source["ts_ns"] // 1000) == (source["ts_ms"], source["ts_us"])
    assert source["ts_ms"] <= created["ts_ms"] == created["ts_us"] // 1000 == created["ts_ns"] // 1_000_000
    assert (read["source"]["snapshot"], read["source"]["txId"]) == ("true", None)
    assert list(read["source"]) == list(source)


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_changed_key_is_a_delete_and_a_creation(sql: Sql, reading: MakeReading, identity: str) -> None:
    sql("CREATE TABLE t (shop text, id int, v text, PRIMARY KEY (shop, id))")
    sql(f"ALTER TABLE t REPLICA IDENTITY {identity}; INSERT INTO t VALUES ('a', 1, 'x')")
    shop = reading("t", format="debezium")
    shop.until(lambda: shop.count("t") == 1)
    sql("UPDATE t SET id = 9, v = 'y'")
    shop.until(lambda: shop.count("t") == 4)
    old, new = {"shop": "a", "id": 1}, {"shop": "a", "id": 9}
    assert envelopes(shop, "t", first=1) == [
        (old, "d", {**old, "v": "x"}, None),
        (old, None, None, None),
        (new, "c", None, {**new, "v": "y"}),
    ]
    assert shop.headers["t"][1:] == [
        (("__debezium.newkey", b'{"shop":"a","id":9}'),),
        (("__debezium.newkey", b'{"shop":"a","id":9}'),),
        (("__debezium.oldkey", b'{"shop":"a","id":1}'),),
    ]


def test_a_truncate_deletes_each_row(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    shop = reading("t", format="debezium")
    shop.until(lambda: shop.count("t") == 2)
    sql("TRUNCATE t")
    sql("INSERT INTO t VALUES (1, 'c')")
    shop.until(lambda: shop.count("t") == 7)
    assert envelopes(shop, "t", first=2) == [
        ({"id": 1}, "d", {"id": 1, "v": "a"}, None),
        ({"id": 1}, None, None, None),
        ({"id": 2}, "d", {"id": 2, "v": "b"}, None),
        ({"id": 2}, None, None, None),
        ({"id": 1}, "c", None, {"id": 1, "v": "c"}),
    ]
    truncated = shop.values("t")[2]["source"]
    assert truncated["txId"] > 0
    assert truncated["lsn"] < shop.values("t")[6]["source"]["lsn"]


def test_rows_before_a_change_are_complete_after_a_restart(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, v int, body text)")
    sql(f"ALTER TABLE t ALTER body SET STORAGE EXTERNAL; INSERT INTO t VALUES (1, 0, {_LARGE})")
    shop = reading("t", format="debezium")
    shop.until(lambda: shop.count("t") == 1)
    body = shop.values("t")[0]["after"]["body"]
    shop.close()
    sql("UPDATE t SET v = 1; DELETE FROM t")
    shop.until(lambda: shop.count("t") == 4)
    assert len(body) == 9600
    assert envelopes(shop, "t", first=1) == [
        ({"id": 1}, "u", {"id": 1, "v": 0, "body": body}, {"id": 1, "v": 1, "body": body}),
        ({"id": 1}, "d", {"id": 1, "v": 1, "body": body}, None),
        ({"id": 1}, None, None, None),
    ]


def test_rows_that_were_never_seen_are_not_invented(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, v int, body text)")
    sql(f"ALTER TABLE t ALTER body SET STORAGE EXTERNAL; INSERT INTO t VALUES (1, 0, {_LARGE}), (2, 0, 'x')")
    shop = reading("t", format="debezium", snapshot="never")
    shop.step()
    sql("UPDATE t SET v = 1 WHERE id = 1; UPDATE t SET v = 2 WHERE id = 1; DELETE FROM t WHERE id = 2")
    sql("UPDATE t SET id = 3 WHERE id = 1")
    shop.until(lambda: shop.count("t") == 7)
    unknown = "__debezium_unavailable_value"
    first, second = {"id": 1, "v": 1, "body": unknown}, {"id": 1, "v": 2, "body": unknown}
    assert envelopes(shop, "t") == [
        ({"id": 1}, "u", None, first),
        ({"id": 1}, "u", first, second),
        ({"id": 2}, "d", {"id": 2, "v": None, "body": None}, None),
        ({"id": 2}, None, None, None),
        ({"id": 1}, "d", second, None),
        ({"id": 1}, None, None, None),
        ({"id": 3}, "c", None, {"id": 3, "v": 2, "body": unknown}),
    ]


def test_values_have_the_default_types_of_debezium(sql: Sql, reading: MakeReading) -> None:
    sql("""CREATE TABLE t (id int8 PRIMARY KEY, price numeric(10, 2), any_number numeric, at timestamp,
           at_millis timestamp(3), zoned timestamptz, day date, clock time, clock_millis time(3), raw bytea, j jsonb,
           u uuid, b bool, f float8, ints int[], numbers numeric[])""")
    sql("""INSERT INTO t VALUES (1, -12.80, 1.5, '1969-12-31 23:59:59.5', '2024-02-29 12:34:56.789',
           '2024-02-29 12:34:56.7+02', '1969-12-31', '00:00:01.000002', '00:00:01.002', '\\x6869', '{"a": 1}',
           'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', true, 1.5, '{1,NULL}', '{-1.28}')""")
    shop = reading("t", format="debezium")
    shop.until(lambda: shop.count("t") == 1)
    sql("UPDATE t SET b = b")  # by the stream, after the snapshot
    shop.until(lambda: shop.count("t") == 2)
    read, updated = shop.values("t")
    row = read["after"]
    assert updated["before"] == updated["after"] == row
    assert row == {
        "id": 1,
        "price": row["price"],
        "any_number": {"scale": 1, "value": base64.b64encode(b"\x0f").decode()},
        "at": -500_000,
        "at_millis": 1_709_210_096_789,
        "zoned": "2024-02-29T10:34:56.700000Z",
        "day": -1,
        "clock": 1_000_002,
        "clock_millis": 1002,
        "raw": "aGk=",
        "j": '{"a": 1}',
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "b": True,
        "f": 1.5,
        "ints": [1, None],
        "numbers": [{"scale": 2, "value": base64.b64encode(b"\x80").decode()}],
    }
    unscaled = int.from_bytes(base64.b64decode(row["price"]), "big", signed=True)
    assert Decimal(unscaled).scaleb(-2) == Decimal("-12.80")


def test_envelopes_need_all_rows() -> None:
    with pytest.raises(DefinitionError, match="format='debezium' needs all rows, for the rows before changes; leave"):
        PostgresCdc("postgresql://cdc@127.0.0.1/shop", tables=["t"], format="debezium", keep_rows="needed")
