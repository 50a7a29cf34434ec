"""Connectors from end to end: a file that is killed, a database that is mirrored, an app with a sink."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.assembling import assemble, local_loop
from tests.servers.postgres import Postgres
from tests.waiting import wait_until

from millstream import App
from millstream.batch.journal import Journal
from millstream.batch.topics import create_topics
from millstream.broker import TopicConfig
from millstream.cli.main import root
from millstream.connect.connect_file import read_connect_file
from millstream.connect.running import Connectors
from millstream.connect.sinks import sinks_of
from millstream.connect.worker import run_connect_file
from millstream.connectors.sql_tables import SqliteTable
from millstream.foundation.paths import journal_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.producer import Producer

SECONDS = 60.0
RECORDS = 1200
KILLED_AFTER = 100
TWO_SINKS = """
name = "shop"
[config]
durability = "os"
max_batch_records = 50

[sinks.table]
kind = "sqlite-table"
topics = ["orders"]
path = "{directory}/shop.db"
table = "orders"
mode = "append"
transform = [{{ where = "value.n > 0" }}, {{ drop = ["internal"] }}, {{ rename = {{ n = "number" }} }}]

[sinks.lines]
kind = "files"
topics = ["orders"]
uri = "{directory}/lines"
format = "jsonl"
transform = [{{ where = "value.n == 0" }}, {{ mask = ["internal"] }}]
"""


def query(path: Path, statement: str) -> list[Any]:
    try:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute(statement).fetchall()
    except sqlite3.OperationalError:  # the table does not exist yet
        return []


@pytest.mark.crash
def test_a_killed_file_with_two_sinks_and_transforms_writes_every_row_once(tmp_path: Path) -> None:
    """The table is appended to and has no unique key, so that a row that is written twice is visible."""
    file, data = tmp_path / "shop.toml", tmp_path / "data"
    file.write_text(TWO_SINKS.format(directory=tmp_path))
    with EmbeddedLog(data, durability="os") as log:
        log.create_topic("orders", TopicConfig(partitions=3))
        with Producer(log) as producer:
            for number in range(RECORDS):
                producer.send("orders", {"n": number % 3, "internal": number}, key=f"k{number}")
    millstream = [sys.executable, "-c", "from millstream.cli.main import main; main()", "--data-dir", str(data)]
    command = [*millstream, "connect", "run", str(file)]

    def count() -> int:
        return sum(row[0] for row in query(tmp_path / "shop.db", "SELECT count(*) FROM orders"))

    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: count() >= KILLED_AFTER)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    subprocess.run([*command, "--until", "caught-up"], check=True, timeout=SECONDS, capture_output=True)

    rows = query(tmp_path / "shop.db", "SELECT key, number FROM orders")
    assert sorted(rows) == sorted((f"k{n}", n % 3) for n in range(RECORDS) if n % 3)
    lines = [
        json.loads(line) for path in (tmp_path / "lines").glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert sorted(line["_key"] for line in lines) == sorted(f"k{n}" for n in range(0, RECORDS, 3))
    assert all(line["n"] == 0 and len(line["internal"]) == 16 for line in lines)


NUMBERS = """
name = "numbers"
[config]
durability = "os"

[sources.numbers]
kind = "{module}:Numbers"
count = 5
transform = [{{ route = "eu.{{topic}}" }}]

[sinks.table]
kind = "sqlite-table"
topics = ["eu.numbers"]
path = "{directory}/numbers.db"
table = "numbers"
"""
SOURCE = """
from millstream.testing.connectors import MemorySource

class Numbers(MemorySource):
    def __init__(self, *, count: int):
        super().__init__("numbers", partitions=2)
        for number in range(count):
            self.put("numbers", f"k{number}", {"n": number})
"""


def test_a_sink_reads_what_a_source_of_the_same_file_fills_from_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is created before the sink starts, with the settings of the source and the name of its transform."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = f"numbers_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(SOURCE)
    (tmp_path / "numbers.toml").write_text(NUMBERS.format(module=module, directory=tmp_path))
    file, stopping = read_connect_file(tmp_path / "numbers.toml"), threading.Event()
    settings = file.settings(tmp_path / "data", None)
    thread = threading.Thread(target=run_connect_file, args=(file, settings, "stopped", stopping))
    thread.start()
    try:
        wait_until(lambda: len(query(tmp_path / "numbers.db", "SELECT * FROM numbers")) == 5)
    finally:
        stopping.set()
        thread.join()
    with EmbeddedLog(tmp_path / "data", durability="os") as log:
        assert log.topic("eu.numbers").partitions == 2
        assert "numbers" not in log.topic_names()
    close_environments(tmp_path)


MIRROR = """
name = "mirror"
[config]
durability = "os"

[sources.shop]
kind = "postgres-cdc"
url = "{url}"
tables = ["orders"]
topic = "shop.{{table}}"

[sinks.copy]
kind = "postgres-table"
topics = ["shop.orders"]
url = "{url}"
table = "mirrored"
key = "id"
key_format = "json"
"""


@pytest.mark.server
def test_a_file_mirrors_a_table_of_postgres_with_updates_and_deletes(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    (tmp_path / "mirror.toml").write_text(MIRROR.format(url=postgres.url(database)))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(root, ["--data-dir", str(tmp_path / "data"), "connect", *arguments])
        close_environments(tmp_path)
        assert result.exit_code == 0, result.output
        return result.output

    def mirrored(expected: list[Any]) -> bool:
        run("run", str(tmp_path / "mirror.toml"), "--until", "caught-up")
        rows = postgres.execute("SELECT id, city, total FROM mirrored ORDER BY id", database=database)
        return rows == expected

    postgres.execute("CREATE TABLE orders (id int PRIMARY KEY, city text, total float8)", database=database)
    postgres.execute("INSERT INTO orders VALUES (1, 'Bern', 1.5), (2, 'Basel', 2), (3, NULL, 3)", database=database)
    assert run("check", str(tmp_path / "mirror.toml")) == "shop: ok\ncopy: ok\n"
    wait_until(lambda: mirrored([(1, "Bern", 1.5), (2, "Basel", 2.0), (3, None, 3.0)]))
    postgres.execute("UPDATE orders SET city = 'Chur' WHERE id = 3", database=database)
    postgres.execute("DELETE FROM orders WHERE id = 2", database=database)
    postgres.execute("INSERT INTO orders VALUES (4, 'Davos', 4)", database=database)
    wait_until(lambda: mirrored([(1, "Bern", 1.5), (3, "Chur", 3.0), (4, "Davos", 4.0)]))
    statuses = {item["name"]: item for item in json.loads(run("status", "--json"))}
    assert (statuses["shop"]["guarantee"], statuses["copy"]["rejected"]) == ("exactly once", 0)


def test_a_table_of_an_app_is_written_to_a_database_and_follows_it(tmp_path: Path) -> None:
    """The same loops as in a run on Spark, in this process; a second run continues after the first."""
    app = App("shop", data_dir=tmp_path / "data")
    totals = app.stream("orders", value=dict).group_by(lambda order: order["city"]).count(name="by-city")
    totals.sink(SqliteTable(tmp_path / "shop.db", "totals", key="city"), name="totals")

    def feed_and_run(*cities: str) -> list[Any]:
        with EmbeddedLog(app.data_dir, durability="os") as log:
            create_topics(app._spec(), log)
            with Producer(log) as producer:
                for city in cities:
                    producer.send("orders", {"city": city})
            journal = Journal(journal_dir(app.data_dir, app.id))
            assembly = assemble(app, log, lineage=journal.lineage())
            with Connectors(app._spec(), sinks_of(app._spec(), log)).beside("caught-up", lambda: None):
                local_loop(assembly, journal).run("caught-up")
        close_environments(tmp_path)
        return query(tmp_path / "shop.db", "SELECT city, value FROM totals ORDER BY city")

    assert feed_and_run("Bern", "Basel", "Bern") == [("Basel", 1), ("Bern", 2)]
    assert feed_and_run("Basel", "Chur") == [("Basel", 2), ("Bern", 2), ("Chur", 1)]
