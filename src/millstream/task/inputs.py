"""Decode a task's inputs chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millstream.errors import SerdeError
from millstream.foundation.blocks import Rows, TimedRows
from millstream.foundation.coded import CodedRecords
from millstream.foundation.headers import InvalidHeaders
from millstream.foundation.text import error_text
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.task.decoding import column_decoder
from millstream.task.shuffle_format import ShuffleColumns


class DecodedChunk:
    """Consecutive records of one input, decoded; ``rows`` are the encoded ones."""

    __slots__ = (
        "_stream_times", "_topic_serdes", "has_headers", "keys", "offsets", "partition", "rows", "timestamps", "topic",
        "values",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, rows: Rows, offsets: Any, topic_serdes: TopicSerdes = None) -> None:
        self._topic_serdes = topic_serdes
        self._stream_times: Any = None
        self.topic = topic
        self.partition = partition
        self.rows = rows
        self.offsets = offsets
        self.has_headers = rows.headers is not None
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.timestamps = rows.timestamps

    def locate(self, row: int) -> tuple[DecodedChunk, int]:
        """Return the chunk of a record and its row there."""
        return self, row

    def coded(self, _start: int, _stop: int) -> CodedRecords | None:
        """Return the rows ``start`` to ``stop`` as arrays, if only their keys and times matter."""
        return None

    @property
    def stream_times(self) -> Any:
        """For each record the latest timestamp up to it, as an array; only valid once timestamps are final."""
        if self._stream_times is None:
            times = self._times
            self._stream_times = np.maximum.accumulate(np.array(self.timestamps, np.int64) if times is None else times)
        return self._stream_times

    @property
    def earliest(self) -> int:
        """The earliest timestamp; 0 if there are no records."""
        times = self._times
        return min(self.timestamps, default=0) if times is None or not len(times) else int(times.min())

    @property
    def _times(self) -> Any:
        """The timestamps as an array, if they are one already."""
        rows = self.rows
        return rows.times if isinstance(rows, TimedRows) and self.timestamps is rows.timestamps else None

    def headers(self, row: int) -> Headers:
        return () if self.rows.headers is None else self.rows.headers[row]

    def raw(self, row: int) -> tuple[bytes | None, bytes | None]:
        """Return key and value as a topic stores them, also for records from another stage."""
        if self._topic_serdes is None:
            return self.rows.keys[row], self.rows.values[row]
        key, value = self.keys[row], self.values[row]
        key_serde, value_serde = self._topic_serdes
        return None if key is None else key_serde.encode(key), None if value is None else value_serde.encode(value)

    def without(self, rows: set[int]) -> DecodedChunk:
        """Return all records except some rows."""
        kept = [row for row in range(len(self.timestamps)) if row not in rows]
        offsets = [self.offsets[row] for row in kept]
        chunk = DecodedChunk(self.topic, self.partition, self.rows.take(kept), offsets, self._topic_serdes)
        chunk.keys = [self.keys[row] for row in kept]
        chunk.values = [self.values[row] for row in kept]
        chunk.timestamps = [self.timestamps[row] for row in kept]
        return chunk


_LISTS = frozenset({"rows", "keys", "values", "timestamps"})


class CodedChunk(DecodedChunk):
    """Records from another stage of which only key and time matter: arrays, that become lists if a step needs them."""

    __slots__ = ("_columns",)

    def __init__(self, topic: str, partition: int, columns: ShuffleColumns, topic_serdes: TopicSerdes) -> None:
        self._columns = columns
        self._topic_serdes = topic_serdes
        self._stream_times = None
        self.topic = topic
        self.partition = partition
        self.offsets = range(len(columns.times))
        self.has_headers = bool(columns.headers)

    def __getattr__(self, name: str) -> Any:
        """Make lists when the first of them is needed: their slots are empty until then."""
        if name not in _LISTS:
            raise AttributeError(name)
        rows = self.rows = self._columns.rows()
        self.keys, self.values, self.timestamps = list(rows.keys), [True] * len(rows.timestamps), rows.timestamps
        return getattr(self, name)

    @property
    def stream_times(self) -> Any:
        if self._stream_times is None:
            self._stream_times = np.maximum.accumulate(self._columns.times)
        return self._stream_times

    def coded(self, start: int, stop: int) -> CodedRecords | None:
        if self.has_headers:
            return None
        return CodedRecords(self._columns.keys, self._columns.codes[start:stop], self._columns.times[start:stop])


TopicSerdes = tuple[Serde, Serde] | None
"""The serdes of key and value with which records from another stage would be written to a topic."""

Reject = Callable[[DecodedChunk, int, SerdeError], None]
"""Called with the row of a record that cannot be decoded; raises if the error policy is to fail."""


AssignTimestamps = Callable[[DecodedChunk], set[int]]
"""Sets the event time of the records of a chunk; returns the rows to leave out because they have none."""


Decode = Callable[[str, int, Rows, Any], DecodedChunk]
"""Decodes rows of a topic and partition, given with their offsets."""


def _identity(key: Any) -> Any:
    return key


def _check_headers(headers: list[Headers]) -> None:
    if InvalidHeaders in map(type, headers):
        raise SerdeError("its headers are invalid")


class BlockFeed:
    """The chunks of blocks that are all here already, decoded one by one; it knows when no more follow."""

    __slots__ = ("_blocks", "_decode", "_next")

    def __init__(self, blocks: list[bytes], decode: Callable[[bytes], DecodedChunk]) -> None:
        self._blocks = blocks
        self._decode = decode
        self._next = 0

    @property
    def has_ended(self) -> bool:
        return self._next == len(self._blocks)

    def __iter__(self) -> BlockFeed:
        return self

    def __next__(self) -> DecodedChunk:
        if self.has_ended:
            raise StopIteration
        self._next += 1
        return self._decode(self._blocks[self._next - 1])


class InputDecoder:
    """Decodes the records of one input for operators; without a ``key`` serde keys are decoded already."""

    def __init__(
        self,
        key: Serde | None,
        value: Serde,
        assign_timestamps: AssignTimestamps | None,
        reject: Reject,
        topic_serdes: TopicSerdes = None,
    ) -> None:
        self._key = _identity if key is None else key.decode
        self._value = value.decode
        self._keys = _identity if key is None else column_decoder(key)
        self._values = column_decoder(value)
        self._value_serde = value
        self._assign_timestamps = assign_timestamps
        self._reject = reject
        self._topic_serdes = topic_serdes

    def decode(self, topic: str, partition: int, rows: Rows, offsets: Any) -> DecodedChunk:
        """Decode all records in one pass; only if that fails, find the bad ones one by one."""
        decoded = DecodedChunk(topic, partition, rows, offsets, self._topic_serdes)
        try:
            if rows.headers is not None:
                _check_headers(rows.headers)
            decoded.keys, decoded.values = self._keys(rows.keys), self._values(rows.values)
        except Exception:
            decoded = self._decode_singly(decoded, rows.keys, rows.values)
        left_out = None if self._assign_timestamps is None else self._assign_timestamps(decoded)
        return decoded.without(left_out) if left_out else decoded

    def _decode_singly(self, decoded: DecodedChunk, keys: Sequence[Any], values: Sequence[Any]) -> DecodedChunk:
        decoded.keys, decoded.values = list(keys), list(values)
        bad: set[int] = set()
        for row, (raw_key, raw_value) in enumerate(zip(keys, values, strict=True)):
            try:
                if decoded.rows.headers is not None:
                    _check_headers(decoded.rows.headers[row : row + 1])
                decoded.keys[row] = None if raw_key is None else self._key(raw_key)
                decoded.values[row] = None if raw_value is None else self._value(raw_value)
            except Exception as error:
                bad.add(row)
                self._reject(decoded, row, self._decode_error(decoded, row, error))
        return decoded.without(bad)

    def _decode_error(self, decoded: DecodedChunk, row: int, cause: Exception) -> SerdeError:
        position = f"{decoded.topic}[{decoded.partition}]@{decoded.offsets[row]}"
        error = SerdeError(
            f"record {position} cannot be decoded as {self._value_serde.name}: {error_text(cause)}",
            hint='see `millstream consume --help` to look at it; on_decode_error="dead_letter" lets the app continue',
            topic=decoded.topic,
            partition=decoded.partition,
            offset=int(decoded.offsets[row]),
        )
        error.__cause__ = cause
        return error
