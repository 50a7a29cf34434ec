"""The record at hand: what user functions with three parameters and error messages learn about it."""

from __future__ import annotations

from typing import Any, TypeAlias

from millstream.records import Headers, Record
from millstream.task.inputs import Decoded
from millstream.task.merging import Interleaved

Aside: TypeAlias = tuple[Decoded | Interleaved | None, bool, Headers | None, int | None]


class Current:
    """Points at a row of a decoded chunk; moved for each record, so it is valid during a call only."""

    __slots__ = ("_carried", "_moment", "chunk", "has_headers", "row", "stream_time")

    def __init__(self, stream_time: int) -> None:
        self.chunk: Decoded | Interleaved | None = None
        self.row = 0
        self.has_headers = False
        self.stream_time = stream_time
        self._carried: Headers | None = None
        self._moment: int | None = None

    def enter(self, chunk: Decoded | Interleaved) -> None:
        """Go on to records of another chunk."""
        self.chunk = chunk
        self.has_headers = chunk.has_headers

    def leave(self) -> None:
        """Say that no record is at hand, as at the end of a batch."""
        self.chunk = None
        self.has_headers = False

    @property
    def topic(self) -> str:
        return "" if self.chunk is None else self.chunk.locate(self.row)[0].topic

    @property
    def partition(self) -> int:
        return -1 if self.chunk is None else self.chunk.locate(self.row)[0].partition

    @property
    def offset(self) -> int:
        if self.chunk is None:
            return -1
        chunk, row = self.chunk.locate(self.row)
        return int(chunk.offsets[row])

    @property
    def timestamp(self) -> int:
        if self.chunk is not None:
            return self.chunk.timestamps[self.row]
        return self.stream_time if self._moment is None else self._moment

    def carry(self, headers: Headers | None) -> tuple[Headers | None, bool]:
        """Have what is passed on carry other headers than the record at hand; returns what ``restore`` takes."""
        before = self._carried, self.has_headers
        self._carried, self.has_headers = headers, bool(headers)
        return before

    def restore(self, carried: tuple[Headers | None, bool]) -> None:
        """Go back to the headers before ``carry``."""
        self._carried, self.has_headers = carried

    def step_aside(self, now: int) -> Aside:
        """Let no record be at hand, as while a timer is called at ``now``; returns what ``step_back`` takes."""
        before = self.chunk, self.has_headers, self._carried, self._moment
        self.chunk, self.has_headers, self._carried, self._moment = None, False, None, now
        return before

    def step_back(self, aside: Aside) -> None:
        """Go back to the record before ``step_aside``."""
        self.chunk, self.has_headers, self._carried, self._moment = aside

    def record(self, key: Any, value: Any, timestamp: int) -> Record:
        """Return key, value and timestamp as a record that comes from where the one at hand does."""
        headers = self.headers if self.has_headers else ()
        if self.chunk is None:
            return Record("", -1, -1, key, value, timestamp, headers)
        chunk, row = self.chunk.locate(self.row)
        return Record(chunk.topic, chunk.partition, chunk.offsets[row], key, value, timestamp, headers)

    @property
    def headers(self) -> Headers:
        return self.source_headers if self._carried is None else self._carried

    @property
    def source_headers(self) -> Headers:
        """The headers of the record at hand as they arrived, whatever is passed on."""
        return () if self.chunk is None else self.chunk.headers(self.row)

    @property
    def raw(self) -> tuple[bytes | None, bytes | None]:
        """Key and value as they came from the topic."""
        if self.chunk is None:
            return None, None
        chunk, row = self.chunk.locate(self.row)
        return chunk.raw(row)

    def __str__(self) -> str:
        if self.chunk is not None:
            return f"record {self.topic}[{self.partition}]@{self.offset}"
        return "the end of the batch" if self._moment is None else f"the punctuation at {self._moment}"
