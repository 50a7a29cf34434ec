"""Latency at a steady rate: the time until a reader of committed records sees a count that includes a ride.

Rides carry no marker through the program. The n-th ride of a window is included in the first count of at least n.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from benchmarks.peers.counting import Update, Window
from benchmarks.peers.running import Run, Side, Task, running
from benchmarks.zone_counts import MINUTE, PARTITIONS, ZONES
from confluent_kafka import Consumer, Producer, TopicPartition

from millstream.broker import TopicConfig
from millstream.kafka import KafkaBroker

_TIMEOUT_SECONDS = 240.0
_RATE = 1_000
_SEND_INTERVAL_SECONDS = 0.005
_WARM_UP_SECONDS = 8.0
_LATENCY_SECONDS = 15.0
_PERCENTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
_NEVER = float("inf")
SendTimes = Mapping[Window, Sequence[tuple[float, bool]]]
"""By window: when each ride was sent, and whether it is measured."""
SeenCounts = Mapping[Window, Sequence[tuple[float, int]]]
"""By window: when each count was seen, and the count."""


def latency(broker: KafkaBroker, side: Side, task: Task) -> dict[str, Any]:
    """Feed a side at a steady rate and return the latency percentiles."""
    for topic in (task.source, task.target):
        broker.create_topic(topic, TopicConfig(partitions=PARTITIONS))
    sent: dict[Window, list[tuple[float, bool]]] = defaultdict(list)
    measuring, stop = threading.Event(), threading.Event()
    sender = threading.Thread(target=_send, args=(task, sent, measuring, stop))
    with running(side, task) as run:
        sender.start()
        try:
            seen = _watch(side, task, run, measuring, stop)
        finally:
            stop.set()
            sender.join()
    measured = latencies(sent, seen)
    return {
        **percentiles(measured),
        "rides": len(measured),
        "not_seen": measured.count(_NEVER) / len(measured),
    }


def _send(
    task: Task, sent: dict[Window, list[tuple[float, bool]]], measuring: threading.Event, stop: threading.Event
) -> None:
    """Send rides at a steady rate; record when each was sent and whether it is measured."""
    producer = Producer({"bootstrap.servers": task.bootstrap, "linger.ms": 1})
    rng, done, start = random.Random(11), 0, time.perf_counter()
    while not stop.wait(_SEND_INTERVAL_SECONDS):
        due = int((time.perf_counter() - start) * _RATE)
        for number in range(done, due):
            zone, amount, now = rng.randrange(1, ZONES + 1), rng.randrange(50, 6_000) / 100, time.time()
            pickup = int(now * 1000)
            ride = b'{"ride_id":"r%08d","vendor_id":%d,"zone":%d,"amount":%.2f,"pickup":%d}'
            value = ride % (number, 1 + number % 2, zone, amount, pickup)
            if amount > 1.0:
                sent[zone, pickup // MINUTE * MINUTE].append((time.perf_counter(), measuring.is_set()))
            producer.produce(task.source, value, partition=number % PARTITIONS, timestamp=pickup)
        done = due
        producer.poll(0)
    producer.flush()


def _watch(side: Side, task: Task, run: Run, measuring: threading.Event, stop: threading.Event) -> SeenCounts:
    """Read counts as they are committed, until the measurement that follows the first count is complete."""
    seen: dict[Window, list[tuple[float, int]]] = defaultdict(list)
    decode = msgspec.json.Decoder(Update).decode
    reader = Consumer(
        {"bootstrap.servers": task.bootstrap, "group.id": "watch", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
    )
    reader.assign([TopicPartition(task.target, partition, 0) for partition in range(PARTITIONS)])
    start = end = _NEVER
    while time.perf_counter() < end + side.quiet_seconds:
        messages = reader.consume(1_000, 0.005)
        now = time.perf_counter()
        for message in messages:
            if message.error() is None:
                update = decode(message.value() or b"")
                seen[update.zone, update.start].append((now, update.count))
        if seen and start == _NEVER:
            start, end = now + _WARM_UP_SECONDS, now + _WARM_UP_SECONDS + _LATENCY_SECONDS
        if now > end:
            stop.set()
        elif now > start:
            measuring.set()
        if not run.is_alive() or (start == _NEVER and now - run.started_at > _TIMEOUT_SECONDS):
            raise run.failure("it exited" if seen else "no count was written")
    reader.close()
    return seen


def latencies(sent: SendTimes, seen: SeenCounts) -> list[float]:
    """Return the seconds until the first count that includes each measured ride; infinity if there was none."""
    measured: list[float] = []
    for window, rides in sent.items():
        seen_at: list[float] = []
        for moment, count in seen.get(window, ()):  # a retracted count is smaller than one seen before
            seen_at += [moment] * (count - len(seen_at))
        seen_at += [_NEVER] * (len(rides) - len(seen_at))
        measured += [seen_at[rank] - sent_at for rank, (sent_at, is_measured) in enumerate(rides) if is_measured]
    return measured


def percentiles(measured: list[float]) -> dict[str, float | None]:
    """Return percentiles in milliseconds; None for a percentile that falls on a ride that was not seen."""
    ordered = sorted(measured)
    seconds = {name: ordered[int(level * len(ordered))] for name, level in _PERCENTILES.items()}
    return {name: None if value == _NEVER else value * 1000 for name, value in seconds.items()}
