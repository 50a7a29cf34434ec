"""An app with changelogs on a Spark cluster: seats, executors that come and go, and Spark's speculative execution."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.spark.standalone import LoopbackMachine, Standalone, descendants, standalone

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the processes of a worker in /proc"),
]

ROOT = Path(__file__).parents[2]
WORDS = "abcdefghij"
PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A cluster of two hosts with a core each."""
    directory = tmp_path_factory.mktemp("spark")
    with standalone(directory) as cluster:
        for number in (2, 3):
            cluster.start_worker(LoopbackMachine(number, directory))
        yield cluster


class ClusterApp:
    """The app in its own process, and what it must have counted."""

    def __init__(
        self, kafka: KafkaBroker, name: str, directory: Path, master: str, *, small: int, spark: Mapping[str, str]
    ) -> None:
        self._kafka = kafka
        self._name = name
        self._expected: Counter[str] = Counter()
        self._lines = 0
        kafka.create_topic(f"{name}-lines", TopicConfig(partitions=2))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "MILLSTREAM_BROKER": kafka.url,
            "CLUSTER_APP": name,
            "CLUSTER_APP_DIR": str(directory / "data"),
            "CLUSTER_APP_MASTER": master,
            "CLUSTER_APP_SMALL": str(small),
            "CLUSTER_APP_SPARK": json.dumps(dict(spark)),
        }
        command = [sys.executable, str(Path(__file__).parent / "cluster_app.py")]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
        self.lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line != "started\n":
                self.lines.put(json.loads(line))

    def feed(self, count: int) -> None:
        """Append lines of two words."""
        numbers = range(self._lines, self._lines + count)
        self._lines += count
        for partition in (0, 1):
            own: list[bytes | None] = [
                f"{WORDS[n % 10]} {WORDS[n * 3 % 10]}".encode() for n in numbers if n % 2 == partition
            ]
            self._expected.update(word for line in own if line is not None for word in line.decode().split())
            self._kafka.append(
                [Output(f"{self._name}-lines", partition, block_of([None] * len(own), own, [0] * len(own)))]
            )

    def next_batch(self) -> tuple[set[str], bool]:
        """Wait for a batch; return its hosts, and whether it ran in seats."""
        _, hosts, seated = self.lines.get(timeout=PATIENCE_SECONDS)
        return set(hosts), seated

    def command(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def wait_until_counted(self) -> None:
        """Wait until every word was counted; each count must have been emitted once, in order."""
        expected = {word: list(range(1, count + 1)) for word, count in self._expected.items()}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while sum(map(len, (counts := self._counts()).values())) < self._expected.total():
            assert self.process.poll() is None, "the app has ended"
            assert time.monotonic() < deadline, f"counted {counts}"
            threading.Event().wait(0.1)
        assert counts == expected

    def _counts(self) -> dict[str, list[int]]:
        counts: dict[str, list[int]] = {}
        topic = f"{self._name}-counts"
        if topic not in self._kafka.topic_names():
            return counts
        for partition, offsets in enumerate(self._kafka.offsets(topic)):
            for chunk in self._kafka.read(topic, partition, 0, offsets.end):
                columns = zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True)
                for key, value in columns:
                    counts.setdefault(key.decode(), []).append(int(value))
        return counts

    def stop(self) -> None:
        """End the app."""
        self.command("stop")
        assert self.process.wait(60) == 0

    def kill(self) -> None:
        """Kill what is left of the app."""
        is_running = self.process.poll() is None
        for process in [*descendants(self.process.pid), self.process.pid] if is_running else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@pytest.fixture
def start(spark: Standalone, cluster: Cluster, kafka: KafkaBroker, name: str, tmp_path: Path) -> Iterator[Any]:
    """Start an app on the cluster; it is killed in the end if it still runs."""
    apps: list[ClusterApp] = []

    def start(small: int = 2000, **settings: str) -> ClusterApp:
        options = {key.replace("_", "."): value for key, value in settings.items()}
        app = ClusterApp(kafka, name, tmp_path, spark.url, small=small, spark=options)
        apps.append(app)
        return app

    yield start
    for app in apps:
        app.kill()


def executors(spark: Standalone) -> list[int]:
    """Return the processes of all executors."""
    processes = []
    for process in descendants(os.getpid()):
        command = Path(f"/proc/{process}/cmdline")
        if command.exists() and b"CoarseGrainedExecutorBackend" in command.read_bytes():
            processes.append(process)
    return processes


def feed_until(app: ClusterApp, seated: bool, hosts: Collection[str] = ()) -> None:
    """Feed small batches until one has run in seats, or without, on at least these hosts."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        app.feed(4)
        used, is_seated = app.next_batch()
        if is_seated == seated and used.issuperset(hosts):
            return
    raise AssertionError("no such batch")


def test_small_batches_run_in_seats_which_are_left_for_other_jobs_and_survive_a_lost_executor(
    start: Any, spark: Standalone
) -> None:
    app = start()
    feed_until(app, seated=True, hosts=("127.0.0.2", "127.0.0.3"))  # seats exchange records between hosts
    app.command("job")
    while not isinstance(answer := app.lines.get(timeout=PATIENCE_SECONDS), int):
        app.feed(4)
    assert answer == sum(range(1, 101)), "another job gets the cores of the seats"
    feed_until(app, seated=True)
    os.kill(executors(spark)[0], signal.SIGKILL)
    app.feed(60)
    app.wait_until_counted()
    feed_until(app, seated=True)
    app.wait_until_counted()
    app.stop()


def test_two_attempts_of_a_task_by_speculation_take_effect_once(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = tmp_path / "attempts"
    attempts.mkdir()
    monkeypatch.setenv("CLUSTER_APP_ATTEMPTS", str(attempts))
    app = start(
        small=0,
        spark_speculation="true",
        spark_speculation_interval="10ms",
        spark_speculation_multiplier="1.01",
        spark_speculation_quantile="0.1",
        spark_speculation_minTaskRuntime="1ms",
    )
    app.feed(160)
    app.wait_until_counted()
    app.stop()
    repeated = [path.name for path in attempts.iterdir() if not path.name.endswith(".0")]
    assert repeated, "Spark has started second attempts, which ran the function too"


def test_executors_that_end_when_idle_and_those_that_are_decommissioned_lose_nothing(
    start: Any, spark: Standalone
) -> None:
    app = start(
        spark_dynamicAllocation_enabled="true",
        spark_dynamicAllocation_shuffleTracking_enabled="true",
        spark_dynamicAllocation_minExecutors="0",
        spark_dynamicAllocation_executorIdleTimeout="3s",
        spark_dynamicAllocation_cachedExecutorIdleTimeout="3s",
        spark_decommission_enabled="true",
    )
    feed_until(app, seated=True)
    for process in executors(spark)[:1]:
        os.kill(process, signal.SIGPWR)  # decommissions an executor, which finishes its tasks
    app.feed(60)
    app.wait_until_counted()
    app.stop()


def test_an_app_whose_master_has_forgotten_it_starts_spark_again(start: Any, spark: Standalone) -> None:
    """So does a master that was cut off from the driver. Spark would wait for executors forever."""
    app = start(small=0, spark_network_timeout="10s")
    feed_until(app, seated=False)
    spark.restart_master()
    for process in executors(spark):  # as the workers do when they register with the new master
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    app.feed(4)
    app.wait_until_counted()
