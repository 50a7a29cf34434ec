"""The event time of records: computed, checked, and replaced or rejected where it is invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from millstream.errors import ProcessingError
from millstream.foundation.headers import TIMESTAMP_LIMIT
from millstream.functions import Function
from millstream.plan.sources import Source
from millstream.records import Headers
from millstream.timestamps import milliseconds_of

if TYPE_CHECKING:
    from millstream.task.inputs import DecodedChunk


class TimestampErrors(Protocol):
    """Receives the records that are left out because they have no valid timestamp."""

    def skip(self, source: Source, reason: str) -> None:
        """Count a record without a valid timestamp, of a source that skips such records."""

    def reject_timestamp(self, source: Source, chunk: DecodedChunk, row: int, error: Exception) -> None:
        """Apply the error policy to a record whose timestamp function raised; raises if the policy is to fail."""


class TimestampAssigner:
    """Sets the event time of the records of a source.

    ``latest`` maps a partition to its latest timestamp so far; it is kept with the task's state if the source uses it.
    """

    def __init__(self, source: Source, wall_time: int, latest: dict[str, int], errors: TimestampErrors) -> None:
        self._source = source
        self._wall_time = wall_time
        self._latest = latest
        self._errors = errors
        self._function = source.timestamp if isinstance(source.timestamp, Function) else None
        self._keeps_latest = source.on_invalid == "partition_time"

    def assign(self, chunk: DecodedChunk) -> set[int]:
        """Set the timestamps of a chunk and return the rows to leave out; fast if all timestamps are valid."""
        if self._source.timestamp == "wall_clock":
            chunk.timestamps = [self._wall_time] * len(chunk.timestamps)
        elif self._function is not None:
            try:
                chunk.timestamps = self._computed(self._function, chunk)
            except Exception:
                return self._assign_singly(chunk)
        if chunk.earliest < 0:
            return self._assign_singly(chunk)
        if self._keeps_latest and chunk.timestamps:
            partition = _partition_name(chunk)
            self._latest[partition] = max(self._latest.get(partition, -1), *chunk.timestamps)
        return set()

    @staticmethod
    def _computed(function: Function, chunk: DecodedChunk) -> list[int]:
        if function.arity == 3:
            rows = enumerate(zip(chunk.keys, chunk.values, strict=True))
            times = [function.call(key, value, RowContext(chunk, row)) for row, (key, value) in rows]
        else:
            compute = function.bind(None)  # type: ignore[arg-type]  # no context is needed below three arguments
            times = [compute(key, value) for key, value in zip(chunk.keys, chunk.values, strict=True)]
        is_valid = all(type(time) is int for time in times) and max(times, default=0) < TIMESTAMP_LIMIT
        return times if is_valid else [milliseconds_of(time) for time in times]

    def _assign_singly(self, chunk: DecodedChunk) -> set[int]:
        left_out: set[int] = set()
        timestamps = list(chunk.timestamps)
        stored = chunk.rows.timestamps
        chunk.timestamps = stored  # timestamp functions see the stored timestamp of the record
        for row in range(len(stored)):
            try:
                timestamp = self._timestamp_of(chunk, row)
            except Exception as error:
                left_out.add(row)
                self._errors.reject_timestamp(self._source, chunk, row, error)
                continue
            valid = timestamp if timestamp >= 0 else self._replacement(chunk, row, timestamp)
            if valid is None:
                left_out.add(row)
                self._errors.skip(self._source, "invalid_timestamp")
                continue
            timestamps[row] = valid
            if self._keeps_latest:
                partition = _partition_name(chunk)
                self._latest[partition] = max(self._latest.get(partition, -1), valid)
        chunk.timestamps = timestamps
        return left_out

    def _timestamp_of(self, chunk: DecodedChunk, row: int) -> int:
        if self._function is None:
            return chunk.timestamps[row]
        return milliseconds_of(self._function.bind(RowContext(chunk, row))(chunk.keys[row], chunk.values[row]))

    def _replacement(self, chunk: DecodedChunk, row: int, timestamp: int) -> int | None:
        """Return the timestamp to use instead of an invalid one, or None to leave the record out."""
        if self._source.on_invalid == "skip":
            return None
        latest = self._latest.get(_partition_name(chunk)) if self._keeps_latest else None
        if latest is not None:
            return latest
        offset = int(chunk.offsets[row])
        no_latest = ", and no earlier record of its partition has a valid one" if self._keeps_latest else ""
        raise ProcessingError(
            f"record {chunk.topic}[{chunk.partition}]@{offset} has an invalid timestamp: {timestamp}{no_latest}",
            hint='on_invalid="skip" drops such records, "partition_time" uses the latest timestamp of the partition',
            topic=chunk.topic,
            partition=chunk.partition,
            offset=offset,
            node=self._source.name,
        )


def _partition_name(chunk: DecodedChunk) -> str:
    return f"{chunk.topic}/{chunk.partition}"


class RowContext:
    """The context that a timestamp function gets, before the record is processed."""

    def __init__(self, chunk: DecodedChunk, row: int) -> None:
        self._chunk = chunk
        self._row = row
        self.topic = chunk.topic
        self.partition = chunk.partition

    @property
    def timestamp(self) -> int:
        return self._chunk.timestamps[self._row]

    @property
    def offset(self) -> int:
        return int(self._chunk.offsets[self._row])

    @property
    def headers(self) -> Headers:
        return self._chunk.headers(self._row)
