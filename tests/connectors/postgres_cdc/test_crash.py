"""The source killed at random times, in its real loop: nothing is lost, and changes are records once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
from tests.connectors.postgres_cdc.writer import Writer, prepare
from tests.servers.postgres import Postgres

from millstream.connect.source_journal import SourceJournal
from millstream.connectors.postgres_cdc.position import parse_position
from millstream.foundation.paths import source_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.records import Record, TopicPartition
from millstream.views.records import read_rounds

KILLS = int(os.environ.get("MILLSTREAM_TRIALS", "4"))
_FILE = """
name = "shop"
[config]
durability = "os"
[sources.rows]
kind = "postgres-cdc"
url = "{url}"
tables = ["acc"]
chunk_rows = 50
[sources.changes]
kind = "postgres-cdc"
url = "{url}"
tables = ["audit"]
snapshot = "never"
"""
_AUDIT = """
CREATE TABLE audit (id bigserial PRIMARY KEY, acc int, v bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO audit (acc, v) VALUES (coalesce(NEW.id, OLD.id), NEW.v); RETURN NULL; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON acc FOR EACH ROW EXECUTE FUNCTION note()
"""
_SECONDS = 60.0
_MARK = -1


class Shop:
    """A process that runs the sources, and the log that they write."""

    def __init__(self, directory: Path, url: str) -> None:
        (directory / "shop.toml").write_text(_FILE.format(url=url))
        program = "from millstream.cli.main import root; root()"
        data = directory / "data"
        self._command = [sys.executable, "-c", program, "--data-dir", str(data), "connect", "run"]
        self._command.append(str(directory / "shop.toml"))
        self._data = data
        self.log = EmbeddedLog(data, durability="os")

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command)

    def count(self, topic: str) -> int:
        """Return how many records were ever written; compaction does not lower it."""
        return sum(part.end for part in self.log.offsets(topic)) if topic in self.log.topic_names() else 0

    def records(self, topic: str) -> list[Record[bytes | None, bytes | None]]:
        if topic not in self.log.topic_names():
            return []
        starts = {TopicPartition(topic, number): part.begin for number, part in enumerate(self.log.offsets(topic))}
        return [record for records in read_rounds(self.log, starts, follow=False, grow=False) for record in records]

    def rows(self, topic: str) -> dict[Any, Any]:
        """Return the rows that the records lead to."""
        last = {record.key: record.value for record in self.records(topic)}
        return {msgspec.json.decode(key or b""): msgspec.json.decode(value) for key, value in last.items() if value}

    def has_snapshot(self) -> bool:
        """Whether all rows of the first source have been read."""
        position = SourceJournal(source_dir(self._data, "shop", "rows")).read().position
        return position is not None and not parse_position(position).snapshot.tables


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    for _ in range(int(_SECONDS / 0.05)):
        if condition():
            return
        assert process.poll() is None
        Event().wait(0.05)
    pytest.fail(f"not within {_SECONDS} s")


@pytest.mark.server
@pytest.mark.crash
@pytest.mark.timeout(2 * _SECONDS + 10 * KILLS)
def test_a_killed_source_loses_nothing_and_writes_no_change_twice(
    tmp_path: Path, postgres: Postgres, database: str
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {KILLS} kills")
    chance, url = random.Random(seed), postgres.url(database)

    def sql(statement: str) -> list[Any]:
        return postgres.execute(statement, database=database)

    prepare(sql)
    sql(_AUDIT)
    shop = Shop(tmp_path, url)
    process = shop.start()
    slots = f"SELECT count(*) FROM pg_replication_slots WHERE database = '{database}'"
    wait_until(lambda: sql(slots) == [(2,)], process)
    writers = [Writer(url, seed + number) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(KILLS):
            written = shop.count("audit")
            wait_until(lambda written=written: shop.count("audit") > written, process)  # type: ignore[misc]
            Event().wait(chance.uniform(0, 0.3))
            process.kill()
            process.wait()
            process = shop.start()
    finally:
        for writer in writers:
            writer.stopping.set()
            writer.join()
    try:
        sql(f"INSERT INTO acc VALUES ({_MARK}, nextval('v'))")
        wait_until(lambda: shop.has_snapshot() and _MARK in shop.rows("acc"), process)
        expected = [key for (key,) in sql("SELECT id FROM audit ORDER BY id")]
        wait_until(lambda: expected[-1] in shop.rows("audit"), process)
    finally:
        process.terminate()
        process.wait()
    assert shop.rows("acc") == {key: {"id": key, "v": version} for key, version in sql("SELECT * FROM acc")}
    assert sorted(int(record.key or b"") for record in shop.records("audit")) == expected
    assert shop.count("audit") == len(expected) > KILLS
    newest: dict[Any, int] = {}
    for row in (msgspec.json.decode(record.value) for record in shop.records("acc") if record.value):
        assert row["v"] >= newest.get(row["id"], 0), "a row went back to an older version"
        newest[row["id"]] = row["v"]
    shop.log.close()
    close_environments(tmp_path)
