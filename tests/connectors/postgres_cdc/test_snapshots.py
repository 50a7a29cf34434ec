"""Snapshots by chunks, while the tables change and the reader dies."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.connectors.change_data_reading import Reading
from tests.connectors.postgres_cdc.writer import Writer, prepare
from tests.servers.postgres import Postgres

from millstream.connectors.postgres_cdc import PostgresCdc
from millstream.connectors.postgres_cdc.position import parse_position

Sql = Callable[[str], list[Any]]
MakeReading = Callable[..., Reading]


def read_with_crashes(shop: Reading, chance: float, dice: random.Random) -> int:
    """Read until the snapshot has ended; sometimes, the reader dies before or after its intake is durable."""
    crashes = 0
    while not (shop.position and parse_position(shop.position).tables):
        before = shop.position, {topic: list(records) for topic, records in shop.records.items()}
        dies = dice.random() < chance
        shop.step(commit=not dies)
        if dies:
            crashes += 1
            shop.close()
            if dice.random() < 0.5:  # the journal did not get it
                shop.position, shop.records = before
    return crashes


def check_rows(shop: Reading, sql: Sql) -> None:
    """The records lead to the rows of the table, and no row goes back to an older version."""
    sql("INSERT INTO acc VALUES (-1, 0)")
    shop.until(lambda: b"-1" in shop.table("acc"))
    expected = {str(key).encode(): {"id": key, "v": version} for key, version in sql("SELECT * FROM acc")}
    assert shop.table("acc") == expected
    newest: dict[Any, int] = {}
    for row in shop.values("acc"):
        if row is not None:
            assert row["v"] >= newest.get(row["id"], 0)
            newest[row["id"]] = row["v"]


def test_a_snapshot_of_a_changing_table_is_right_although_the_reader_dies(
    sql: Sql, reading: MakeReading, postgres: Postgres, database: str
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    prepare(sql)
    shop, dice = reading("acc", chunk_rows=100), random.Random(seed)
    shop.step()
    writers = [Writer(postgres.url(database), seed + number) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        crashes = read_with_crashes(shop, 0.2, dice)
    finally:
        for writer in writers:
            writer.stopping.set()
            writer.join()
    assert crashes > 0
    check_rows(shop, sql)


@pytest.mark.server
def test_a_snapshot_is_right_while_commits_wait_for_a_standby(tmp_path: Path) -> None:
    """A transaction is streamed before others see it, which takes as long as the standby does."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    primary, standby = Postgres().create(), Postgres(settings={"recovery_min_apply_delay": "100ms"})
    shop = Reading(PostgresCdc(primary.url(), tables=["acc"], chunk_rows=100), tmp_path)
    writers = [Writer(primary.url(), seed + number, wait_for_standby=number == 0) for number in range(2)]
    try:
        primary.start()
        standby.copy(primary, name="standby").start()
        prepare(primary.execute)
        primary.execute("ALTER SYSTEM SET synchronous_commit = local")
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        primary.execute("SELECT pg_reload_conf()")
        shop.step()
        for writer in writers:
            writer.start()
        read_with_crashes(shop, 0.0, random.Random(seed))
        for writer in writers:
            writer.stopping.set()
            writer.join()
        check_rows(shop, primary.execute)
    finally:
        for writer in writers:
            writer.stopping.set()
        shop.close()
        primary.remove()
        standby.remove()


def test_a_table_that_is_added_is_read_from_the_start(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO b VALUES (1), (2)")
    shop = reading("a")
    shop.step()
    sql("INSERT INTO a VALUES (1)")
    shop.until(lambda: shop.count("a") == 1)
    shop.close()
    both = reading("a", "b")
    both.position = shop.position
    sql("INSERT INTO a VALUES (2); INSERT INTO b VALUES (3)")
    both.until(lambda: both.count("a") >= 1 and len(both.table("b")) == 3)
    assert both.values("a") == [{"id": 2}]


def test_a_table_can_be_read_again(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
    shop = reading("t")
    shop.until(lambda: shop.count("t") == 2)
    shop.until(lambda: bool(shop.position and parse_position(shop.position).tables))
    reader = shop.reader or shop.open()
    reader.snapshot("t")
    shop.step()
    shop.close()  # the request is part of the position
    shop.until(lambda: shop.count("t") == 4)
    assert shop.values("t") == [{"id": 1}, {"id": 2}] * 2


def test_a_row_that_moves_to_where_the_snapshot_has_passed_is_not_lost(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, v int, body text); ALTER TABLE t ALTER body SET STORAGE EXTERNAL")
    sql("INSERT INTO t SELECT i, 0, repeat(md5(i::text), 100) FROM generate_series(1, 6) i")
    shop = reading("t", chunk_rows=2)
    shop.until(lambda: b"2" in shop.table("t"))
    assert b"6" not in shop.table("t")
    sql("UPDATE t SET id = 0 WHERE id = 6; UPDATE t SET v = 1 WHERE id = 0")
    shop.until(lambda: bool(shop.position and parse_position(shop.position).tables))
    shop.until(lambda: shop.table("t").get(b"0", {}).get("v") == 1)
    assert sorted(shop.table("t")) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_transactions_from_before_a_table_was_published_are_part_of_its_snapshot(
    sql: Sql, reading: MakeReading, postgres: Postgres, database: str
) -> None:
    """Also if slot and publication are there already, and only the position was lost."""
    sql("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    first = reading("a")
    first.step()
    first.close()
    with psycopg.connect(postgres.url(database)) as writer:
        writer.execute("INSERT INTO b VALUES (1)")
        both = reading("a", "b", directory="other")
        for _ in range(5):  # enough to read the table without waiting for the transaction
            both.step()
        assert both.count("b") == 0
        writer.commit()
    both.until(lambda: both.count("b") == 1)


def test_a_source_has_caught_up_when_its_snapshot_and_the_log_are_read(
    sql: Sql, reading: MakeReading, postgres: Postgres, database: str
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO b VALUES (1)")
    first = reading("a")
    first.until(lambda: first.reader is not None and first.reader.has_caught_up())
    first.close()
    both = reading("a", "b")
    both.position = first.position
    with psycopg.connect(postgres.url(database)) as writer:
        writer.execute("INSERT INTO b VALUES (2)")  # the snapshot of b waits for it
        while both.step() is not None:
            pass
        assert both.reader is not None
        assert not both.reader.has_caught_up()
    both.until(lambda: both.reader is not None and both.reader.has_caught_up())
    assert sorted(both.table("b")) == [b"1", b"2"]


def test_nothing_is_read_without_a_snapshot_but_changes(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    shop = reading("t", snapshot="never")
    shop.step()
    sql("INSERT INTO t VALUES (2)")
    shop.until(lambda: shop.count("t") > 0)
    assert shop.values("t") == [{"id": 2}]
