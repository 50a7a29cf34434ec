"""Sources and sinks on Kafka: their journals are in topics, so that a host that is lost loses and doubles nothing."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.kafka.conftest import settle
from tests.kafka.numbers_source import Numbers

from millstream.batch.app_spec import AppSettings
from millstream.batch.journal import Journal
from millstream.config import Config
from millstream.connect.connector import Connector
from millstream.connect.sinks import SinkInput, sink_connector
from millstream.connect.sources import SourceWork, source_connector
from millstream.connectors.sql_tables import SqliteTable
from millstream.errors import FencedError
from millstream.foundation.paths import delivery_dir, journal_dir
from millstream.foundation.storage import close_environments
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

pytestmark = pytest.mark.kafka
SECONDS = 120.0
LIMIT = 1_200
KILLS = int(os.environ.get("MILLSTREAM_CONNECT_KILLS", "4"))
FILE = """
name = "{name}"
broker = "{url}"
[config]
max_batch_records = 100

[sources.numbers]
kind = "tests.kafka.numbers_source:Numbers"
topic = "{name}.numbers"
limit = {limit}

[sinks.table]
kind = "sqlite-table"
topics = ["{name}.numbers"]
path = "{path}"
table = "numbers"
mode = "append"
"""


def rows(path: Path) -> list[int]:
    """Return the numbers in the table, empty if there is none yet."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        has_table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'numbers'").fetchone()
        return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")] if has_table else []


def numbers_in(broker: KafkaBroker, topic: str) -> list[int]:
    """Return the committed numbers of a topic."""
    return sorted(
        int(value.as_py()[5:-1])
        for partition, bounds in enumerate(broker.offsets(topic))
        for chunk in broker.read(topic, partition, bounds.begin, bounds.end)
        for value in chunk.block.column(1)
    )


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(int(SECONDS / 0.02)):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it took too long")


class Host:
    """A disk of its own, and the sources and sinks of one app on it."""

    def __init__(self, broker: KafkaBroker, name: str, disk: Path) -> None:
        self.broker = broker
        config = Config(max_batch_records=100, on_error="dead_letter", partitions=2)
        self.app = AppSettings(id=name, config=config, data_dir=disk, broker_url=broker.url)

    def source(self, limit: int) -> Connector:
        return source_connector(self.app, self.broker, "numbers", Numbers(f"{self.app.id}.numbers", limit))

    def sink(self, path: Path) -> Connector:
        sink = SqliteTable(path, "numbers", mode="append", columns={"n": "INTEGER CHECK (n <> 13)"})
        return sink_connector(self.app, self.broker, "table", sink, SinkInput(topics=[f"{self.app.id}.numbers"]))


def test_another_host_continues_and_the_first_is_fenced(cluster: Cluster, name: str, tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    with KafkaBroker(cluster.url) as first_broker, KafkaBroker(cluster.url) as second_broker:
        first = Host(first_broker, name, tmp_path / "first")
        source, sink = first.source(60), first.sink(path)
        source.run("caught-up")
        settle(first_broker, cluster.bootstrap, f"{name}.numbers")
        sink.run("caught-up")
        assert numbers_in(first_broker, f"{name}.numbers") == list(range(60))
        assert rows(path) == [n for n in range(60) if n != 13]
        second = Host(second_broker, name, tmp_path / "second")
        second.source(100).run("caught-up")
        settle(second_broker, cluster.bootstrap, f"{name}.numbers")
        second.sink(path).run("caught-up")
        assert numbers_in(second_broker, f"{name}.numbers") == list(range(100))
        assert rows(path) == [n for n in range(100) if n != 13]
        first.sink(path).run("caught-up")  # back again, with an old copy on its disk
        assert rows(path) == [n for n in range(100) if n != 13]
        letters = f"{name}.dead-letters"
        settle(first_broker, cluster.bootstrap, letters)
        assert numbers_in(first_broker, letters) == [13]


def test_a_process_that_was_fenced_publishes_nothing(cluster: Cluster, name: str, tmp_path: Path) -> None:
    with KafkaBroker(cluster.url) as first_broker, KafkaBroker(cluster.url) as second_broker:
        work = Host(first_broker, name, tmp_path / "first").source(60).work
        assert isinstance(work, SourceWork)
        work.open()
        work.step(0.0)  # 0 to 19
        Host(second_broker, name, tmp_path / "second").source(40).run("caught-up")  # 20 to 39
        with pytest.raises(FencedError, match="was taken over by process"):
            work.step(0.0)
        settle(first_broker, cluster.bootstrap, f"{name}.numbers")
        assert numbers_in(first_broker, f"{name}.numbers") == list(range(40))


def test_a_sink_of_an_app_that_was_reset_begins_a_new_lineage(cluster: Cluster, name: str, tmp_path: Path) -> None:
    with KafkaBroker(cluster.url) as broker:
        host = Host(broker, name, tmp_path / "first")
        app = Journal(journal_dir(host.app.data_dir, name))
        before = app.lineage()
        host.source(20).run("caught-up")
        settle(broker, cluster.bootstrap, f"{name}.numbers")
        host.sink(tmp_path / "a.db").run("caught-up")
        sink = Journal(delivery_dir(host.app.data_dir, name, f"{name}.sink.table"), readonly=True)
        lineage = sink.stored_lineage()
        app.start_lineage()
        assert app.lineage() != before
        host.sink(tmp_path / "b.db").run("caught-up")
        assert sink.stored_lineage() not in ("", lineage)
        assert rows(tmp_path / "b.db") == [n for n in range(20) if n != 13]
        close_environments(tmp_path)


def _is_reached(path: Path, goal: int, process: subprocess.Popen[bytes]) -> bool:
    return len(rows(path)) >= goal or process.poll() is not None


@pytest.mark.crash
@pytest.mark.timeout(600)
def test_a_process_that_is_killed_with_its_disk_loses_and_doubles_nothing(
    cluster: Cluster, kafka: KafkaBroker, name: str, tmp_path: Path
) -> None:
    path, disk, file = tmp_path / "numbers.db", tmp_path / "data", tmp_path / "shop.toml"
    file.write_text(FILE.format(name=name, url=cluster.url, limit=LIMIT, path=path))
    program = "import sys; from millstream.cli.main import main; sys.argv[0] = 'millstream'; main()"
    command = [sys.executable, "-c", program, "--data-dir", str(disk), "connect", "run", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}
    for kill in range(KILLS + 1):
        until = ["--until", "caught-up"] if kill == KILLS else []
        process = subprocess.Popen([*command, *until], stderr=subprocess.PIPE, env=environment)
        if kill < KILLS:
            goal = min(len(rows(path)) + LIMIT // (2 * KILLS), LIMIT - 1)
            wait_until(partial(_is_reached, path, goal, process))
            process.send_signal(signal.SIGKILL)
        errors = process.communicate(timeout=SECONDS)[1].decode()
        assert process.returncode == (-signal.SIGKILL if kill < KILLS else 0), errors
        if kill % 2:
            shutil.rmtree(disk)
    settle(kafka, cluster.bootstrap, f"{name}.numbers")
    assert numbers_in(kafka, f"{name}.numbers") == list(range(LIMIT))
    assert rows(path) == list(range(LIMIT))
