"""Changes of tables become records, complete and in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
import pytest
from tests.connectors.change_data_reading import Reading
from tests.servers.postgres import Postgres

from millstream.connectors.postgres_cdc import OutboxTable, emit
from millstream.connectors.postgres_cdc import reader as reader_module
from millstream.connectors.postgres_cdc.connection import Address, ReplicationStream
from millstream.errors import ConnectorError

Sql = Callable[[str], list[Any]]
MakeReading = Callable[..., Reading]

_LARGE = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)"


def test_rows_are_json_and_deletes_are_tombstones(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE orders (id int PRIMARY KEY, item text, cents int)")
    sql("INSERT INTO orders VALUES (1, 'tea', 250)")
    shop = reading("orders")
    shop.until(lambda: shop.count("orders") == 1)
    sql("INSERT INTO orders VALUES (2, 'a \"cup\"\n', NULL); UPDATE orders SET cents = 300 WHERE id = 1")
    sql("DELETE FROM orders WHERE id = 2")
    shop.until(lambda: shop.count("orders") == 4)
    assert shop.records["orders"] == [
        (b"1", b'{"id":1,"item":"tea","cents":250}'),
        (b"2", b'{"id":2,"item":"a \\"cup\\"\\n","cents":null}'),
        (b"1", b'{"id":1,"item":"tea","cents":300}'),
        (b"2", None),
    ]


def test_a_rolled_back_transaction_is_not_read(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY)")
    shop = reading("t")
    shop.step()
    sql("BEGIN; INSERT INTO t VALUES (1); ROLLBACK; INSERT INTO t VALUES (2)")
    shop.until(lambda: shop.count("t") > 0)
    assert shop.values("t") == [{"id": 2}]


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_changed_key_is_a_tombstone_and_a_new_row(sql: Sql, reading: MakeReading, identity: str) -> None:
    sql("CREATE TABLE t (shop text, id int, v text, PRIMARY KEY (shop, id))")
    sql(f"ALTER TABLE t REPLICA IDENTITY {identity}")
    sql("INSERT INTO t VALUES ('a', 1, 'x')")
    shop = reading("t")
    shop.until(lambda: shop.count("t") == 1)
    sql("UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET v = 'y'")
    shop.until(lambda: shop.count("t") == 4)
    assert shop.records["t"][1:] == [
        (b'{"shop":"a","id":1}', None),
        (b'{"shop":"a","id":9}', b'{"shop":"a","id":9,"v":"x"}'),
        (b'{"shop":"a","id":9}', b'{"shop":"a","id":9,"v":"y"}'),
    ]


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_values_that_the_server_does_not_send_again_are_complete(sql: Sql, reading: MakeReading, identity: str) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, v int, body text)")
    sql(f"ALTER TABLE t ALTER body SET STORAGE EXTERNAL; ALTER TABLE t REPLICA IDENTITY {identity}")
    sql(f"INSERT INTO t VALUES (1, 0, {_LARGE})")
    shop = reading("t")
    shop.until(lambda: shop.count("t") == 1)
    body = shop.values("t")[0]["body"]
    sql("UPDATE t SET v = 1; UPDATE t SET id = 2, v = 2; UPDATE t SET v = 3")
    shop.until(lambda: shop.count("t") == 5)
    shop.close()
    sql(f"INSERT INTO t VALUES (3, 0, {_LARGE}); UPDATE t SET v = 4")
    shop.until(lambda: shop.count("t") == 8)
    assert len(body) == 9600
    assert [row and (row["id"], row["v"], row["body"] == body) for row in shop.values("t")[1:]] == [
        (1, 1, True),
        None,
        (2, 2, True),
        (2, 3, True),
        (3, 0, True),
        (2, 4, True),
        (3, 4, True),
    ]
    assert shop.gauges["unknown_values"] == 0


def test_lost_rows_are_read_again(sql: Sql, reading: MakeReading) -> None:
    """The state of the source is safe to lose, at the cost of a snapshot."""
    sql("CREATE TABLE t (id int PRIMARY KEY, v int, body text)")
    sql(f"ALTER TABLE t ALTER body SET STORAGE EXTERNAL; INSERT INTO t VALUES (1, 0, {_LARGE})")
    shop = reading("t")
    shop.until(lambda: shop.count("t") == 1)
    other = reading("t", directory="empty")
    other.position = shop.position
    shop.close()
    sql("UPDATE t SET v = 1")
    other.until(lambda: other.count("t") >= 1)
    assert [(row["v"], len(row["body"])) for row in other.values("t")] == [(1, 9600)]


def test_changes_of_rows_that_are_not_durable_are_made_again(sql: Sql, reading: MakeReading) -> None:
    """The rows are in step with the position, at whichever moment a process dies."""
    sql("CREATE TABLE t (id int PRIMARY KEY, v int, body text)")
    sql(f"ALTER TABLE t ALTER body SET STORAGE EXTERNAL; INSERT INTO t VALUES (1, 0, {_LARGE})")
    shop = reading("t")
    shop.until(lambda: shop.count("t") == 1)
    position = shop.position
    sql("UPDATE t SET body = repeat('b', 5000); UPDATE t SET v = 2")
    while shop.step(commit=False) is None:
        pass
    expected = shop.values("t")[-1]
    shop.close()
    shop.position, shop.records = position, {}  # the journal did not get it
    while shop.count("t") < 2:
        shop.step(commit=False)
    assert shop.values("t")[-1] == expected == {"id": 1, "v": 2, "body": "b" * 5000}
    shop.close()  # now the journal has it, but the source did not learn that
    sql("UPDATE t SET v = 3")
    shop.until(lambda: shop.count("t") == 3)
    assert shop.values("t")[-1] == {"id": 1, "v": 3, "body": "b" * 5000}


def test_a_truncate_is_a_tombstone_for_each_row(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
    shop = reading("t", keep_rows="all")
    shop.until(lambda: shop.count("t") == 2)
    sql("BEGIN; INSERT INTO t VALUES (3); TRUNCATE t; INSERT INTO t VALUES (4); COMMIT")
    shop.until(lambda: shop.count("t") == 7)
    assert shop.table("t") == {b"4": {"id": 4}}


def test_a_truncate_of_unknown_keys_stops_the_source(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY)")
    shop = reading("t")
    shop.step()
    sql("INSERT INTO t VALUES (1); TRUNCATE t")
    with pytest.raises(ConnectorError, match="truncated, and its keys are not known; set keep_rows='all'"):
        shop.until(lambda: False)


def test_schema_changes_are_followed(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, a int)")
    shop = reading("t")
    shop.step()
    sql("INSERT INTO t VALUES (1, 1)")
    sql("ALTER TABLE t ADD b text DEFAULT 'x', DROP a; ALTER TABLE t RENAME id TO number; INSERT INTO t VALUES (2)")
    shop.until(lambda: shop.count("t") >= 2)
    assert shop.records["t"][:2] == [(b"1", b'{"id":1,"a":1}'), (b"2", b'{"number":2,"b":"x"}')]


def test_a_schema_change_stops_the_source_if_it_must_not_follow(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, a int)")
    shop = reading("t", on_schema_change="stop")
    shop.step()
    sql("INSERT INTO t VALUES (1, 1)")
    shop.until(lambda: shop.count("t") >= 1)
    shop.close()
    sql("ALTER TABLE t ADD b int; INSERT INTO t VALUES (2, 2)")
    with pytest.raises(ConnectorError, match=r"columns of table public\.t have changed to id, a, b; set on_schema"):
        shop.until(lambda: False)


def test_messages_of_a_transaction_become_records(
    sql: Sql, reading: MakeReading, postgres: Postgres, database: str
) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY)")
    shop = reading("t", messages=["receipts"])
    shop.step()
    with psycopg.connect(postgres.url(database)) as connection:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
            emit(cursor, "receipts", "order-1", {"cents": 250}, headers={"kind": "sale"})
            emit(cursor, "elsewhere", "x", "not selected")
        with connection.transaction(force_rollback=True), connection.cursor() as cursor:
            emit(cursor, "receipts", "order-2", "rolled back")
        with connection.transaction(), connection.cursor() as cursor:
            emit(cursor, "receipts", None, b"raw")
    shop.until(lambda: shop.count("receipts") == 2)
    assert shop.records["receipts"] == [(b"order-1", b'{"cents":250}'), (None, b"raw")]
    assert "elsewhere" not in shop.records


def test_rows_of_an_outbox_table_become_records(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)")
    shop = reading(outbox=OutboxTable(table="outbox", types=("order",)))
    shop.step()
    sql("""BEGIN; INSERT INTO outbox VALUES (gen_random_uuid(), 'order', '7', 'placed', '{"cents": 5}');
           DELETE FROM outbox; COMMIT""")
    shop.until(lambda: shop.count("outbox.event.order") == 1)
    assert shop.records["outbox.event.order"] == [(b"7", b'{"cents": 5}')]
    assert list(shop.source.topics()) == ["outbox.event.order"]


def test_a_large_transaction_is_read_in_parts(sql: Sql, reading: MakeReading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_MAX_ROWS", 3000)
    sql("CREATE TABLE t (id int PRIMARY KEY)")
    shop = reading("t")
    shop.step()
    sql("INSERT INTO t SELECT generate_series(1, 10000)")
    parts = 0
    while shop.count("t") < 10000:
        if shop.step() is not None:
            parts += 1
            shop.close()  # and each part continues where the last one ended
    assert parts > 1
    assert [int(key or b"") for key, _ in shop.records["t"]] == list(range(1, 10001))


@pytest.mark.parametrize(("timeout", "seconds"), [("2s", 0.5), ("1min", 5.0), ("0", 5.0)])
def test_the_server_hears_from_the_reader_before_it_loses_patience(
    sql: Sql, postgres: Postgres, database: str, timeout: str, seconds: float
) -> None:
    sql(f"ALTER DATABASE {database} SET wal_sender_timeout = '{timeout}'; CREATE PUBLICATION p")
    sql(f"SELECT pg_create_logical_replication_slot('{database}', 'pgoutput')")
    stream = ReplicationStream(Address(postgres.url(database), None))
    stream.start(database, 0, "p")
    assert stream.status_seconds == seconds
    stream.close()


def test_types_are_json_as_postgres_would_write_it(sql: Sql, reading: MakeReading) -> None:
    sql("""CREATE TABLE t (id int PRIMARY KEY, small int2, large int8, f4 float4, f8 float8, n numeric, t text,
           c char(5), b bool, u uuid, j json, jb jsonb, ts timestamp, tz timestamptz, d date, tm time, raw bytea,
           ints int[], texts text[], nested numeric[][], stamps timestamp[], flags bool[])""")
    sql("""INSERT INTO t VALUES
        (1, -3, 9223372036854775807, 1.5, 1e300, 12345678901234567890.12, 'tab\t"q"\\ \n', 'ab', true,
         'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a" : [1, null]}', '{"b": "\\u00e9"}', '2024-02-29 12:34:56.789',
         '2024-02-29 12:34:56+02', '2024-02-29', '23:59:59.5', NULL, '{1,NULL,3}',
         ARRAY['a,b', 'c"d', NULL, '', 'NULL', 'é', E'\\\\'], '{{1.5,2},{3,4}}', '{"2024-01-01 00:00:00"}', '{t,f}'),
        (2, 0, 0, 'NaN', '-Infinity', 'NaN', '', '', false, NULL, '"x"', 'null', 'infinity', '-infinity', NULL, NULL,
         NULL, '{}', '{}', NULL, '{}', NULL)""")
    shop = reading("t")
    shop.until(lambda: shop.count("t") == 2)
    sql("UPDATE t SET small = small")  # by the stream, after the snapshot
    shop.until(lambda: shop.count("t") == 4)
    expected = [row for (row,) in sql("SELECT row_to_json(x)::text FROM t x ORDER BY id")]
    decoded = [msgspec.json.decode(row.replace("+00:00", "Z")) for row in expected]
    assert shop.values("t") == decoded * 2


def test_bytes_are_base64(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, raw bytea); INSERT INTO t VALUES (1, '\\x00ff')")
    shop = reading("t")
    shop.until(lambda: shop.count("t") == 1)
    assert msgspec.json.decode(shop.records["t"][0][1], type=dict[str, int | bytes]) == {"id": 1, "raw": b"\x00\xff"}
