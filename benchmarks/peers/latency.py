"""How long it takes until a ride is counted, at a steady rate: until a reader of committed records sees such a count.

Nothing is carried through the program: the first count of a window that is at least a ride's rank in it includes it.
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

_LONGEST_SECONDS = 240.0
_RATE = 1_000
_PULSE_SECONDS = 0.005
_WARM_UP_SECONDS = 8.0
_LATENCY_SECONDS = 15.0
_PERCENTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
_NEVER = float("inf")
Sent = Mapping[Window, Sequence[tuple[float, bool]]]
"""When the rides of a window were sent, and whether they are measured."""
Seen = Mapping[Window, Sequence[tuple[float, int]]]
"""When which counts of a window were seen."""


def latency(broker: KafkaBroker, side: Side, task: Task) -> dict[str, Any]:
    """Feed a side at a steady rate and return how long it took until each ride was counted."""
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
    found = ages(sent, seen)
    return {
        **percentiles(found),
        "rides": len(found),
        "not_seen": found.count(_NEVER) / len(found),
    }


def _send(
    task: Task, sent: dict[Window, list[tuple[float, bool]]], measuring: threading.Event, stop: threading.Event
) -> None:
    """Send rides at a steady rate, noting when each of them was sent and whether it is to be measured."""
    producer = Producer({"bootstrap.servers": task.bootstrap, "linger.ms": 1})
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
            producer.produce(task.source, value, partition=number % PARTITIONS, timestamp=pickup)
        done = due
        producer.poll(0)
    producer.flush()


def _watch(side: Side, task: Task, run: Run, measuring: threading.Event, stop: threading.Event) -> Seen:
    """Read counts as they are committed, for a while after the first has come."""
    seen: dict[Window, list[tuple[float, int]]] = defaultdict(list)
    decode = msgspec.json.Decoder(Update).decode
    reader = Consumer(
        {"bootstrap.servers": task.bootstrap, "group.id": "watch", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
    )
    reader.assign([TopicPartition(task.target, partition, 0) for partition in range(PARTITIONS)])
    begin = end = _NEVER
    while time.perf_counter() < end + side.quiet_seconds:
        messages = reader.consume(1_000, 0.005)
        now = time.perf_counter()
        for message in messages:
            if message.error() is None:
                update = decode(message.value() or b"")
                seen[update.zone, update.start].append((now, update.count))
        if seen and begin == _NEVER:
            begin, end = now + _WARM_UP_SECONDS, now + _WARM_UP_SECONDS + _LATENCY_SECONDS
        if now > end:
            stop.set()
        elif now > begin:
            measuring.set()
        if not run.is_alive() or (begin == _NEVER and now - run.began > _LONGEST_SECONDS):
            raise run.failed("it ended" if seen else "no count has come")
    reader.close()
    return seen


def ages(sent: Sent, seen: Seen) -> list[float]:
    """Return the ages of rides at the first count that includes them, without end for those never seen."""
    found: list[float] = []
    for window, rides in sent.items():
        shown: list[float] = []
        for moment, count in seen.get(window, ()):  # one that is taken back is smaller than one seen before
            shown += [moment] * (count - len(shown))
        shown += [_NEVER] * (len(rides) - len(shown))
        found += [shown[rank] - moment for rank, (moment, is_measured) in enumerate(rides) if is_measured]
    return found


def percentiles(found: list[float]) -> dict[str, float | None]:
    """Return percentiles in milliseconds; None where that ride was not seen before the end."""
    ordered = sorted(found)
    picked = {name: ordered[int(part * len(ordered))] for name, part in _PERCENTILES.items()}
    return {name: None if age == _NEVER else age * 1000 for name, age in picked.items()}
