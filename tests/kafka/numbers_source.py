"""A source of the numbers 0 to LIMIT - 1 in steps, whose position is the next number; for a process that is killed."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee, Intake
from millstream.foundation.blocks import block_of

STEP = 20


class Numbers:
    """Fills a topic with numbers as JSON, by key."""

    guarantee: Guarantee = "exactly once"

    def __init__(self, topic: str, limit: int) -> None:
        self.topic = topic
        self.limit = limit

    def topics(self) -> Mapping[str, TopicConfig]:
        return {self.topic: TopicConfig(partitions=2)}

    def open(self, position: bytes | None, _context: ConnectorContext, /) -> NumbersReader:
        return NumbersReader(self, int(position or 0))


class NumbersReader:
    """Reads on from a number."""

    def __init__(self, source: Numbers, first: int) -> None:
        self._source = source
        self._next = first

    def read(self, _timeout: float) -> Intake | None:
        numbers = range(self._next, min(self._next + STEP, self._source.limit))
        if not numbers:
            return None
        self._next = numbers.stop
        keys = [str(number % 7).encode() for number in numbers]
        block = block_of(keys, [b'{"n":%d}' % number for number in numbers], [0] * len(numbers))
        return Intake(records={self._source.topic: block}, position=str(self._next).encode())

    def committed(self, position: bytes) -> None: ...
    def close(self) -> None: ...
