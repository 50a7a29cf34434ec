import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill
from tests.cli.running import run_to_end

from millstream import App
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import app_names, lock_file
from millstream.records import Record
from millstream.tables.opening import open_tables

Stored = Callable[[str], list[Record]]


@pytest.fixture
def app(fill: Fill, data_dir: Path) -> App:
    app = App("counts", data_dir=data_dir)
    app.stream("words", value=str).group_by(lambda word: word).count(name="seen").to_stream().to("out")
    fill("out")
    fill("words", (None, b"a", 1000), (None, b"a", 2000), (None, b"b", 3000))
    run_to_end(app)
    return app


def test_a_reset_is_only_shown_without_execute(call: Call, app: App, data_dir: Path, stored: Stored) -> None:
    shown = call("reset", "counts")
    assert shown.stdout.splitlines()[0] == "app      counts, after 1 batch"
    assert "seen-repartition, words" in shown.stdout
    assert "reads    3 records again" in shown.stdout
    assert shown.stderr == "nothing was changed; add --execute to make the change\n"
    assert dict(open_tables(data_dir, "counts")["seen"].items()) == {"a": 2, "b": 1}
    before = len(stored("out"))

    assert call("reset", "counts", "--execute").stderr == "done\n"

    run_to_end(app)
    assert dict(open_tables(data_dir, "counts")["seen"].items()) == {"a": 2, "b": 1}
    assert len(stored("out")) == 2 * before  # a new history writes its results once more


def test_an_app_can_be_reset_to_a_time(call: Call, app: App, data_dir: Path) -> None:
    result = json.loads(call("reset", "--from", "1970-01-01T00:00:02Z", "--execute", "--json").stdout)
    assert result["reset"]["positions"] == {"words/0": 1, "words/1": 0}
    run_to_end(app)
    assert dict(open_tables(data_dir, "counts")["seen"].items()) == {"a": 1, "b": 1}


def test_a_running_or_unknown_app_cannot_be_reset(call: Call, app: App, data_dir: Path) -> None:
    lock = FileLock(lock_file(data_dir, "counts"))
    assert lock.acquire()
    assert "error: app 'counts' is running" in call("reset", "counts", "--execute").stderr
    lock.release()
    assert "error: app 'gone' has not run" in call("reset", "gone").stderr
    assert app_names(data_dir) == ["counts"]


def test_savepoints_on_the_command_line(call: Call, app: App, data_dir: Path) -> None:
    assert call("savepoints", "list").stderr == "there are no savepoints\n"
    assert "created savepoint monday of counts after batch 1" in call("savepoints", "create", "monday").stderr
    (listed,) = json.loads(call("savepoints", "list", "--json").stdout)
    assert (listed["name"], listed["batch"], listed["app"]) == ("monday", 1, "counts")
    call("reset", "counts", "--execute")
    assert call("savepoints", "restore", "monday", input="n\n").stderr.endswith("nothing was changed\n")
    assert "restored counts as of batch 1" in call("savepoints", "restore", "monday", "--yes").stderr
    assert dict(open_tables(data_dir, "counts")["seen"].items()) == {"a": 2, "b": 1}
    assert call("savepoints", "delete", "monday").stderr == "deleted savepoint monday\n"
