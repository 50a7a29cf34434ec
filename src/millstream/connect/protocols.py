"""What a connector implements: a source reads records from another system, a sink writes records to one.

A connector knows its own system only. Positions, repeated batches, restarts, dead letters and metrics belong to the
loops in this package, so that every connector has the same guarantees for the same few methods.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from millstream.broker import TopicConfig
from millstream.foundation.blocks import Block
from millstream.records import Record

Guarantee: TypeAlias = Literal["exactly once", "effectively once", "at least once", "at most once"]
"""Effectively once: a repeated batch is written again and leaves the target as it was."""


class ConnectorContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a connector may use while it is open."""

    name: str
    """The name of the connector, unique within its app."""
    app: str
    directory: Path
    """For the connector's own files. Deleted with the state of the app, and safe to lose."""
    stopping: threading.Event
    """Set when the connector has to return from whatever it waits for."""
    report: Callable[[str, float], None]
    """Set a gauge by name, which status, the dashboard and Prometheus show."""


class Intake(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a source, up to a position from which it can continue."""

    records: Mapping[str, Block]
    """By topic. The loop assigns partitions by key, as a producer does."""
    position: bytes
    """Opaque to the loop. Everything before it is in this intake or in an earlier one."""
    event_time: int | None = None
    """The newest time of the source's own clock, in milliseconds: how far behind the source is."""
    waiting: int | None = None
    """How many bytes or records are still to be read, if the source knows."""


class SourceReader(Protocol):
    """An open source. One reader is open at a time; all calls come from one thread."""

    def read(self, timeout: float) -> Intake | None:
        """Return what is there, or None after ``timeout`` seconds without anything; end at a transaction."""

    def committed(self, position: bytes, /) -> None:
        """Learn that everything before the position is durable: the source may forget it."""

    def close(self) -> None: ...


class Source(Protocol):
    """Reads from another system, from any position that it has returned before."""

    guarantee: Guarantee

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the topics that are created if they do not exist."""

    def open(self, position: bytes | None, context: ConnectorContext, /) -> SourceReader:
        """Continue from a position; None means that nothing has been read yet."""


class SinkBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Records to be written. The same lineage and number always mean the same records."""

    lineage: str
    """Changes when the app is reset or a savepoint is restored; numbers start again then."""
    number: int
    wall_time: int
    """When the batch was planned, in milliseconds; grows from batch to batch, also across lineages."""
    records: Sequence[Record[Any, Any]]

    @property
    def latest(self) -> dict[Any, Record[Any, Any]]:
        """The last record of each key, in the order in which the keys came last; records without a key are left out."""
        latest: dict[Any, Record[Any, Any]] = {}
        for record in self.records:
            if record.key is not None:
                latest.pop(record.key, None)
                latest[record.key] = record
        return latest


class Rejected(msgspec.Struct, frozen=True):
    """A record that the target will never accept, and the reason; the error policy of the sink applies to it."""

    record: Record[Any, Any]
    error: str


class RecordsRejectedError(Exception):
    """The target refuses some records, and nothing of the batch was written.

    The loop makes the rejections durable and calls ``write`` again with the other records, under the same number. A
    sink that skips batches which it has written before raises this instead of returning rejections: it would not
    return them again after a crash.
    """

    def __init__(self, rejected: Sequence[Rejected]) -> None:
        super().__init__(f"{len(rejected)} records were rejected, the first because of: {rejected[0].error}")
        self.rejected = rejected


class SinkWriter(Protocol):
    """An open sink. All calls come from one thread; after an error it is closed and the sink is opened again."""

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Write all records of a batch but the rejected ones, or raise.

        ``TargetUnavailableError`` means that the target may be back later: the batch is written again, forever. If
        some of the other records are already written, return the rejected ones; a batch that is written again must
        then return them again. If nothing is written, raise ``RecordsRejectedError``.
        """

    def close(self) -> None: ...


class Sink(Protocol):
    """Writes to another system."""

    guarantee: Guarantee

    def open(self, context: ConnectorContext, /) -> SinkWriter: ...


@runtime_checkable
class SupportsCheck(Protocol):
    """A source or sink that can say what is missing before it runs."""

    def check(self) -> Sequence[str]:
        """Connect, change nothing, and return what is missing, a sentence each."""


@runtime_checkable
class SupportsCatchingUp(Protocol):
    """A reader that knows how much there was when it was opened; of others it is all once a read returns nothing."""

    def has_caught_up(self) -> bool:
        """Return whether everything that existed when the reader was opened has been returned."""


@runtime_checkable
class SupportsSnapshot(Protocol):
    """A reader that can read a table of its source again while it goes on with the changes."""

    def snapshot(self, table: str) -> None:
        """Begin to read a table from the start; positions from now on include how far it is."""
