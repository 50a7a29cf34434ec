"""Spark dies or hangs while an app runs: the app recovers by itself, and every record counts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.conftest import Feed

from millstream import App, Config
from millstream.views.status import status_of

pytestmark = pytest.mark.spark

JVM_DIES = """
import os, signal, sys, threading
from pathlib import Path
from pyspark import SparkContext
from millstream import Config
from tests.spark.apps import words

words.data_dir = Path(sys.argv[1])
if sys.argv[2] == "driver":
    words.config = Config(partitions=2, small_batch_records=0)
done = threading.Semaphore(0)
words.start(trigger="auto" if sys.argv[2] == "driver" else "realtime", on_batch=lambda report: done.release())
with words.producer(value=str) as producer:
    producer.send("lines", "a b")
assert done.acquire(timeout=200)
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
with words.producer(value=str) as producer:
    producer.send("lines", "a c")
assert done.acquire(timeout=200)
words.stop()
print(sorted(words.tables["words"].items()))
"""


@pytest.mark.parametrize("mode", ["driver", "resident"])
def test_an_app_survives_the_death_of_the_jvm(mode: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", JVM_DIES, str(tmp_path), mode],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
        timeout=280,
    )
    assert ran.stdout == "[('a', 2), ('b', 1), ('c', 1)]\n", ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_stuck_worker_is_cancelled_and_its_batch_runs_again(tmp_path: Path, feed: Feed) -> None:
    marker = tmp_path / "hung"
    app = App("hanging", data_dir=tmp_path, config=Config(partitions=1, stuck_after="10 s"))

    def hang_once(line: str) -> str:
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return line

    app.stream("lines", value=str).map_values(hang_once).group_by(lambda line: line).count(name="seen")
    marker.touch()
    feed(app, "lines", [b"a"], partitions=1)
    app.run("caught-up")  # starts the workers
    marker.unlink()
    feed(app, "lines", [b"b"], partitions=1)

    app.run("caught-up")

    assert marker.exists()
    assert dict(app.tables["seen"].items()) == {"a": 1, "b": 1}
    assert status_of(tmp_path, "hanging").failure is None
