import json
import os
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import Call, Fill
from tests.cli.running import run_to_end

from millstream import App, tumbling
from millstream.batch.journal import Journal
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import journal_dir, lock_file
from millstream.task.report import TaskReport


@pytest.fixture
def counted(fill: Fill, data_dir: Path) -> App:
    """An app that has counted five values by window, one of them late and one not a number."""
    app = App("counts", data_dir=data_dir)
    (
        app.stream("numbers", value=int)
        .group_by(lambda n: n)
        .windowed_by(tumbling("10 ms", grace="0 ms"))
        .count(name="seen")
        .to_stream(lambda window, _: window.key)
        .to("out")
    )
    fill("out")
    fill("numbers", (None, b"1", 0), (None, b"1", 25), (None, b"1", 3), (None, b"x", 30), (None, b"1", 40))
    run_to_end(app)
    return app


def test_the_status_of_a_stopped_app(call: Call, counted: App) -> None:
    output = call("status").stdout
    lines = output.splitlines()
    assert lines[0] == "app           counts, not running"
    assert lines[1].startswith("batches       1 batch; last batch 1, completed ")
    assert lines[2].startswith("records       5 in, 4 out, ")
    assert "lag           none" in lines
    assert "dropped       numbers: error 1, seen: late 1" in lines
    assert "dead letters  1 (see: millstream dlq list)" in lines
    assert "1970-01-01T00:00:00.040Z" in output
    stages, stores = output.index("STAGE"), output.index("STORE")
    assert stages < stores < output.index("seen", stores)


def test_status_as_json(call: Call, counted: App) -> None:
    status = json.loads(call("status", "counts", "--json").stdout)
    assert (status["batch"], status["process"], status["planned"]) == (1, None, None)
    assert status["totals"]["dropped"] == {"numbers: error": 1, "seen: late": 1}
    first, second = status["stages"]
    assert (first["name"], first["totals"]["records_in"], first["totals"]["dead_letters"]) == ("numbers", 5, 1)
    assert (second["totals"]["late"], second["stream_time"]) == (1, 40)
    assert second["stores"]["seen"]["rows"] >= 1
    assert second["stores"]["seen"]["bytes"] >= 4096
    assert status["phases"]["run"] > 0


def test_the_records_time_and_host_of_each_task_show_skew(call: Call, counted: App, data_dir: Path) -> None:
    journal = Journal(journal_dir(data_dir, "counts"))
    (report,) = journal.history.batches()
    second = msgspec.structs.replace(
        report,
        plan=msgspec.structs.replace(report.plan, number=2),
        tasks=[TaskReport(task=0, stage="seen", partition=7, records_in=90, seconds=30.0, host="10.0.0.2")],
    )
    journal.write(journal.read()[0], None, second)
    tasks = json.loads(call("status", "--tasks", "--json").stdout)["tasks"]
    assert tasks[0] == {
        "stage": "seen",
        "partition": 7,
        "host": "10.0.0.2",
        "batches": 1,
        "records_in": 90,
        "seconds": 30.0,
    }
    assert all(task["host"] == "" and task["records_in"] > 0 for task in tasks[1:])
    assert "tasks" not in json.loads(call("status", "--json").stdout)
    header, first = call("status", "--tasks").stdout.partition("tasks in the last 200 batches:\n")[2].splitlines()[:2]
    assert header.split()[:5] == ["TASK", "HOST", "BATCHES", "RECORDS", "SECONDS"]
    assert first.split()[:5] == ["seen/7", "10.0.0.2", "1", "90", "30.000"]


def test_a_running_app_is_shown_with_its_process(call: Call, counted: App, data_dir: Path) -> None:
    lock = FileLock(lock_file(data_dir, "counts"))
    assert lock.acquire()
    assert call("status").stdout.startswith(f"app           counts, starting in process {os.getpid()}\n")
    assert "running" in call("top").stdout
    lock.release()


def test_top_shows_all_apps_or_some(call: Call, counted: App, data_dir: Path, fill: Fill) -> None:
    other = App("other", data_dir=data_dir)
    other.stream("numbers", value=str).to("copies")
    fill("copies")
    run_to_end(other)
    rows = call("top").stdout.splitlines()
    assert [row.split()[:3] for row in rows] == [
        ["APP", "STATE", "BATCH"],
        ["counts", "stopped", "1"],
        ["other", "stopped", "1"],
    ]
    assert len(call("top", "other", "--times", "2", "--every", "0.1").stdout.splitlines()) == 4


def test_the_app_must_be_named_if_there_are_several(call: Call, counted: App, data_dir: Path, fill: Fill) -> None:
    other = App("other", data_dir=data_dir)
    other.stream("numbers").to("copies")
    run_to_end(other)
    refused = call("status")
    assert refused.exit_code == 1
    assert refused.stderr.endswith("name one, as in: millstream status counts; there are: counts, other\n")


def test_an_unknown_app(call: Call, counted: App) -> None:
    refused = call("status", "gone")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "error: app 'gone' has not run on" in refused.stderr
    assert "apps there: counts" in refused.stderr
