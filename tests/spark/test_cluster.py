"""An app on a standalone cluster whose hosts share a secret and have their own disks; hosts are added and lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.rpc import requires_authentication
from tests.spark.standalone import LoopbackMachine, Standalone, standalone

from millstream import Config
from millstream.broker import Output, TopicConfig
from millstream.errors import DefinitionError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.spark.cluster import is_cluster

WORDS = "abcdefghij"
LINES = 240
BATCH = 8
SECRET = "a-secret-that-all-hosts-share"

SCRIPT = """
import json
import sys
import time
from millstream import App, Config, Secret
from millstream.spark.hosts import executor_cores
from pyspark import SparkContext
from splitting import words

app = App(
    "cluster",
    data_dir={directory!r},
    config=Config(
        partitions=4,
        caching=False,
        durability="os",
        master={master!r},
        checkpoint={checkpoint!r},
        snapshot_every=3,
        max_batch_records={batch},
        spark={{
            "spark.executor.memory": "512m",
            "spark.authenticate": "true",
            "spark.authenticate.secret": Secret.file({secret_file!r}),
        }},
    ),
)
(
    app.stream("lines", value=str)
    .flat_map_values(words)
    .group_by(lambda word: word)
    .count(name="words")
    .to_stream()
    .to("word-counts")
)


def on_batch(report):
    tasks = {{task.name: (task.host, task.restore_seconds) for task in report.tasks if task.stage}}
    print(json.dumps([report.plan.number, tasks]), flush=True)
    hosts = int(sys.stdin.readline())
    while len(executor_cores(SparkContext._active_spark_context)) < hosts:
        time.sleep(0.05)


if __name__ == "__main__":
    app.run("caught-up", on_batch=on_batch)
    print("done", flush=True)
"""

Tasks = dict[str, tuple[str, float]]
"""By task, the host that ran it and the seconds that it needed to restore its state."""


@pytest.mark.spark
@pytest.mark.crash
@pytest.mark.timeout(280)
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the processes of a worker in /proc")
def test_tasks_follow_hosts_that_join_and_are_lost_and_no_record_is_lost_or_counted_twice(tmp_path: Path) -> None:
    lines = [f"{WORDS[n % 10]} {WORDS[n * 3 % 10]}".encode() for n in range(LINES)]
    first, second = LoopbackMachine(2, tmp_path), LoopbackMachine(3, tmp_path)
    with EmbeddedLog(tmp_path / "data") as log, standalone(tmp_path, SECRET) as cluster:
        assert requires_authentication(*cluster.address)
        fill(log, lines)
        cluster.start_worker(first)

        def change_hosts(batch: int, tasks: Tasks) -> int:
            if batch == 2:
                cluster.start_worker(second)
                return 2
            if not losses and {host for host, _ in tasks.values()} == {first.address, second.address}:
                cluster.lose_worker(first)
                losses.append(batch)
            return 1

        losses: list[int] = []
        (tmp_path / "secret").write_text(SECRET)
        batches = run(tmp_path, cluster, change_hosts)
        counts = read_counts(log)

    expected = Counter(word for line in lines for word in line.decode().split())
    assert counts == {word: list(range(1, count + 1)) for word, count in expected.items()}
    hosts = {number: {host for host, _ in tasks.values()} for number, tasks in batches.items()}
    restored = {number for number, tasks in batches.items() for _, seconds in tasks.values() if seconds}
    print("hosts by batch:", hosts, "batches with restored states:", restored)
    assert hosts[1] == {first.address}
    assert losses, "the new host gets tasks"
    assert losses[0] <= 2 + 10, "a host that joins takes over tasks within ten batches"
    assert hosts[max(hosts)] == {second.address}
    assert restored, "states of the lost host must be restored"
    assert list((tmp_path / "checkpoint").rglob("*.snapshot"))


def fill(log: EmbeddedLog, lines: list[bytes]) -> None:
    log.create_topic("lines", TopicConfig(partitions=4))
    for partition in range(4):
        own = lines[partition::4]
        log.append([Output("lines", partition, block_of([None] * len(own), own, list(range(len(own)))))])


def read_counts(log: EmbeddedLog) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {}
    for partition, offsets in enumerate(log.offsets("word-counts")):
        for chunk in log.read("word-counts", partition, 0, offsets.end):
            columns = zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True)
            for key, value in columns:
                counts.setdefault(key.decode(), []).append(int(value))
    return counts


def run(tmp_path: Path, cluster: Standalone, after_batch: Callable[[int, Tasks], int]) -> dict[int, Tasks]:
    """Run the app to the end of its input and return its tasks by batch.

    ``after_batch`` is called between batches; the app waits until it has the number of hosts that it returns.
    """
    script = tmp_path / "code" / "cluster_app.py"
    source = SCRIPT.format(
        directory=str(tmp_path / "data"),
        master=cluster.url,
        checkpoint=str(tmp_path / "checkpoint"),
        batch=BATCH,
        secret_file=str(tmp_path / "secret"),
    )
    script.parent.mkdir()
    script.write_text(source)
    (script.parent / "splitting.py").write_text("def words(line):\n    return line.split()\n")
    process = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    batches: dict[int, Any] = {}
    try:
        for line in process.stdout:
            if line == "done\n":
                break
            number, tasks = json.loads(line)
            batches[number] = tasks
            process.stdin.write(f"{after_batch(number, tasks)}\n")
            process.stdin.flush()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    return batches


def test_several_executors_need_a_checkpoint() -> None:
    assert not is_cluster(Config())
    assert is_cluster(Config(master="local-cluster[2,1,1024]", checkpoint="/somewhere"))
    with pytest.raises(DefinitionError, match="there is no checkpoint for their state"):
        is_cluster(Config(master="spark://host:7077"))
