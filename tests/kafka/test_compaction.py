"""Gaps left by compaction: a broker compacts a topic, and the remaining records are read in any ranges."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import combinations
from time import monotonic, time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.kafka.conftest import Read, Send, Transact, settle

from millstream.errors import UnknownTopicError
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

RECORDS = 300
KEYS = 12
LATER = 1_000_000
"""How much later the first record of the active segment is, which Kafka does not compact."""
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": "500000",  # by record timestamps, so that a later record starts a new segment
    "min.cleanable.dirty.ratio": "0.001",
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


def exists(kafka: KafkaBroker, topic: str) -> bool:
    """Whether the broker knows a topic, which may be later than the controller's response."""
    with suppress(UnknownTopicError):
        return kafka.topic(topic).partitions == 1
    return False


@pytest.fixture
def compacted(
    cluster: Cluster, kafka: KafkaBroker, name: str, send: Send, transact: Transact, read: Read
) -> tuple[str, int, list[tuple[int, str]]]:
    """A compacted topic with the last record of each key, its first timestamp, and its remaining records."""
    began = int(time() * 1000)  # now, which is also the timestamp of transaction markers
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=SETTINGS)])[name].result()
    deadline = monotonic() + 60
    while not exists(kafka, name):
        assert monotonic() < deadline
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    last: dict[str, tuple[int, str]] = {}
    number = 0
    while number < RECORDS:
        texts = [f"k{chance.randrange(KEYS)}:{value}" for value in range(number, number + chance.randint(1, 20))]
        first = send(name, *texts, times=list(range(began + number, began + number + len(texts))))
        last |= {text.split(":")[0]: (first + row, text.split(":")[1]) for row, text in enumerate(texts)}
        number += len(texts)
        if chance.random() < 0.2:  # transaction markers are not records, but have offsets
            transact(name, "never", key="k0", time=began + number).abort_transaction(30)
    first = send(name, "k1:new", "k2:new", times=[began + LATER] * 2)
    settle(kafka, cluster.bootstrap, name)
    left = [*sorted(last.values()), (first, "new"), (first + 1, "new")]
    deadline = monotonic() + 60
    while len(records := read(name)) > len(left):
        assert monotonic() < deadline, f"{len(records)} records remain, expected {len(left)}"
    assert records == left
    return name, began, left


def test_remaining_records_are_read_in_any_ranges(
    compacted: tuple[str, int, list[tuple[int, str]]], kafka: KafkaBroker, read: Read
) -> None:
    topic, began, left = compacted
    end = kafka.offsets(topic)[0].end
    assert end > 10 * len(left)
    for cut in range(0, end + 1, 50):
        assert read(topic, start=0, end=cut) + read(topic, start=cut, end=end) == left, f"cut at {cut}"
    edges = sorted({offset + step for offset, _ in left for step in (0, 1)} & set(range(end + 1)))
    for start, stop in random.Random(7).sample([*combinations(edges, 2)], 20):
        expected = [record for record in left if start <= record[0] < stop]
        assert read(topic, start=start, end=stop) == expected, (start, stop)

    assert kafka.offset_at(topic, 0, began + LATER) == left[-2][0]
    assert kafka.timestamp_at(topic, 0, left[-3][0] + 1, end) == began + LATER
    assert kafka.timestamp_at(topic, 0, left[-3][0] + 1, left[-2][0]) is None
    assert kafka.timestamp_at(topic, 0, 0, end) == began + int(left[0][1])
