"""An app on two executors with separate disks: one is killed during the run, the result equals an oracle."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from millstream import Config
from millstream.broker import Output, TopicConfig
from millstream.errors import DefinitionError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.spark.cluster import is_cluster

ROOT = Path(__file__).parents[2]
WORDS = "abcdefghij"
LINES = 40

SCRIPT = """
import sys
from millstream import App, Config

SETTINGS = {{"spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": {path!r}}}
app = App(
    "cluster",
    data_dir={directory!r},
    config=Config(
        partitions=2,
        caching=False,
        durability="os",
        master="local-cluster[2,1,1024]",
        checkpoint={checkpoint!r},
        snapshot_every=3,
        max_batch_records={batch},
        spark=SETTINGS,
    ),
)
(
    app.stream("lines", value=str)
    .flat_map_values(str.split)
    .group_by(lambda word: word)
    .count(name="words")
    .to_stream()
    .to("word-counts")
)


def on_batch(report):
    restored = sum(task.restore_seconds for task in report.tasks)
    print("batch", report.plan.number, round(restored, 4), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    app.run("caught-up", on_batch=on_batch)
    print("done", flush=True)
"""


@pytest.fixture
def _no_leftovers() -> Iterator[None]:
    """Delete the working directories of executors, which Spark keeps in its installation directory."""
    work = Path(pyspark.__file__).parent / "work"
    before = set(work.glob("app-*"))
    yield
    for path in set(work.glob("app-*")) - before:
        shutil.rmtree(path, ignore_errors=True)


def executors(driver: int) -> list[int]:
    """Return the executors that descend from a process."""
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"CoarseGrainedExecutorBackend" in (path / "cmdline").read_bytes() and driver in ancestors(path.name):
                processes.append(int(path.name))
        except OSError:
            continue
    return processes


def ancestors(process: str) -> set[int]:
    parents: set[int] = set()
    while process not in ("0", "1"):
        process = (Path("/proc") / process / "stat").read_text().rpartition(")")[2].split()[1]
        parents.add(int(process))
    return parents


@pytest.mark.spark
@pytest.mark.crash
@pytest.mark.timeout(280)
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds executors in /proc")
@pytest.mark.usefixtures("_no_leftovers")
def test_after_an_executor_is_killed_its_state_is_restored_and_nothing_is_lost(tmp_path: Path) -> None:
    script = tmp_path / "cluster_app.py"
    source = SCRIPT.format(
        directory=str(tmp_path / "data"),
        checkpoint=str(tmp_path / "checkpoint"),
        batch=LINES // 4,
        path=os.pathsep.join([str(ROOT / "src"), str(tmp_path)]),
    )
    script.write_text(source)
    lines = [f"{WORDS[n % 10]} {WORDS[n * 3 % 10]}".encode() for n in range(LINES)]
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("lines", TopicConfig(partitions=2))
        for part in range(2):
            mine = lines[part::2]
            log.append([Output("lines", part, block_of([None] * len(mine), mine, list(range(len(mine)))))])
        restores = run_and_kill(script)
        seen: dict[str, list[int]] = {}
        for part, offsets in enumerate(log.offsets("word-counts")):
            for chunk in log.read("word-counts", part, 0, offsets.end):
                columns = zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True)
                for key, value in columns:
                    seen.setdefault(key.decode(), []).append(int(value))

    expected = Counter(word for line in lines for word in line.decode().split())
    assert seen == {word: list(range(1, count + 1)) for word, count in expected.items()}
    print("seconds to restore by batch:", restores)
    assert restores[1] == 0.0
    assert any(seconds > 0 for seconds in restores.values()), "the state of the killed executor must be restored"
    assert list((tmp_path / "checkpoint").rglob("*.snapshot"))


def run_and_kill(script: Path) -> dict[int, float]:
    """Run the app and kill an executor after the second batch; return the seconds of restores by batch."""
    process = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    restores: dict[int, float] = {}
    try:
        for line in process.stdout:
            if line == "done\n":
                break
            _, number, seconds = line.split()
            restores[int(number)] = float(seconds)
            if number == "2":
                os.kill(executors(process.pid)[0], signal.SIGKILL)
            process.stdin.write("go\n")
            process.stdin.flush()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    return restores


def test_several_executors_need_a_checkpoint() -> None:
    assert not is_cluster(Config())
    assert is_cluster(Config(master="local-cluster[2,1,1024]", checkpoint="/somewhere"))
    with pytest.raises(DefinitionError, match="there is no checkpoint for their state"):
        is_cluster(Config(master="spark://host:7077"))
