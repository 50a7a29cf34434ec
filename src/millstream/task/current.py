"""The record at hand: what user functions with three parameters and error messages learn about it."""

from __future__ import annotations

from millstream.records import Headers
from millstream.task.inputs import Decoded


class Current:
    """Points at a row of a decoded chunk; moved for each record, so it is valid during a call only."""

    __slots__ = ("_carried", "chunk", "has_headers", "row", "stream_time")

    def __init__(self, stream_time: int) -> None:
        self.chunk: Decoded | None = None
        self.row = 0
        self.has_headers = False
        self.stream_time = stream_time
        self._carried: Headers | None = None

    def enter(self, chunk: Decoded) -> None:
        """Go on to records of another chunk."""
        self.chunk = chunk
        self.has_headers = chunk.has_headers

    def leave(self) -> None:
        """Say that no record is at hand, as at the end of a batch."""
        self.chunk = None
        self.has_headers = False

    @property
    def topic(self) -> str:
        return "" if self.chunk is None else self.chunk.topic

    @property
    def partition(self) -> int:
        return -1 if self.chunk is None else self.chunk.partition

    @property
    def offset(self) -> int:
        return -1 if self.chunk is None else int(self.chunk.offsets[self.row])

    @property
    def timestamp(self) -> int:
        return self.stream_time if self.chunk is None else self.chunk.timestamps[self.row]

    def carry(self, headers: Headers | None) -> tuple[Headers | None, bool]:
        """Have what is passed on carry other headers than the record at hand; returns what ``restore`` takes."""
        before = self._carried, self.has_headers
        self._carried, self.has_headers = headers, bool(headers)
        return before

    def restore(self, carried: tuple[Headers | None, bool]) -> None:
        """Go back to the headers before ``carry``."""
        self._carried, self.has_headers = carried

    @property
    def headers(self) -> Headers:
        if self._carried is not None:
            return self._carried
        return () if self.chunk is None else self.chunk.headers(self.row)

    @property
    def raw(self) -> tuple[bytes | None, bytes | None]:
        """Key and value as they came from the topic."""
        return (None, None) if self.chunk is None else self.chunk.raw(self.row)

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}" if self.chunk else "the end of the batch"
