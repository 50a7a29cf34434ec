"""Producers killed at random times: nothing acknowledged is lost, nothing is duplicated, order is kept."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import zlib
from pathlib import Path
from threading import Event

import pytest

from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog

TRIALS = int(os.environ.get("MILLSTREAM_TRIALS", "20"))
PARTITIONS = 3

_PRODUCER = """
import random, sys, zlib
from pathlib import Path
from millstream.foundation.blocks import block_of
from millstream.broker import Output
from millstream.log import EmbeddedLog
directory, name, sequence = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with EmbeddedLog(directory) as log:
    while True:
        size = random.Random(f"{name}{sequence}").choice([1, 1, 7, 500])
        outputs = []
        for partition in range(3):
            values = [b"%s %d %d" % (name.encode(), sequence, row) for row in range(size)]
            values = [b"%s %d" % (value, zlib.crc32(value)) for value in values]
            outputs.append(Output("t", partition, block_of([name.encode()] * size, values, [0] * size)))
        log.append_once(name, sequence, outputs)
        print(sequence, flush=True)
        sequence += 1
"""


@pytest.mark.crash
@pytest.mark.timeout(60 + 5 * TRIALS)
def test_killed_producers_neither_lose_nor_duplicate_records(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {TRIALS} kills")
    chance = random.Random(seed)
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", TopicConfig(partitions=PARTITIONS))
    acknowledged = {"p": -1, "q": -1}
    kills = 0
    while kills < TRIALS:
        running = {name: _start(tmp_path, name, last + 1) for name, last in acknowledged.items()}
        for name, process in running.items():
            assert process.stdout is not None
            acknowledged[name] = int(process.stdout.readline())  # the producer has started
            Event().wait(chance.uniform(0, 0.15))
            process.kill()
            kills += 1
            rest = process.stdout.read().splitlines(keepends=True)
            process.wait()
            process.stdout.close()
            done = [int(line) for line in rest if line.endswith("\n")]
            acknowledged[name] = max([acknowledged[name], *done])
        _check(tmp_path, acknowledged)
    print(f"acknowledged {acknowledged}")


def _start(directory: Path, name: str, sequence: int) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", _PRODUCER, str(directory), name, str(sequence)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


def _check(directory: Path, acknowledged: dict[str, int]) -> None:
    with EmbeddedLog(directory) as log:
        for partition, bounds in enumerate(log.offsets("t")):
            records_by_producer: dict[str, list[tuple[int, int]]] = {name: [] for name in acknowledged}
            offsets: list[int] = []
            for chunk in log.read("t", partition, 0, bounds.end):
                offsets += chunk.offsets
                for value in chunk.block.column(1).to_pylist():
                    text, _, check = value.rpartition(b" ")
                    assert zlib.crc32(text) == int(check)
                    name, sequence, row = text.split()
                    records_by_producer[name.decode()].append((int(sequence), int(row)))
            assert offsets == list(range(bounds.end))
            for name, records in records_by_producer.items():
                last = max(acknowledged[name], records[-1][0] if records else -1)
                assert last <= acknowledged[name] + 1, "at most one append is unacknowledged"
                assert records == [
                    (sequence, row) for sequence in range(last + 1) for row in range(_size(name, sequence))
                ]


def _size(name: str, sequence: int) -> int:
    return random.Random(f"{name}{sequence}").choice([1, 1, 7, 500])
