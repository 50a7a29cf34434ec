"""A task's inputs: decoded chunk by chunk, and merged by time.

Of several inputs the one whose next record has the smallest timestamp goes first, on a tie the one declared first, and
each keeps its own order: as a Kafka Streams task does. So the result of a batch depends on its ranges alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from millstream.blocks import Rows
from millstream.errors import SerdeError
from millstream.native import KeyMemory
from millstream.records import Headers
from millstream.serdes import Serde


class Decoded:
    """Consecutive records of one input, ready to be processed; ``rows`` is what they came as."""

    __slots__ = (
        "_written", "has_headers", "keys", "offsets", "partition", "rows", "timestamps", "topic", "values",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, rows: Rows, offsets: Any, written: Written = None) -> None:
        self._written = written
        self.topic = topic
        self.partition = partition
        self.rows = rows
        self.offsets = offsets
        self.has_headers = rows.headers is not None
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.timestamps = rows.timestamps

    def headers(self, row: int) -> Headers:
        return () if self.rows.headers is None else self.rows.headers[row]

    def raw(self, row: int) -> tuple[bytes | None, bytes | None]:
        """Return key and value as they came from a topic or, from another stage, as they would stand in one."""
        if self._written is None:
            return self.rows.keys[row], self.rows.values[row]
        key, value = self.keys[row], self.values[row]
        as_key, as_value = self._written
        return None if key is None else as_key.encode(key), None if value is None else as_value.encode(value)

    def without(self, rows: set[int]) -> Decoded:
        """Return the same records but for some."""
        kept = [row for row in range(len(self.timestamps)) if row not in rows]
        offsets = [self.offsets[row] for row in kept]
        rest = Decoded(self.topic, self.partition, self.rows.take(kept), offsets, self._written)
        rest.keys = [self.keys[row] for row in kept]
        rest.values = [self.values[row] for row in kept]
        rest.timestamps = [self.timestamps[row] for row in kept]
        return rest


Written = tuple[Serde, Serde] | None
"""How key and value of records from another stage would be written to a topic."""

Reject = Callable[[Decoded, int, SerdeError], None]
"""Called with the row of a record that cannot be decoded; raises if that is to fail."""


Stamp = Callable[[Decoded], set[int]]
"""Gives the records of a chunk their event time, and returns the rows that have none and are left out."""


Decode = Callable[[str, int, Rows, Any], Decoded]
"""Turns rows of a topic and partition, with their offsets, into decoded records."""


class Decoder:
    """Turns the records of one input into what operators work with."""

    def __init__(
        self, key: Serde | None, value: Serde, stamp: Stamp | None, reject: Reject, written: Written = None
    ) -> None:
        self._key = KeyMemory().__getitem__ if key is None else key.decode
        self._value = value.decode
        self._value_serde = value
        self._stamp = stamp
        self._reject = reject
        self._written = written

    def decode(self, topic: str, partition: int, rows: Rows, offsets: Any) -> Decoded:
        """Decode records at one go; only if that fails look for the bad ones one by one."""
        decoded = Decoded(topic, partition, rows, offsets, self._written)
        keys, values = rows.keys, rows.values
        key, value = self._key, self._value
        try:
            decoded.keys = [None if item is None else key(item) for item in keys]
            decoded.values = [None if item is None else value(item) for item in values]
        except Exception:
            decoded = self._decode_singly(decoded, keys, values)
        left_out = None if self._stamp is None else self._stamp(decoded)
        return decoded.without(left_out) if left_out else decoded

    def _decode_singly(self, decoded: Decoded, keys: list[Any], values: list[Any]) -> Decoded:
        decoded.keys, decoded.values = list(keys), list(values)
        bad: set[int] = set()
        for row, (raw_key, raw_value) in enumerate(zip(keys, values, strict=True)):
            try:
                decoded.keys[row] = None if raw_key is None else self._key(raw_key)
                decoded.values[row] = None if raw_value is None else self._value(raw_value)
            except Exception as error:
                bad.add(row)
                self._reject(decoded, row, self._explained(decoded, row, error))
        return decoded.without(bad)

    def _explained(self, decoded: Decoded, row: int, cause: Exception) -> SerdeError:
        where = f"{decoded.topic}[{decoded.partition}]@{decoded.offsets[row]}"
        error = SerdeError(
            f"record {where} cannot be decoded as {self._value_serde.name}: {cause}",
            hint='see `millstream consume --help` to look at it; on_decode_error="dead_letter" sets such records aside',
            topic=decoded.topic,
            partition=decoded.partition,
            offset=int(decoded.offsets[row]),
        )
        error.__cause__ = cause
        return error


Run = tuple[int, Decoded, int, int]
"""Rows ``start`` to ``stop`` of a chunk of the input with that number come next."""


class _Head:
    """The next record of an input."""

    __slots__ = ("chunk", "feed", "number", "row", "time")

    def __init__(self, number: int, feed: Iterator[Decoded], chunk: Decoded) -> None:
        self.number = number
        self.feed = feed
        self.chunk = chunk
        self.row = 0
        self.time = chunk.timestamps[0]


def merged(feeds: list[Iterator[Decoded]]) -> Iterator[Run]:
    """Yield the records of several inputs in the order in which a task processes them."""
    heads = [_Head(number, feed, chunk) for number, feed in enumerate(feeds) if (chunk := _next(feed)) is not None]
    while heads:
        head, limit = heads[0], _NEVER
        for other in heads[1:]:  # those before are declared earlier, so this one goes on only until just before them
            if other.time < head.time:
                head, limit = other, head.time - 1
            elif other.time < limit:
                limit = other.time
        start, timestamps = head.row, head.chunk.timestamps
        stop, rows = start + 1, len(timestamps)
        if len(heads) == 1:
            stop = rows
        while stop < rows and timestamps[stop] <= limit:
            stop += 1
        yield head.number, head.chunk, start, stop
        if stop < rows:
            head.row, head.time = stop, timestamps[stop]
        elif (following := _next(head.feed)) is None:
            heads.remove(head)
        else:
            head.chunk, head.row, head.time = following, 0, following.timestamps[0]


_NEVER = 1 << 63


def _next(feed: Iterator[Decoded]) -> Decoded | None:
    return next((chunk for chunk in feed if chunk.timestamps), None)
