"""Snapshots in chunks while the table changes, which can be continued at any of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.connectors.change_data_reading import Reading
from tests.connectors.mysql_cdc.changed_mysql import ChangedMysql
from tests.servers.mariadb import MariadbServer

from millstream.connectors.change_data.snapshot_progress import SnapshotProgress
from millstream.connectors.mysql_cdc.chunks import PlacedChunkReader
from millstream.connectors.mysql_cdc.position import parse_position
from millstream.connectors.mysql_server import MysqlAddress

Sql = Callable[..., list[Any]]
MakeReading = Callable[..., Reading]

pytestmark = pytest.mark.server


def test_a_snapshot_continues_after_its_last_chunk(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (a INT, b VARBINARY(4), PRIMARY KEY (a, b))")
    sql("INSERT INTO t VALUES " + ", ".join(f"({n % 3}, x'{n:04x}')" for n in range(50)))
    shop = reading("t", chunk_rows=7)
    shop.until(lambda: shop.count("t") >= 20)
    assert shop.position is not None
    assert parse_position(shop.position).snapshot.rows == shop.count("t")
    shop.close()
    shop.until(lambda: shop.count("t") >= 50)
    assert len(shop.table("t")) == shop.count("t") == 50


def test_an_added_table_is_read_and_a_table_can_be_read_again(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    sql("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)")
    first = reading("a")
    first.until(lambda: first.count("a") == 1)
    first.close()
    both = reading("a", "b")
    both.position = first.position
    both.until(lambda: both.count("b") == 1)
    assert both.count("a") == 0
    both.open().snapshot("a")
    both.until(lambda: both.count("a") == 1)


@pytest.mark.parametrize("locks", [False, True])
def test_rows_of_a_snapshot_never_go_back_while_they_change(
    locks: bool, mysql: MariadbServer, reading: MakeReading, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With locks, as for MySQL, on MariaDB too."""
    if not locks and type(mysql) is not MariadbServer:
        pytest.skip("MySQL does not say where a snapshot is")
    with_locks: Any = PlacedChunkReader.__init__

    def make(self: PlacedChunkReader, address: MysqlAddress, rows: int) -> None:
        with_locks(self, address, rows, locks=locks)

    monkeypatch.setattr(PlacedChunkReader, "__init__", make)
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    mysql.execute("DROP TABLE IF EXISTS acc", "DROP TABLE IF EXISTS audit")
    changed = ChangedMysql(mysql)
    changed.prepare(600)
    shop = reading("test.acc", chunk_rows=20, on_truncate="ignore")
    writers = changed.writers(seed, 600, 400)
    for writer in writers:
        writer.start()
    shop.until(lambda: shop.position is not None and not parse_position(shop.position).snapshot.tables)
    for writer in writers:
        writer.stopping.set()
        writer.join()
    expected = dict(mysql.execute("SELECT id, v FROM acc"))
    shop.until(lambda: {int(key): row["v"] for key, row in shop.table("acc").items()} == expected)
    newest: dict[bytes | None, int] = {}
    for (key, _), row in zip(shop.records["acc"], shop.values("acc"), strict=True):
        if row is not None:
            assert row["v"] >= newest.get(key, 0), f"row {key!r} went back"
            newest[key] = row["v"]


def test_a_chunk_waits_for_a_transaction_that_holds_the_table(
    mysql: MariadbServer, sql: Sql, reading: MakeReading
) -> None:
    """The lock of MySQL waits for open transactions, and the stream goes on; MariaDB does not wait."""
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    has_begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        connection = mysql.connect(reading_schema)
        with connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (2)")
            has_begun.set()
            may_end.wait(20)
            connection.commit()

    reading_schema = sql("SELECT DATABASE()")[0][0]
    thread = threading.Thread(target=hold)
    thread.start()
    assert has_begun.wait(20)
    shop = reading("t")
    is_mariadb = type(mysql) is MariadbServer
    if is_mariadb:
        shop.until(lambda: shop.count("t") == 1)
    else:
        shop.until(lambda: shop.open()._chunks_reread > 0)
    may_end.set()
    thread.join()
    shop.until(lambda: len(shop.table("t")) == 2)


def test_chunks_of_a_table_that_changes_its_columns_are_read_again(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES " + ", ".join(f"({n})" for n in range(30)))
    shop = reading("t", chunk_rows=10)
    shop.until(lambda: shop.count("t") >= 10)
    sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 5")
    shop.until(lambda: shop.count("t") >= 30)
    values = shop.values("t")
    assert values[0] == {"id": 0}
    assert values[-1] == {"id": 29, "c": 5}


def test_the_next_rows_are_read_by_the_key(mysql: MariadbServer, sql: Sql) -> None:
    sql("CREATE TABLE t (a VARCHAR(5) COLLATE utf8mb4_general_ci, d DATE, n DECIMAL(5,2), PRIMARY KEY (a, d, n))")
    sql("INSERT INTO t VALUES ('b', '2024-01-01', 1), ('A', '2024-01-01', 1), ('a', '2024-01-01', 2.5)")
    [(schema,)] = sql("SELECT DATABASE()")
    reader = PlacedChunkReader(MysqlAddress(mysql.url(schema), None), 1)
    progress = SnapshotProgress((f"{schema}.t",))
    keys = []
    while not (chunk := reader.read(progress)).is_last:
        keys.append(chunk.last_key)
        progress = SnapshotProgress(progress.tables, chunk.last_key)
    reader.close()
    assert keys == [("A", "2024-01-01", "1.00"), ("a", "2024-01-01", "2.50"), ("b", "2024-01-01", "1.00")]
