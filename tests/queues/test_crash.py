"""Members of a share group killed at random times.

Nothing is lost, what was accepted never comes again, and no record is with two members at a time. Locks are longer than
the test, so that only the death of its member can release a record.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from threading import Event
from time import monotonic_ns

import pytest

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.queues.share_consumer import ShareConsumer

KILLS = int(os.environ.get("MILLSTREAM_TRIALS", "8"))
RECORDS, MEMBERS = 400, 3
"""Records are appended before each kill, so that it interrupts work."""

_MEMBER = """
import random, sys
from pathlib import Path
from time import monotonic_ns
from millstream.log import EmbeddedLog
from millstream.queues.share_consumer import ShareConsumer
chance = random.Random(sys.argv[2])
with EmbeddedLog(Path(sys.argv[1])) as log:
    queue = ShareConsumer(log, "g", topics="jobs", value=int, start="earliest", lock="1 h", max_deliveries=10_000)
    print("ready", flush=True)
    while True:
        jobs = queue.poll(timeout="10 s", max_records=chance.choice([1, 3, 20]))
        taken = monotonic_ns()
        print(*(f"took {job.value} {taken}" for job in jobs), sep="\\n", flush=True)
        accepted = [job for job in jobs if chance.random() < 0.8]
        for job in jobs:
            queue.accept(job) if job in accepted else queue.release(job)
        print(*(f"accepts {job.value} {monotonic_ns()}" for job in accepted), sep="\\n", flush=True)
        released = monotonic_ns()
        print(*(f"releases {job.value} {released}" for job in jobs if job not in accepted), sep="\\n", flush=True)
        queue.commit()
        print(*(f"accepted {job.value} {monotonic_ns()}" for job in accepted), sep="\\n", flush=True)
"""

Spans = dict[int, list[tuple[int, int, int]]]
"""By record: when a member took it, the earliest time at which another may, and the member."""


class Member:
    """A process that takes and answers jobs until it is killed."""

    def __init__(self, directory: Path, number: int, seed: int) -> None:
        self.number = number
        self.output = directory / f"member-{number}"
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _MEMBER, str(directory / "data"), f"{seed}.{number}"], stdout=file
            )

    def wait_until_ready(self) -> None:
        while not self.output.read_text():
            assert self.process.poll() is None
            Event().wait(0.02)

    def kill(self) -> list[tuple[str, int, int]]:
        """Kill the process and return what it did; the last line may be cut off."""
        self.killed_at = monotonic_ns()
        self.process.kill()
        self.process.wait()
        lines = self.output.read_text().splitlines(keepends=True)
        words = [line.split() for line in lines if line.endswith("\n") and len(line.split()) == 3]
        return [(action, int(value), int(time)) for action, value, time in words]


@pytest.mark.crash
@pytest.mark.timeout(120 + 10 * KILLS)
def test_killed_members_lose_nothing_and_share_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {KILLS} kills")
    chance = random.Random(seed)
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("jobs", TopicConfig(partitions=2))
        members = [Member(tmp_path, number, seed) for number in range(MEMBERS)]
        spans: Spans = {}
        accepts: set[int] = set()
        accepted: dict[int, int] = {}
        interrupted = 0
        for kill in range(KILLS):
            member = members.pop(chance.randrange(MEMBERS))
            member.wait_until_ready()
            _append(log, range(kill * RECORDS, (kill + 1) * RECORDS))
            Event().wait(chance.uniform(0, 0.05))
            interrupted += _note(member, spans, accepts, accepted)
            members.append(Member(tmp_path, MEMBERS + kill, seed))
        for member in members:
            _note(member, spans, accepts, accepted)
        with ShareConsumer(log, "g", topics="jobs", value=int, timeout="1 s", max_deliveries=10_000) as rest:
            drained = [record.value for record in rest]
    deliveries = sum(map(len, spans.values()))
    print(
        f"{len(accepted)} accepted, {len(drained)} left, {deliveries} deliveries; "
        f"{interrupted} of {KILLS} kills while the member had records"
    )
    assert accepted.keys().isdisjoint(drained)
    assert accepts | set(drained) == set(range(KILLS * RECORDS))
    for value, taken in spans.items():
        taken.sort()
        for (_, free, first), (next_taken, _, second) in pairwise(taken):
            assert next_taken > free, f"members {first} and {second} had record {value} at the same time"
        assert all(took < accepted.get(value, took + 1) for took, _, _ in taken), f"record {value} came again"


def _append(log: EmbeddedLog, numbers: range) -> None:
    for partition in range(2):
        values = [b"%d" % number for number in numbers[partition::2]]
        log.append([Output("jobs", partition, block_of([None] * len(values), values, [0] * len(values)))])


def _note(member: Member, spans: Spans, accepts: set[int], accepted: dict[int, int]) -> bool:
    """Kill a member, note which records it had and when another could have them, and return whether it had some."""
    taken: dict[int, int] = {}
    for action, value, time in member.kill():
        match action:
            case "took":
                taken[value] = time
            case "releases":
                spans.setdefault(value, []).append((taken.pop(value), time, member.number))
            case "accepts":
                accepts.add(value)
            case "accepted":
                accepted[value] = time
                spans.setdefault(value, []).append((taken.pop(value), member.killed_at, member.number))
    for value, time in taken.items():
        spans.setdefault(value, []).append((time, member.killed_at, member.number))
    return bool(taken)
