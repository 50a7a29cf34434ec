"""``millstream connect``: a file is checked and run without Spark, and its connectors are shown and steered."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from millstream.admin.doctor import examine
from millstream.batch.batch import Batch
from millstream.batch.journal import Journal
from millstream.broker import TopicConfig
from millstream.cli.main import root
from millstream.connect.connect_file import read_connect_file
from millstream.errors import DefinitionError
from millstream.foundation.paths import connector_file, delivery_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.task.task_input import Range

FILE = """
name = "shop"
[config]
durability = "os"
[sinks.orders]
kind = "sqlite-table"
topics = ["orders"]
path = "{path}"
table = "orders"
transform = [
  {{ mask = ["email"] }}, {{ drop = ["internal"] }}, {{ rename = {{ n = "count" }} }}, {{ where = "value.count > 0" }}
]
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A file with a sink, and a topic with four records."""
    (tmp_path / "shop.toml").write_text(FILE.format(path=tmp_path / "shop.db"))
    feed(tmp_path, [{"n": 1, "email": "a@example.org", "internal": 5}, {"n": 0}, {"n": 2}, {"n": 3}])
    return tmp_path


def feed(directory: Path, values: list[Any]) -> None:
    with EmbeddedLog(directory / "data", durability="os") as log:
        if "orders" not in log.topic_names():
            log.create_topic("orders", TopicConfig(partitions=1))
        with Producer(log) as producer:
            for number, value in enumerate(values):
                producer.send("orders", value, key=f"k{number}")


def run(directory: Path, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(root, ["--data-dir", str(directory / "data"), "connect", *arguments])
    close_environments(directory)
    assert result.exit_code == code, result.output
    return result.output


def rows(directory: Path) -> list[Any]:
    with sqlite3.connect(directory / "shop.db") as connection:
        return connection.execute("SELECT key, count FROM orders ORDER BY key").fetchall()


def test_a_file_runs_and_its_sink_is_shown(shop: Path) -> None:
    assert run(shop, "check", str(shop / "shop.toml")) == "orders: ok\n"
    run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up")
    assert rows(shop) == [("k0", 1), ("k2", 2), ("k3", 3)]
    with sqlite3.connect(shop / "shop.db") as connection:
        [(email,)] = connection.execute("SELECT email FROM orders WHERE key = 'k0'").fetchall()
    assert len(email) == 16
    [status] = json.loads(run(shop, "status", "--json"))
    assert status["app"] == "shop"
    assert (status["guarantee"], status["records"], status["waiting"]) == ("exactly once", 3, 0)
    assert "SqliteTable" in run(shop, "status")


def test_positions_are_shown_and_set_only_with_execute(shop: Path) -> None:
    run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up")
    output = run(shop, "positions", "orders", "--set", "orders/0=2", "--json")
    shown, _ = json.JSONDecoder().raw_decode(output)
    assert shown == {"executed": False, "before": {"orders/0": "4"}, "now": {"orders/0": "4"}}
    run(shop, "positions", "orders", "--set", "orders/0=2", "--execute")
    with sqlite3.connect(shop / "shop.db") as connection:
        connection.execute("DELETE FROM orders")
    run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up")
    assert rows(shop) == [("k2", 2), ("k3", 3)]
    output = run(shop, "positions", "orders", "--set", "elsewhere/0=2", "--execute", code=1)
    assert "is not a valid position of sink 'orders'; write TOPIC/PARTITION=OFFSET for one of: orders/0" in output


def test_a_position_of_a_sink_is_not_set_while_a_batch_is_unfinished(shop: Path) -> None:
    run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up")
    journal = Journal(delivery_dir(shop / "data", "shop", "shop.sink.orders"))
    progress, _ = journal.read()
    unfinished = Batch(number=progress.done + 1, ranges=(Range("orders", 0, 4, 5),), wall_time=0)
    journal.write(progress, unfinished)
    close_environments(shop)
    output = run(shop, "positions", "orders", "--set", "orders/0=2", "--execute", code=1)
    assert f"batch {unfinished.number} of sink 'orders' is not finished" in output
    run(shop, "positions", "orders", "--set", "orders/0=2", "--execute", "--discard-batch")
    journal = Journal(delivery_dir(shop / "data", "shop", "shop.sink.orders"))
    moved, planned = journal.read()
    assert (moved.done, moved.positions, planned) == (unfinished.number, {"orders/0": 2}, None)


def test_a_position_outside_the_topic_is_refused(shop: Path) -> None:
    run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up")
    output = run(shop, "positions", "orders", "--set", "orders/0=5", "--execute", code=1)
    assert "orders/0 has no offset 5; choose one from 0 to 4" in output


def test_a_sink_whose_journal_is_lost_or_replaced_does_not_write_everything_again(shop: Path) -> None:
    run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up")
    journal = delivery_dir(shop / "data", "shop", "shop.sink.orders")
    shutil.rmtree(journal)
    [problem] = [finding.problem for finding in examine(shop / "data") if finding.problem]
    assert problem == "the journal of sink 'orders' is lost"
    output = run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up", code=1)
    assert "is lost or was replaced: batch 1 of lineage" in output
    shutil.rmtree(journal)
    connector_file(shop / "data", "shop", "orders", "status").unlink()
    assert [finding for finding in examine(shop / "data") if finding.problem] == []


def test_a_paused_sink_stays_paused_until_it_is_resumed(shop: Path) -> None:
    run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up")
    run(shop, "pause", "orders")
    feed(shop, [{"n": 9}])
    run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up")
    assert rows(shop)[0] == ("k0", 1)
    run(shop, "resume", "orders")
    run(shop, "run", str(shop / "shop.toml"), "--until", "caught-up")
    assert rows(shop)[0] == ("k0", 9)
    assert "there is no source or sink 'missing'" in run(shop, "restart", "missing", code=1)


def test_kinds_are_listed_with_their_settings() -> None:
    output = CliRunner().invoke(root, ["connect", "kinds"]).output
    assert "postgres-table" in output
    assert "exactly once" in output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("kind =", "kind = 'sqlite-tabel' #"), "unknown kind of sink 'sqlite-tabel'; did you mean 'sqlite-table'?"),
        (("table =", "tabel ="), "sink 'orders' has no setting 'tabel'; did you mean 'table'?"),
        (("table =", "# table ="), "sink 'orders' has no 'table'; add table = ..."),
        (("topics =", "# topics ="), "sink 'orders' has no topics"),
        (("mask =", "masc ="), "unknown transform 'masc' of sink 'orders'; did you mean 'mask'?"),
        (("value.count >", "value.count >>"), "transform 'where' of sink 'orders' is not valid"),
        (('table = "orders"', 'table = "orders"\\nmode = "replace"'), "mode='replace' of sink 'orders' is not valid"),
        (("[config]", "[confg]"), "unknown setting 'confg'"),
        (("[sinks.orders]", "[sinks.orders"), "is not valid TOML"),
        (("rename = { n =", "route = '{{n}}', x = {{ n ="), "is not valid TOML"),
    ],
)
def test_mistakes_in_a_file_are_named(shop: Path, change: tuple[str, str], message: str) -> None:
    path = shop / "shop.toml"
    path.write_text(path.read_text().replace(change[0], change[1].encode().decode("unicode_escape")))
    with pytest.raises(DefinitionError) as error:
        read_connect_file(path)
    assert message in str(error.value)


@pytest.mark.crash
def test_a_killed_process_loses_and_doubles_nothing_and_needs_no_jvm(shop: Path) -> None:
    """The table is appended to, so that a row that is written twice is visible."""
    path = shop / "shop.toml"
    path.write_text(path.read_text() + 'mode = "append"\n')
    program = (
        "import sys; from millstream.cli.main import main; import atexit; sys.argv[0] = 'millstream'\n"
        "try: main()\nfinally: assert 'pyspark' not in sys.modules"
    )
    command = [sys.executable, "-c", program, "--data-dir", str(shop / "data"), "connect", "run", str(path)]
    expected = 3
    for kill in range(4):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        feed(shop, [{"n": 10 * kill + n} for n in range(1, 40)])
        expected += 39
        for _ in range(600):
            if _count(shop) >= (expected - 20 if kill < 3 else expected):
                break
            threading.Event().wait(0.05)
        process.send_signal(signal.SIGKILL if kill < 3 else signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert _count(shop) == expected


def _count(directory: Path) -> int:
    try:
        with sqlite3.connect(directory / "shop.db") as connection:
            return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
