"""A source of change data that is killed again and again while its tables change, and the comparison at the end.

Each change of the table ``acc`` writes a row of ``audit``, in the same transaction. Rows of ``audit`` are only added,
so that each of them must be one record; the records of ``acc`` must lead to its rows, and never go back.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import msgspec

from millstream.broker import Broker
from millstream.broker_urls import open_broker
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog

_SOURCES = """
[sources.rows]
kind = "{kind}"
url = "{url}"
tables = ["acc"]
topic = "{name}.{{table}}"
chunk_rows = {chunk}
[sources.changes]
kind = "{kind}"
url = "{url}"
tables = ["audit"]
topic = "{name}.{{table}}"
snapshot = "never"
"""
_LOOK_SECONDS = 0.02


class RowWriter(Protocol):
    """A thread that changes rows of ``acc`` until it is stopped."""

    stopping: Event

    def start(self) -> None: ...

    def join(self) -> None: ...


class ChangedDatabase(Protocol):
    """A server with the tables ``acc`` and ``audit``."""

    kind: str
    """Of the source."""
    url: str

    def sql(self, statement: str) -> list[Any]:
        """Run a statement and return its rows."""

    def prepare(self, rows: int) -> None:
        """Create both tables, fill ``acc``, and let each of its changes write a row of ``audit``."""

    def writers(self, seed: int, rows: int, rate: float) -> Sequence[RowWriter]:
        """Return what changes that many rows per second; versions ``v`` of a row grow."""

    def is_read(self) -> bool:
        """Return whether both sources have begun to read."""


class Comparison(msgspec.Struct):
    """What the topics have, compared with the tables."""

    kills: int
    changes: int
    lost: int
    doubled: int
    wrong: int
    """Rows of the table that the records do not lead to, and records that went back to an older version."""

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)


class Shop:
    """The sources as a process of the command line, and the topics that they write."""

    def __init__(
        self,
        directory: Path,
        database: ChangedDatabase,
        *,
        name: str = "shop",
        broker: str | None = None,
        chunk: int,
    ) -> None:
        self.name, self.data, self._broker = name, directory / "data", broker
        self._file = directory / f"{name}.toml"
        config = f'broker = "{broker}"\n' if broker else '[config]\ndurability = "os"\n'
        sources = _SOURCES.format(kind=database.kind, url=database.url, name=name, chunk=chunk)
        self._file.write_text(f'name = "{name}"\n{config}{sources}')

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        program = "from millstream.cli.main import root; root()"
        command = [sys.executable, "-c", program, "--data-dir", str(self.data), "connect", "run", str(self._file)]
        return subprocess.Popen([*command, *options])

    def open(self) -> Broker:
        return open_broker(self._broker, self.data, durability="os")

    def topic(self, table: str) -> str:
        return f"{self.name}.{table}"


def end_of(broker: Broker, topic: str) -> int:
    """Return a number that grows with each record."""
    return sum(part.end for part in broker.offsets(topic)) if topic in broker.topic_names() else 0


def records_of(broker: Broker, topic: str) -> Iterator[tuple[int, Any]]:
    """Yield the keys and the rows of all records."""
    for partition, bounds in enumerate(broker.offsets(topic)):
        for chunk in broker.read(topic, partition, bounds.begin, bounds.end):
            pairs = zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True)
            yield from ((int(key), None if value is None else msgspec.json.decode(value)) for key, value in pairs)


def kill_source(
    shop: Shop,
    database: ChangedDatabase,
    *,
    seed: int,
    kills: int,
    rows: int = 2_000,
    rate: int = 800,
    pause: float = 0.3,
    loses_disk: bool = False,
    seconds: float = 60.0,
    report: Callable[[str], None] = print,
) -> Comparison:
    """Change ``rate`` rows per second while the process is killed, let it catch up, and compare.

    A kill comes up to ``pause`` seconds after the process has written something.

    With ``loses_disk`` every second kill takes the disk too, which only a source on Kafka survives.
    """
    chance = random.Random(seed)
    database.prepare(rows)
    broker, process = shop.open(), shop.start()
    _wait_until(database.is_read, process, seconds)
    writers = database.writers(seed, rows, rate)
    for writer in writers:
        writer.start()
    try:
        for number in range(kills):
            _wait_for_progress(broker, shop.topic("audit"), process, seconds)
            Event().wait(chance.uniform(0, pause))
            process.kill()
            process.wait()
            if loses_disk and number % 2:
                shutil.rmtree(shop.data)
            process = shop.start()
            report(f"kill {number + 1} of {kills}, {end_of(broker, shop.topic('acc'))} records of rows")
    finally:
        for writer in writers:
            writer.stopping.set()
            writer.join()
        process.kill()
        process.wait()
    assert shop.start("--until", "caught-up").wait(10 * seconds) == 0
    try:
        return _compare(broker, shop, database.sql, kills)
    finally:
        broker.close()
        close_environments(shop.data)


def _wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float) -> None:
    for _ in range(int(seconds / _LOOK_SECONDS)):
        if condition():
            return
        assert process.poll() is None, "the process ended by itself"
        Event().wait(_LOOK_SECONDS)
    raise AssertionError(f"not within {seconds} s")


def _wait_for_progress(broker: Broker, topic: str, process: subprocess.Popen[bytes], seconds: float) -> None:
    before = end_of(broker, topic)
    _wait_until(lambda: end_of(broker, topic) > before, process, seconds)


def _compare(broker: Broker, shop: Shop, sql: Callable[[str], list[Any]], kills: int) -> Comparison:
    expected = {key for (key,) in sql("SELECT id FROM audit")}
    written = Counter(key for key, _ in records_of(broker, shop.topic("audit")))
    newest: dict[int, int] = {}
    last: dict[int, Any] = {}
    backwards = 0
    for key, row in records_of(broker, shop.topic("acc")):
        last[key] = row
        if row is not None:
            backwards += row["v"] < newest.get(key, 0)
            newest[key] = row["v"]
    rows_of_records = {key: row["v"] for key, row in last.items() if row is not None}
    actual = dict(sql("SELECT id, v FROM acc"))
    compacted = end_of(broker, shop.topic("audit")) - written.total() if isinstance(broker, EmbeddedLog) else 0
    return Comparison(
        kills=kills,
        changes=len(expected),
        lost=len(expected - written.keys()),
        doubled=compacted + written.total() - len(written) + len(written.keys() - expected),
        wrong=backwards + len(rows_of_records.items() ^ actual.items()),
    )
