"""Records of a source that cannot be written: the error policies apply to them.

Dead letters are part of the intake: they are committed with the position, so that each of them is there once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from millstream.broker import TopicInfo
from millstream.errors import ConnectorError, MillstreamError
from millstream.foundation.blocks import Block, block_of, rows_of, slices_of, take_rows
from millstream.foundation.error_headers import error_headers
from millstream.records import Headers
from millstream.task.policy import OnError, Policies

_HEADER_BYTES = 16_384
"""How many bytes of a dead letter are left for its headers, if its value would make it too long."""


class RefusedRecord(NamedTuple):
    """A record as bytes, the topic for which it was meant, and why it cannot be written there."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    error: Exception
    partition: int = -1
    """-1 if a step of its transform has failed: a replay would write it to the topic without that step."""
    is_decode_error: bool = False


class Transformed(NamedTuple):
    """The records of an intake by topic, after the transform, and those for which it has failed."""

    records: Mapping[str, Block]
    rejected: Sequence[RefusedRecord]


def split_rejected(topic: TopicInfo, block: Block, partitions: Any) -> tuple[Block, Any, list[RefusedRecord]]:
    """Return the records that a topic accepts, their partitions, and those that it would refuse."""
    errors = _errors(topic, block)
    if not errors:
        return block, partitions, []
    refused = sorted(errors)
    keys, values, timestamps, headers = rows_of(take_rows(block, np.array(refused, np.int64)))
    rejected = [
        RefusedRecord(
            topic.name,
            keys[number],
            values[number],
            timestamps[number],
            () if headers is None else headers[number],
            errors[row],
            int(partitions[row]),
        )
        for number, row in enumerate(refused)
    ]
    kept = np.setdiff1d(np.arange(len(block)), refused)
    return take_rows(block, kept), partitions[kept], rejected


def _errors(topic: TopicInfo, block: Block) -> dict[int, ConnectorError]:
    """Return why the topic would refuse records, by row; it must not refuse one after the position is committed."""
    errors: dict[int, ConnectorError] = {}
    keys, limit = block.column(0), topic.config.max_record_bytes
    if topic.config.compact and keys.null_count:
        for row in np.flatnonzero(np.array(keys.is_null().to_pylist(), bool)).tolist():
            errors[row] = ConnectorError(
                f"a record without a key cannot be written to the compacted topic {topic.name!r}",
                hint="give the table a key, or write it to a topic that is not compacted",
                topic=topic.name,
            )
    if block.nbytes > limit:
        sizes = sum(slices_of(block.column(number))[1] for number in (0, 1, 3))
        for row in np.flatnonzero(sizes > limit).tolist():
            errors[row] = ConnectorError(
                f"a record of {sizes[row]} bytes is too large for topic {topic.name!r}, which allows up to {limit}",
                hint=f"raise its max_record_bytes: millstream topics alter {topic.name}",
                topic=topic.name,
            )
    return errors


class SourcePolicies:
    """Applies the error policies of an app to rejected records of a source."""

    def __init__(self, policies: Policies, source: str) -> None:
        self.topic = policies.dead_letter_topic
        self.writes_on_fail = policies.dead_letter_on_fail
        self._policies = policies
        self._source = source

    def failure(self, rejected: Sequence[RefusedRecord]) -> tuple[RefusedRecord, MillstreamError] | None:
        """Return the first record for which the policy is to fail, and the error to raise."""
        for record in rejected:
            if self._policy_of(record) == "fail":
                return record, self._error(record)
        return None

    def letters(self, rejected: Sequence[RefusedRecord], max_bytes: int) -> Block | None:
        """Return the dead letters of those records whose policy says so; one that is too long has no value."""
        dead = [record for record in rejected if self._policy_of(record) == "dead_letter"]
        return self.block_of(dead, max_bytes) if dead else None

    def block_of(self, records: Sequence[RefusedRecord], max_bytes: int) -> Block:
        """Return the dead letters of records."""
        headers = [(*record.headers, *self._reasons(record)) for record in records]
        most = max_bytes - _HEADER_BYTES
        keys = [record.key if len(record.key or b"") <= most else None for record in records]
        values = [record.value if _size(record) <= most else None for record in records]
        return block_of(keys, values, [record.timestamp for record in records], headers)

    def _reasons(self, record: RefusedRecord) -> Headers:
        return error_headers(record.error, record.topic, record.partition, -1, stage=self._source, node=self._source)

    def _policy_of(self, record: RefusedRecord) -> OnError:
        return self._policies.on_decode_error if record.is_decode_error else self._policies.on_error

    def _error(self, record: RefusedRecord) -> MillstreamError:
        error = record.error
        if isinstance(error, MillstreamError):
            return error
        policy = "on_decode_error" if record.is_decode_error else "on_error"
        failed = ConnectorError(
            f"source {self._source!r} cannot write a record to {record.topic!r}: {type(error).__name__}: {error}",
            hint=f'{policy}="dead_letter" or "skip" lets it continue without such records',
            topic=record.topic,
        )
        failed.__cause__ = error
        return failed


def _size(record: RefusedRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")
