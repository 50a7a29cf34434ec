"""kill -9 at random times: each call of a timer takes effect once, also in batches without records."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog

ROOT = Path(__file__).parents[2]
TRIALS = 5


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_a_killed_process_neither_loses_nor_duplicates_calls_of_timers(tmp_path: Path) -> None:
    seed = int(os.environ.get("MILLSTREAM_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}")
    rng = random.Random(seed)
    sent = 0
    with EmbeddedLog(tmp_path) as log:
        for topic in ("n", "counts"):
            log.create_topic(topic, TopicConfig(partitions=1))
        for _ in range(TRIALS):
            number = rng.randrange(200)
            _run_and_kill(tmp_path, log, number, rng.uniform(0.0, 0.4))
            sent += number
            seen = _counts(log)
            assert len(seen["records"]) <= sent
        before = len(_counts(log)["ticks"])
        _run_and_kill(tmp_path, log, 0, 0.2)
        seen = _counts(log)
    assert len(seen["ticks"]) > before > 0
    for counter, numbers in seen.items():
        assert numbers == list(range(1, len(numbers) + 1)), f"{counter} have a gap or a repetition"


def _run_and_kill(directory: Path, log: EmbeddedLog, records: int, seconds: float) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.ticking", str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "running\n"
        killer = threading.Timer(seconds, victim.kill)
        killer.start()
        if records:
            log.append([Output("n", 0, block_of([None] * records, [b"1"] * records, list(range(records))))])
        killer.join()
    finally:
        victim.kill()
        victim.communicate()


def _counts(log: EmbeddedLog) -> dict[str, list[int]]:
    """Return the numbers that were written by each counter."""
    numbers: dict[str, list[int]] = defaultdict(list)
    (offsets,) = log.offsets("counts")
    for chunk in log.read("counts", 0, 0, offsets.end):
        keys, values = chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist()
        for key, value in zip(keys, values, strict=True):
            numbers[key.decode()].append(int(value))
    return numbers
