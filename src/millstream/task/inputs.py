"""A task's inputs, decoded chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millstream.errors import SerdeError
from millstream.foundation.blocks import Rows
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.task.decoding import column_decoder


class Decoded:
    """Consecutive records of one input, ready to be processed; ``rows`` is what they came as."""

    __slots__ = (
        "_reached", "_written", "has_headers", "keys", "offsets", "partition", "rows", "timestamps", "topic", "values",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, rows: Rows, offsets: Any, written: Written = None) -> None:
        self._written = written
        self._reached: Any = None
        self.topic = topic
        self.partition = partition
        self.rows = rows
        self.offsets = offsets
        self.has_headers = rows.headers is not None
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.timestamps = rows.timestamps

    def locate(self, row: int) -> tuple[Decoded, int]:
        """Return the chunk of a record and its row there."""
        return self, row

    @property
    def reached(self) -> Any:
        """For each record the latest time up to it, as an array; asked for when timestamps are final."""
        if self._reached is None:
            self._reached = np.maximum.accumulate(np.array(self.timestamps, np.int64))
        return self._reached

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


def _as_it_is(decoded: Any) -> Any:
    return decoded


class Decoder:
    """Turns the records of one input into what operators work with; keys are decoded already if ``key`` is None."""

    def __init__(
        self, key: Serde | None, value: Serde, stamp: Stamp | None, reject: Reject, written: Written = None
    ) -> None:
        self._key = _as_it_is if key is None else key.decode
        self._value = value.decode
        self._keys = _as_it_is if key is None else column_decoder(key)
        self._values = column_decoder(value)
        self._value_serde = value
        self._stamp = stamp
        self._reject = reject
        self._written = written

    def decode(self, topic: str, partition: int, rows: Rows, offsets: Any) -> Decoded:
        """Decode records at one go; only if that fails look for the bad ones one by one."""
        decoded = Decoded(topic, partition, rows, offsets, self._written)
        try:
            decoded.keys, decoded.values = self._keys(rows.keys), self._values(rows.values)
        except Exception:
            decoded = self._decode_singly(decoded, rows.keys, rows.values)
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
