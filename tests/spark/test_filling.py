"""A new table is filled from the past in place, exactly once, while the rest of the app goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.spark.conftest import Feed

from millstream import App, Config, tumbling
from millstream.batch.fill import FillProgress
from millstream.errors import ProcessingError, StateError
from millstream.foundation.paths import fill_dir
from millstream.foundation.storage import close_environments
from millstream.tables.opening import open_tables
from millstream.views.status import status_of

pytestmark = pytest.mark.spark


class Ride(msgspec.Struct):
    zone: int
    fare: int


def first_version(app: App) -> None:
    rides = app.stream("rides", value=Ride)
    rides.group_by(lambda ride: ride.zone).count(name="seen").to_stream().to("seen")


def second_version(app: App) -> None:
    """Add a table on an existing edge, a windowed one on a new edge, and one that groups an existing table."""
    rides = app.stream("rides", value=Ride)
    by_zone = rides.group_by(lambda ride: ride.zone)
    seen = by_zone.count(name="seen")
    seen.to_stream().to("seen")
    by_zone.sum("fare", name="fares").to_stream().to("fares")
    by_fare = rides.group_by(lambda ride: ride.fare % 5).windowed_by(tumbling("100 ms", grace="1 h"))
    by_fare.count(name="windows")
    seen.group_by(lambda zone, n: (n % 3, zone)).count(name="levels")


NEW = ("fares", "windows", "levels")


def app_at(path: Path, define: Callable[[App], None], **config: Any) -> App:
    app = App("rides", data_dir=path, config=Config(partitions=2, caching=False, **config))
    define(app)
    return app


def values(start: int, stop: int) -> list[bytes]:
    return [msgspec.json.encode(Ride(zone=n % 7, fare=n % 11)) for n in range(start, stop)]


def rows(app: App, name: str) -> dict[Any, Any]:
    return {str(key): value for key, value in app.tables[name].items()}


def test_new_tables_are_filled_exactly_as_if_they_had_always_been_there(tmp_path: Path, feed: Feed) -> None:
    old = app_at(tmp_path / "a", first_version)
    feed(old, "rides", values(0, 3000))
    old.run("caught-up")
    feed(old, "rides", values(3000, 3100))
    new = app_at(tmp_path / "a", second_version, max_batch_records=1000)
    progress: list[FillProgress] = []
    new.start("caught-up", fill=NEW, on_fill=progress.append).wait(200)
    assert progress[-1].done == progress[-1].total == 3100
    assert not fill_dir(new.data_dir, "rides").exists()
    feed(new, "rides", values(3100, 3200))
    new.run("caught-up", fill=NEW)  # it is done, so this only runs the app

    always = app_at(tmp_path / "b", second_version)
    feed(always, "rides", values(0, 3000))
    feed(always, "rides", values(3000, 3100))
    feed(always, "rides", values(3100, 3200))
    always.run("caught-up")
    for name in ("seen", *NEW):
        assert rows(new, name) == rows(always, name), name


def test_the_app_goes_on_while_a_table_is_filled(tmp_path: Path, feed: Feed) -> None:
    old = app_at(tmp_path, first_version)
    feed(old, "rides", values(0, 3000))
    old.run("caught-up")
    new = app_at(tmp_path, second_version, max_batch_records=500)
    filling, went_on = threading.Event(), threading.Event()

    def on_fill(progress: FillProgress) -> None:
        if not filling.is_set():
            filling.set()
            assert went_on.wait(200), "no batch of the app while its table was filled"

    def on_batch(report: Any) -> None:
        if filling.is_set():
            went_on.set()

    run = new.start(fill=["fares"], on_fill=on_fill, on_batch=on_batch)
    assert filling.wait(200)
    feed(new, "rides", values(3000, 3100))
    assert went_on.wait(200)
    while fill_dir(new.data_dir, "rides").exists():
        assert not run.wait(0.1)
    feed(new, "rides", values(3100, 3200))
    new.stop()
    new.run("caught-up")
    assert sum(rows(new, "fares").values()) == sum(n % 11 for n in range(3200))
    assert sum(rows(new, "seen").values()) == 3200


def test_a_run_that_dies_between_the_commit_and_the_merge_of_states_continues(
    tmp_path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = app_at(tmp_path, first_version)
    feed(old, "rides", values(0, 500))
    old.run("caught-up")
    new = app_at(tmp_path, second_version)

    def die(*_: object) -> None:
        raise StateError("died")

    with monkeypatch.context() as patch:
        patch.setattr("millstream.admin.upgrade.merge_state", die)
        with pytest.raises(StateError, match="died"):
            new.run("caught-up", fill=["fares"])
    close_environments(tmp_path)
    feed(new, "rides", values(500, 600))
    new.run("caught-up", fill=["fares"])
    assert sum(rows(new, "fares").values()) == sum(n % 11 for n in range(600))
    assert sum(rows(new, "seen").values()) == 600
    assert not fill_dir(tmp_path, "rides").exists()


def test_an_unfinished_fill_continues_without_the_option_and_an_error_of_it_ends_the_run(
    tmp_path: Path, feed: Feed
) -> None:
    marker = tmp_path / "marker"
    marker.touch()

    def failing_version(app: App) -> None:
        first_version(app)

        def add(total: int, ride: Ride) -> int:
            if total > 20 and marker.exists():
                raise ValueError("not yet")
            return total + ride.fare

        rides = app.stream("rides", value=Ride, name="again")
        rides.group_by(lambda ride: ride.zone).aggregate(int, add, name="fares")

    old = app_at(tmp_path, first_version)
    feed(old, "rides", values(0, 500))
    old.run("caught-up")
    new = app_at(tmp_path, failing_version, max_batch_records=100)
    with pytest.raises(ProcessingError, match="not yet"):
        new.run("caught-up", fill=["fares"])
    status = status_of(tmp_path, "rides")
    assert status.fill is not None
    assert status.fill.tables == ("fares",)
    assert 0 <= status.fill.done < status.fill.total == 500
    marker.unlink()
    new.run("caught-up")
    assert sum(rows(new, "fares").values()) == sum(n % 11 for n in range(500))
    assert status_of(tmp_path, "rides").fill is None


APP = """
from millstream import App, Config

app = App("rides", config=Config(partitions=2, max_batch_records=500))
rides = app.stream("rides", value=dict)
rides.group_by(lambda ride: ride["zone"]).count(name="seen").to_stream().to("seen")
"""
NEW_TABLE = """
rides.group_by(lambda ride: ride["zone"]).sum("fare", name="fares").to_stream().to("fares")
"""


@pytest.mark.crash
@pytest.mark.timeout(400)
def test_a_fill_that_is_killed_continues_where_it_was(tmp_path: Path, feed: Feed) -> None:
    file, data = tmp_path / "rides.py", tmp_path / "data"
    app = App("rides", data_dir=data)
    feed(app, "rides", values(0, 12_000))
    close_environments(tmp_path)
    file.write_text(APP)
    _millstream(file, data, "--until", "caught-up").communicate(timeout=200)
    file.write_text(APP + NEW_TABLE)
    seen: list[str] = []
    for _ in range(2):
        process = _millstream(file, data, "--fill", "fares", "--no-web", "--no-progress")
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        seen.append(next(line for line in lines if line.startswith("filling fares: ") and line not in seen))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    output, _ = _millstream(file, data, "--until", "caught-up").communicate(timeout=200)
    assert "filling fares: 12,000 of 12,000 records (100 %)" in output, output
    done = [int(re.sub(r"\D", "", line.partition(":")[2].partition(" of")[0])) for line in seen]
    assert 0 < done[0] < done[1] < 12_000  # it did not start over
    tables = open_tables(data, "rides")
    assert sum(fare for _, fare in tables["fares"].items()) == sum(n % 11 for n in range(12_000))
    assert sum(count for _, count in tables["seen"].items()) == 12_000


def _millstream(file: Path, data: Path, *options: str) -> subprocess.Popen[str]:
    program = "from millstream.cli.main import main; main()"
    command = [sys.executable, "-c", program, "--data-dir", str(data), "run", str(file), *options]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, text=True, start_new_session=True, **pipes)
