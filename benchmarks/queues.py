"""Queues: records per second through a share group of the embedded log, each poll flushed to disk.

    .venv/bin/python -m benchmarks.queues [RECORDS]

Members take records of 100 bytes from a topic with one partition and accept them with their next poll. A poll returns
when the answers that it has sent, and the locks on what it returns, are on disk: two flushes of the disk (LMDB's pages,
then its header), which members in threads of one process share. The CPU time is that of the whole process. Without
TMPDIR on a real disk, nothing is flushed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from threading import Thread
from time import perf_counter, process_time

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.queues.share_consumer import ShareConsumer

_BLOCK = 10_000
_CASES = ((1, 1), (8, 1), (1, 50), (1, 500), (4, 500), (1, 2_000))
"""Members, and records per poll."""
_MAX_POLLS = 2_000


def fill(log: EmbeddedLog, records: int) -> None:
    """Write records of 100 bytes."""
    log.create_topic("jobs", TopicConfig(partitions=1))
    block = block_of([b"key"] * _BLOCK, [b"x" * 100] * _BLOCK, [0] * _BLOCK)
    for _ in range(records // _BLOCK):
        log.append([Output("jobs", 0, block)])


class Member(Thread):
    """Takes records until there are none, or for a number of polls."""

    def __init__(self, log: EmbeddedLog, group: str, size: int, polls: int) -> None:
        super().__init__()
        self.taken = self.polls = 0
        self._size, self._most = size, polls
        self.consumer = ShareConsumer(
            log, group, topics="jobs", key=bytes, value=bytes, acknowledge="implicit", start="earliest"
        )

    def run(self) -> None:
        while self.polls < self._most:
            records = self.consumer.poll(timeout=0, max_records=self._size)
            self.polls += 1
            self.taken += len(records)
            if not records:
                break


def measure(log: EmbeddedLog, members: int, size: int) -> tuple[float, float, float]:
    """Return records per second, polls per second and records per CPU second."""
    group = [Member(log, f"group-{members}-{size}", size, _MAX_POLLS // members) for _ in range(members)]
    started, cpu = perf_counter(), process_time()
    for member in group:
        member.start()
    for member in group:
        member.join()
    seconds, cpu = perf_counter() - started, process_time() - cpu
    for member in group:
        member.consumer.close()
    taken, polls = sum(member.taken for member in group), sum(member.polls for member in group)
    return taken / seconds, polls / seconds, taken / cpu


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as directory, EmbeddedLog(Path(directory)) as log:
        fill(log, records)
        print(f"{'members':>8} {'per poll':>9} {'records/s':>12} {'polls/s':>9} {'records/CPU s':>14}")
        for members, size in _CASES:
            rate, polls, per_cpu = measure(log, members, size)
            print(f"{members:8} {size:9,} {rate:12,.0f} {polls:9,.0f} {per_cpu:14,.0f}")


if __name__ == "__main__":
    main()
