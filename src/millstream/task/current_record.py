"""The current record: what user functions that take a context, and error messages, see of it."""

from __future__ import annotations

from typing import Any, TypeAlias

from millstream.foundation.value_errors import ValueErrors
from millstream.records import Headers, Record
from millstream.task.inputs import DecodedChunk
from millstream.task.merging import Interleaved

Suspended: TypeAlias = tuple[DecodedChunk | Interleaved | None, bool, Headers | None, int | None]
Bookmark: TypeAlias = tuple[Suspended, int, int]


class CurrentRecord:
    """Points at a row of a chunk; it moves on with each record, so it is valid only during a call."""

    __slots__ = ("_headers_override", "_timer_time", "chunk", "errors", "has_headers", "row", "stream_time")

    def __init__(self, stream_time: int, *, logs_errors: bool = False) -> None:
        self.chunk: DecodedChunk | Interleaved | None = None
        self.row = 0
        self.has_headers = False
        self.errors = ValueErrors(is_logging=logs_errors)
        self.stream_time = stream_time
        self._headers_override: Headers | None = None
        self._timer_time: int | None = None

    def enter(self, chunk: DecodedChunk | Interleaved) -> None:
        """Continue with the records of another chunk; the caller sets ``row``."""
        self.chunk = chunk
        self.has_headers = chunk.has_headers

    def leave(self) -> None:
        """Have no current record, as at the end of a batch."""
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
        return self.stream_time if self._timer_time is None else self._timer_time

    def override_headers(self, headers: Headers | None) -> tuple[Headers | None, bool]:
        """Forward records with these headers instead of the current record's; return what ``restore_headers`` takes."""
        saved = self._headers_override, self.has_headers
        self._headers_override, self.has_headers = headers, bool(headers)
        return saved

    def restore_headers(self, saved: tuple[Headers | None, bool]) -> None:
        """Undo ``override_headers``."""
        self._headers_override, self.has_headers = saved

    def suspend(self, now: int) -> Suspended:
        """Have no current record while a timer runs at ``now``; return what ``resume`` takes."""
        suspended = self.chunk, self.has_headers, self._headers_override, self._timer_time
        self.chunk, self.has_headers, self._headers_override, self._timer_time = None, False, None, now
        return suspended

    def resume(self, suspended: Suspended) -> None:
        """Return to the record before ``suspend``."""
        self.chunk, self.has_headers, self._headers_override, self._timer_time = suspended

    def bookmark(self) -> Bookmark:
        """Return what ``return_to`` takes to make the current record, its headers and its time current again."""
        here = self.chunk, self.has_headers, self._headers_override, self._timer_time
        return here, self.row, self.stream_time

    def return_to(self, bookmark: Bookmark) -> None:
        """Continue as if an earlier record of the batch were the current one."""
        here, self.row, self.stream_time = bookmark
        self.resume(here)

    def is_still_at(self, bookmark: Bookmark) -> bool:
        """Whether no other record has become the current one; timers and the end of the batch are not records."""
        (chunk, *_), row, _ = bookmark
        return self.chunk is None or (self.chunk is chunk and self.row == row)

    def record(self, key: Any, value: Any, timestamp: int) -> Record:
        """Return a record with this key, value and timestamp, and the topic, offset and headers of the current one."""
        headers = self.headers if self.has_headers else ()
        if self.chunk is None:
            return Record("", -1, -1, key, value, timestamp, headers)
        chunk, row = self.chunk.locate(self.row)
        return Record(chunk.topic, chunk.partition, chunk.offsets[row], key, value, timestamp, headers)

    @property
    def headers(self) -> Headers:
        return self.source_headers if self._headers_override is None else self._headers_override

    @property
    def source_headers(self) -> Headers:
        """The headers of the current record as they arrived, even if they are overridden."""
        return () if self.chunk is None else self.chunk.headers(self.row)

    @property
    def raw(self) -> tuple[bytes | None, bytes | None]:
        """Key and value as they are stored in the topic."""
        if self.chunk is None:
            return None, None
        chunk, row = self.chunk.locate(self.row)
        return chunk.raw(row)

    def __str__(self) -> str:
        if self.chunk is not None:
            return f"record {self.topic}[{self.partition}]@{self.offset}"
        return "the end of the batch" if self._timer_time is None else f"the punctuation at {self._timer_time}"
