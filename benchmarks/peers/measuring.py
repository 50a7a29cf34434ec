"""How zone counts are measured on Kafka, for any program that does them: from outside, by what a reader can see.

A ride counts as done when a reader of committed records can see a count that includes it; nothing is carried through
the program. Throughput is taken between the moments at which a tenth of the rides and all of them were counted, so
that neither the start of processes nor a first large batch falls into it.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.zone_counts import MINUTE, PARTITIONS, ZONES, ZoneCount, counts_out
from confluent_kafka import Consumer, Producer, TopicPartition

from millstream.blocks import rows_of
from millstream.broker import TopicConfig
from millstream.kafka import KafkaBroker
from millstream.records import TopicPartition as Place

_LOOK_SECONDS = 0.1
_QUIET_SECONDS = 5.0
_LONGEST_SECONDS = 240.0
_WARM = 0.1
_RATE = 1_000
_PULSE_SECONDS = 0.005
_WARM_UP_SECONDS = 8.0
_LATENCY_SECONDS = 15.0
_DRAIN_SECONDS = 3.0
_TICKS = os.sysconf("SC_CLK_TCK")
Window = tuple[int, int]
Start = Callable[["Job", str, str], "subprocess.Popen[bytes]"]
"""Starts a program that reads one topic and writes to another."""


class DidNotEndError(Exception):
    """A program died, or takes too long; what it has said is in the text."""


@dataclass(frozen=True)
class Job:
    """A program that counts, in one of its variants."""

    start: Start
    name: str
    directory: Path
    caching: bool

    def app(self, source: str) -> str:
        """Return the name under which it runs, which is that of its consumer group."""
        return f"{self.name}-{source}"

    def place(self, source: str) -> Path:
        """Make a directory for its state."""
        path = self.directory / self.app(source)
        path.mkdir()
        return path

    def failed(self, source: str, what: str) -> DidNotEndError:
        """Build the error, with the last lines that it has printed."""
        return DidNotEndError(f"{what}: {(self.directory / self.app(source) / 'log').read_text()[-2000:]}")

    @contextmanager
    def running(self, source: str, target: str) -> Iterator[subprocess.Popen[bytes]]:
        """Let it run for as long as the block."""
        process = self.start(self, source, target)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def reading(broker: KafkaBroker, records: int) -> dict[str, Any]:
    """Read the topic ``rides`` into Python and return how many records that makes per second of processor time."""
    began, used = time.perf_counter(), time.process_time()
    chunks = (
        chunk
        for partition, there in enumerate(broker.offsets("rides"))
        for chunk in broker.read("rides", partition, there.begin, there.end)
    )
    found = sum(len(rows_of(chunk.block).values) for chunk in chunks)
    assert found == records, f"{found} records were read"
    return {
        "records_per_second": records / (time.perf_counter() - began),
        "processor_seconds": (time.process_time() - used) / records * 1e6,
        "per_core": records / (time.process_time() - used),
    }


def throughput(broker: KafkaBroker, job: Job, records: int, expected: Counter[Window]) -> dict[str, Any]:
    """Let the job work off the topic ``rides`` and return how quickly its counts came."""
    target = f"{job.name}-counts"
    broker.create_topic(target, TopicConfig(partitions=PARTITIONS))
    looks: list[tuple[float, list[int]]] = []
    began = time.perf_counter()
    with job.running("rides", target) as process:
        quiet_since, processor = began, 0.0
        while time.perf_counter() - quiet_since < _QUIET_SECONDS or not _has_read_all(broker, job.app("rides")):
            ends = [there.end for there in broker.offsets(target)]
            if any(ends) and (not looks or ends != looks[-1][1]):
                quiet_since = time.perf_counter()
                looks.append((quiet_since, ends))
                processor = processor_seconds(process.pid)
            if process.poll() is not None or time.perf_counter() - began > _LONGEST_SECONDS:
                done = f"{len(looks)} looks, {ends} counts" if looks else "no count"
                raise job.failed("rides", f"it ended, or took more than {_LONGEST_SECONDS:.0f} s ({done})")
            time.sleep(_LOOK_SECONDS)
    seen, found = _seen_at(broker, target, looks)
    first = next(number for number, done in enumerate(seen) if done >= _WARM * seen[-1])
    share = (seen[-1] - seen[first]) / seen[-1]
    last = next(number for number, done in enumerate(seen) if done == seen[-1])
    return {
        "records_per_second": share * records / (looks[last][0] - looks[first][0]),
        "from_start": records / (looks[last][0] - began),
        "processor_seconds": processor / records * 1e6,
        "updates": sum(looks[-1][1]),
        "missing": 1 - seen[-1] / expected.total(),
        "too_many": sum(count > expected[window] for window, count in found.items()),
    }


def _has_read_all(broker: KafkaBroker, group: str) -> bool:
    """Whether a program has committed the end of the topic; before that, silence is only a pause."""
    committed = broker.committed(group)
    ends = {Place("rides", number): there.end for number, there in enumerate(broker.offsets("rides"))}
    return all(committed.get(place, 0) >= end for place, end in ends.items())


def _seen_at(
    broker: KafkaBroker, topic: str, looks: list[tuple[float, list[int]]]
) -> tuple[list[int], dict[Window, int]]:
    """Return how many rides were counted at each look, and the last counts."""
    steps: list[list[ZoneCount]] = [[] for _ in looks]
    numbers = [0] * PARTITIONS
    for partition, offset, count in counts_out(broker, topic):
        while numbers[partition] < len(looks) - 1 and offset >= looks[numbers[partition]][1][partition]:
            numbers[partition] += 1
        steps[numbers[partition]].append(count)
    found: dict[Window, int] = {}
    seen, total = [], 0
    for step in steps:
        for one in step:
            total += one.count - found.get((one.zone, one.start), 0)
            found[one.zone, one.start] = one.count
        seen.append(total)
    return seen, found


def latency(bootstrap: str, broker: KafkaBroker, job: Job) -> dict[str, Any]:
    """Feed the job at a steady rate and return how long it took until each ride was counted."""
    source, target = f"{job.name}-live", f"{job.name}-live-counts"
    for topic in (source, target):
        broker.create_topic(topic, TopicConfig(partitions=PARTITIONS))
    sent: dict[Window, list[tuple[float, bool]]] = defaultdict(list)
    measuring, stop = threading.Event(), threading.Event()
    sender = threading.Thread(target=_send, args=(bootstrap, source, sent, measuring, stop))
    with job.running(source, target):
        sender.start()
        try:
            seen = _watch(bootstrap, target, measuring, stop)
            if not seen:
                raise job.failed(source, "no count has come")
        finally:
            stop.set()
            sender.join()
    found, missed = _ages(sent, seen)
    found.sort()

    def percentile(part: float) -> float:
        return found[int(part * len(found))] * 1000

    return {
        "p50_ms": percentile(0.5),
        "p95_ms": percentile(0.95),
        "p99_ms": percentile(0.99),
        "rides": len(found),
        "rides_not_seen": missed,
    }


def _send(
    bootstrap: str,
    topic: str,
    sent: dict[Window, list[tuple[float, bool]]],
    measuring: threading.Event,
    stop: threading.Event,
) -> None:
    """Send rides at a steady rate, noting when each of them was sent and whether it is to be measured."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    pick, done, began = random.Random(11), 0, time.perf_counter()
    while not stop.wait(_PULSE_SECONDS):
        due = int((time.perf_counter() - began) * _RATE)
        for number in range(done, due):
            zone, amount, now = pick.randrange(1, ZONES + 1), pick.randrange(50, 6_000) / 100, time.time()
            pickup = int(now * 1000)
            ride = b'{"ride_id":"r%08d","vendor_id":%d,"zone":%d,"amount":%.2f,"pickup":%d}'
            value = ride % (number, 1 + number % 2, zone, amount, pickup)
            if amount > 1.0:
                sent[zone, pickup // MINUTE * MINUTE].append((time.perf_counter(), measuring.is_set()))
            producer.produce(topic, value, partition=number % PARTITIONS, timestamp=pickup)
        done = due
        producer.poll(0)
    producer.flush()


def _watch(
    bootstrap: str, topic: str, measuring: threading.Event, stop: threading.Event
) -> dict[Window, list[tuple[float, int]]]:
    """Read counts as they are committed, for a while after the first has come."""
    seen: dict[Window, list[tuple[float, int]]] = defaultdict(list)
    decode = msgspec.json.Decoder(ZoneCount).decode
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "watch", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
    )
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    began = time.perf_counter()
    begin = end = float("inf")
    while time.perf_counter() < end + _DRAIN_SECONDS:
        messages = reader.consume(1_000, 0.005)
        now = time.perf_counter()
        for message in messages:
            if message.error() is None:
                one = decode(message.value() or b"")
                seen[one.zone, one.start].append((now, one.count))
        if messages and begin == float("inf"):
            begin, end = now + _WARM_UP_SECONDS, now + _WARM_UP_SECONDS + _LATENCY_SECONDS
        if now > end:
            stop.set()
        elif now > begin:
            measuring.set()
        if begin == float("inf") and now - began > _LONGEST_SECONDS:
            break
    reader.close()
    return seen


def _ages(
    sent: dict[Window, list[tuple[float, bool]]], seen: dict[Window, list[tuple[float, int]]]
) -> tuple[list[float], int]:
    """Return the ages of rides at the first count that includes them, and how many were never seen."""
    found: list[float] = []
    missed = 0
    for window, rides in sent.items():
        shown: list[float] = []
        for moment, count in seen.get(window, ()):
            shown += [moment] * (count - len(shown))
        for rank, (moment, is_measured) in enumerate(rides):
            if is_measured and rank < len(shown):
                found.append(shown[rank] - moment)
            elif is_measured:
                missed += 1
    return found, missed


def processor_seconds(root: int) -> float:
    """Return the processor time that a process and all below it have used, with those that have ended."""
    children: dict[int, list[int]] = defaultdict(list)
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            children[int(fields[1])].append(int(entry.name))
            used[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    waiting, total = [root], 0.0
    while waiting:
        process = waiting.pop()
        total += used.get(process, 0.0)
        waiting += children[process]
    return total
