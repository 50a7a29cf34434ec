"""The event time of records: computed, checked, and decided by policy where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from millstream.errors import ProcessingError
from millstream.functions import Function
from millstream.plan.sources import Source
from millstream.records import Headers
from millstream.timestamps import milliseconds_of

if TYPE_CHECKING:
    from millstream.task.inputs import Decoded


class Leaving(Protocol):
    """Told of records that are left out before they are processed."""

    def skipped(self, source: Source, reason: str) -> None:
        """A record has no time and the source skips such records."""

    def unstamped(self, source: Source, chunk: Decoded, row: int, error: Exception) -> None:
        """The function that computes the time raised; raises if that is to fail."""


class Stamps:
    """Gives the records of a source their time.

    ``latest`` has by partition the latest time so far, which is kept with the task's state if the source needs it.
    """

    def __init__(self, source: Source, wall_time: int, latest: dict[str, int], leaving: Leaving) -> None:
        self._source = source
        self._wall_time = wall_time
        self._latest = latest
        self._leaving = leaving
        self._function = source.timestamp if isinstance(source.timestamp, Function) else None
        self._remembers = source.on_invalid == "partition_time"

    def stamp(self, chunk: Decoded) -> set[int]:
        """Set the timestamps of a chunk and return the rows to leave out; quick if nothing is wrong with them."""
        if self._source.timestamp == "wall_clock":
            chunk.timestamps = [self._wall_time] * len(chunk.timestamps)
        elif self._function is not None:
            try:
                chunk.timestamps = self._computed(self._function, chunk)
            except Exception:
                return self._stamp_singly(chunk)
        if min(chunk.timestamps, default=0) < 0:
            return self._stamp_singly(chunk)
        if self._remembers and chunk.timestamps:
            place = _place(chunk)
            self._latest[place] = max(self._latest.get(place, -1), *chunk.timestamps)
        return set()

    @staticmethod
    def _computed(function: Function, chunk: Decoded) -> list[int]:
        if function.arity == 3:
            rows = enumerate(zip(chunk.keys, chunk.values, strict=True))
            found = [function.call(key, value, RowContext(chunk, row)) for row, (key, value) in rows]
        else:
            compute = function.bind(None)  # type: ignore[arg-type]  # no context is needed below three arguments
            found = [compute(key, value) for key, value in zip(chunk.keys, chunk.values, strict=True)]
        return found if all(type(one) is int for one in found) else [milliseconds_of(one) for one in found]

    def _stamp_singly(self, chunk: Decoded) -> set[int]:
        left_out: set[int] = set()
        timestamps = list(chunk.timestamps)
        own = chunk.rows.timestamps
        chunk.timestamps = own  # what functions see as the record's time is its own
        for row in range(len(own)):
            try:
                found = self._one(chunk, row)
            except Exception as error:
                left_out.add(row)
                self._leaving.unstamped(self._source, chunk, row, error)
                continue
            valid = found if found >= 0 else self._replaced(chunk, row, found)
            if valid is None:
                left_out.add(row)
                self._leaving.skipped(self._source, "invalid_timestamp")
                continue
            timestamps[row] = valid
            if self._remembers:
                self._latest[_place(chunk)] = max(self._latest.get(_place(chunk), -1), valid)
        chunk.timestamps = timestamps
        return left_out

    def _one(self, chunk: Decoded, row: int) -> int:
        if self._function is None:
            return chunk.timestamps[row]
        return milliseconds_of(self._function.bind(RowContext(chunk, row))(chunk.keys[row], chunk.values[row]))

    def _replaced(self, chunk: Decoded, row: int, found: int) -> int | None:
        """Return the time to use instead of an invalid one, or None to leave the record out."""
        if self._source.on_invalid == "skip":
            return None
        latest = self._latest.get(_place(chunk)) if self._remembers else None
        if latest is not None:
            return latest
        offset = int(chunk.offsets[row])
        first = ", and no record of its partition had one before" if self._remembers else ""
        raise ProcessingError(
            f"record {chunk.topic}[{chunk.partition}]@{offset} has no valid time: it is {found}{first}",
            hint='on_invalid="skip" leaves such records out, "partition_time" gives them the latest time before',
            topic=chunk.topic,
            partition=chunk.partition,
            offset=offset,
            node=self._source.name,
        )


def _place(chunk: Decoded) -> str:
    return f"{chunk.topic}/{chunk.partition}"


class RowContext:
    """The context of a record before it is processed, for timestamp functions."""

    def __init__(self, chunk: Decoded, row: int) -> None:
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
