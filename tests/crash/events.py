"""The input of crash trials: each event has a topic, a key, its number within the key, and a checksum."""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from contextlib import suppress

import msgspec

from millstream.broker import Broker, Output, TopicConfig
from millstream.errors import BrokerUnavailableError
from millstream.foundation.blocks import block_of
from millstream.foundation.partitioning import partition_of

TOPICS = ("events", "sides")
KEYS = 20
PARTITIONS = 2


class Event(msgspec.Struct, frozen=True):
    """The ``number``-th event of a key in a topic."""

    topic: str
    key: str
    number: int
    value: int
    at: int
    """Event time, which increases from one event to the next."""
    check: int = 0

    @property
    def is_whole(self) -> bool:
        return self.check == zlib.crc32(f"{self.topic} {self.key} {self.number} {self.value} {self.at}".encode())


class Feeder:
    """Creates events and appends them; the same seed gives the same events."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self.broker = broker
        self._rng = rng
        self._numbers: dict[tuple[str, str], int] = defaultdict(int)
        self.sent: list[Event] = []

    def create_topics(self) -> None:
        """Create the topics that victims read."""
        for topic in TOPICS:
            self.broker.create_topic(topic, TopicConfig(partitions=PARTITIONS))

    def feed(self, count: int) -> None:
        """Append some events; all of them are acknowledged when this returns."""
        new_events = [self._event() for _ in range(count)]
        by_partition: dict[tuple[str, int], list[Event]] = defaultdict(list)
        for event in new_events:
            by_partition[event.topic, partition_of(event.key.encode(), PARTITIONS)].append(event)
        outputs = []
        for (topic, partition), events in by_partition.items():
            keys: list[bytes | None] = [event.key.encode() for event in events]
            values: list[bytes | None] = [msgspec.json.encode(event) for event in events]
            outputs.append(Output(topic, partition, block_of(keys, values, [event.at for event in events])))
        self._append(outputs)
        self.sent += new_events

    def _append(self, outputs: list[Output]) -> None:
        self.broker.append(outputs)

    def _event(self) -> Event:
        topic = self._rng.choices(TOPICS, [3, 1])[0]
        key = f"k{self._rng.randrange(KEYS)}"
        self._numbers[topic, key] += 1
        number, value, at = self._numbers[topic, key], self._rng.randrange(1000), len(self.sent)
        check = zlib.crc32(f"{topic} {key} {number} {value} {at}".encode())
        return Event(topic, key, number, value, at, check)


class PatientFeeder(Feeder):
    """A feeder for brokers that fail: it repeats what was not acknowledged, and each event is stored once."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        super().__init__(broker, rng)
        self._sequence = 0

    def _append(self, outputs: list[Output]) -> None:
        self._sequence += 1
        while True:
            with suppress(BrokerUnavailableError):
                self.broker.append_once("feeder", self._sequence, outputs)
                return
