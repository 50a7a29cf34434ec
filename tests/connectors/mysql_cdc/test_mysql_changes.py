"""Changes that the source reads from the binary log of real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.connectors.change_data_reading import Reading
from tests.connectors.mysql_cdc.types import COLUMNS, FIRST_ROW, INSERTED, ROWS
from tests.servers.mariadb import MariadbServer

Sql = Callable[..., list[Any]]
MakeReading = Callable[..., Reading]

pytestmark = pytest.mark.server


def test_all_types_are_the_same_from_the_log_and_from_a_snapshot(sql: Sql, reading: MakeReading) -> None:
    sql(f"CREATE TABLE t ({COLUMNS})")
    streamed = reading("t", snapshot="never")
    streamed.open()
    for row in ROWS:
        sql("SET sql_mode = '', time_zone = '+03:00'", f"INSERT INTO t ({INSERTED}) VALUES ({row})")
    streamed.until(lambda: streamed.count("t") == len(ROWS))
    snapshot = reading("t", directory="snapshot")
    snapshot.until(lambda: snapshot.count("t") == len(ROWS))
    assert dict(streamed.records["t"]) == dict(snapshot.records["t"])
    row = dict(streamed.records["t"])[b"1"]
    decoded = msgspec.json.decode(row)
    for name, value in FIRST_ROW.items():
        if name in ("d1", "d2", "d3", "d4"):
            assert f'"{name}":{value}'.encode() in row
        else:
            assert decoded[name] == value, name


def test_updates_deletes_and_changed_keys(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (a INT, b VARCHAR(10), n INT, PRIMARY KEY (a, b))")
    shop = reading("t", snapshot="never")
    shop.open()
    sql("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)")
    sql("UPDATE t SET n = n + 10")
    sql("UPDATE t SET b = 'z' WHERE a = 1")
    sql("DELETE FROM t WHERE a = 2")
    shop.until(lambda: shop.count("t") == 7)
    first, second, moved = b'{"a":1,"b":"x"}', b'{"a":2,"b":"y"}', b'{"a":1,"b":"z"}'
    values = [(key, value and msgspec.json.decode(value)["n"]) for key, value in shop.records["t"]]
    assert values == [(first, 1), (second, 2), (first, 11), (second, 12), (first, None), (moved, 11), (second, None)]


def test_rolled_back_and_other_tables_are_no_records(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    shop = reading("t", snapshot="never")
    shop.open()
    sql("BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK")
    sql("BEGIN", "INSERT INTO t VALUES (2)", "SAVEPOINT s", "INSERT INTO t VALUES (3)", "ROLLBACK TO s", "COMMIT")
    sql("INSERT INTO other VALUES (4)", "INSERT INTO t VALUES (5)")
    shop.until(lambda: shop.count("t") == 2)
    assert [key for key, _ in shop.records["t"]] == [b"2", b"5"]


def test_columns_that_are_added_renamed_and_dropped_are_followed(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    shop = reading("t", snapshot="never")
    shop.open()
    sql("INSERT INTO t VALUES (1, 1)")
    sql("ALTER TABLE t ADD COLUMN b VARCHAR(5) FIRST", "INSERT INTO t VALUES ('x', 2, 2)")
    sql("ALTER TABLE t RENAME COLUMN a TO c", "ALTER TABLE t DROP COLUMN b", "INSERT INTO t VALUES (3, 3)")
    shop.until(lambda: shop.count("t") == 3)
    assert shop.values("t") == [{"id": 1, "a": 1}, {"b": "x", "id": 2, "a": 2}, {"id": 3, "c": 3}]


def test_a_position_continues_after_rotations_and_restarts(
    sql: Sql, reading: MakeReading, mysql: MariadbServer
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop = reading("t")
    shop.until(lambda: shop.position is not None)
    for number in range(3):
        sql(f"INSERT INTO t VALUES ({number})", "FLUSH BINARY LOGS")
        if number == 1:
            mysql.stop()
            mysql.start()
            shop.close()
        shop.until(lambda: shop.count("t") == number + 1)  # noqa: B023 - it is called here
    assert [key for key, _ in shop.records["t"]] == [b"0", b"1", b"2"]


def test_a_large_transaction_comes_in_parts_and_continues_in_the_middle(
    sql: Sql, reading: MakeReading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.connectors.mysql_cdc.reader._MAX_BYTES", 20_000)
    sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100))")
    shop = reading("t", snapshot="never")
    shop.open()
    inserts = [f"INSERT INTO t VALUES ({number}, '{'x' * 100}')" for number in range(1_000)]
    sql("BEGIN", *inserts, "COMMIT")
    shop.until(lambda: shop.count("t") > 0)
    assert 0 < shop.count("t") < 1_000
    shop.close()  # and is opened again, in the middle
    shop.until(lambda: shop.count("t") >= 1_000)
    assert [key for key, _ in shop.records["t"]] == [b"%d" % number for number in range(1_000)]


def test_debezium_envelopes_have_both_rows_and_their_place(
    sql: Sql, reading: MakeReading, mysql: MariadbServer, schema: str
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(5,2), b BIT(1), ts TIMESTAMP(3) NULL, ti TIME)")
    sql("INSERT INTO t VALUES (1, 1.50, b'1', '2024-02-29 12:00:00.5', '-01:00:00')")
    shop = reading("t", format="debezium")
    shop.until(lambda: shop.count("t") == 1)
    sql("UPDATE t SET d = 2", "DELETE FROM t")
    shop.until(lambda: shop.count("t") == 4)
    read, update, delete, tombstone = shop.values("t")
    first = read["after"]
    assert (first["d"], first["b"], first["ti"]) == ("AJY=", True, -3_600_000_000)
    assert [read["op"], update["op"], delete["op"], tombstone] == ["r", "u", "d", None]
    assert (update["before"], update["after"]["d"], delete["before"]) == (first, "AMg=", update["after"])
    source = update["source"]
    is_mariadb = type(mysql) is MariadbServer
    assert (source["connector"], source["db"], source["table"]) == ("mariadb" if is_mariadb else "mysql", schema, "t")
    assert (source["file"].partition(".")[0], source["server_id"]) == ("binlog", 1)
    assert source["pos"] > 0


@pytest.mark.parametrize("mysql", ["mariadb_log"], indirect=True)
def test_a_compressed_log_of_mariadb_is_read(sql: Sql, reading: MakeReading, mysql: MariadbServer) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(2000))")
    shop = reading("t", snapshot="never")
    shop.open()
    mysql.execute("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
    sql(f"INSERT INTO t VALUES (1, '{'x' * 2000}')")
    sql(f"/* {'y' * 500} */ ALTER TABLE t ADD COLUMN c INT")
    sql(f"UPDATE t SET v = '{'z' * 1000}', c = 5")
    mysql.execute("SET GLOBAL log_bin_compress = OFF")
    shop.until(lambda: shop.count("t") == 2)
    assert shop.values("t") == [{"id": 1, "v": "x" * 2000}, {"id": 1, "v": "z" * 1000, "c": 5}]
