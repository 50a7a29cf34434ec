"""A source and a sink in memory, which are as exact as the best of the real ones."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee, Intake, Rejected, SinkBatch
from millstream.errors import TargetUnavailableError
from millstream.foundation.blocks import block_of
from millstream.records import Record
from millstream.serdes import JSON, READABLE


class MemorySink:
    """Keeps batches, each once; ``is_down`` makes it unavailable."""

    guarantee: Guarantee = "exactly once"

    def __init__(self) -> None:
        self.batches: list[SinkBatch] = []
        self.is_down = False
        self.attempted = threading.Event()
        self.written = threading.Condition()

    def open(self, _context: ConnectorContext, /) -> MemorySink:
        """Return itself."""
        return self

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Keep a batch unless it was written before."""
        self.attempted.set()
        if self.is_down:
            raise TargetUnavailableError("the memory is switched off", hint="set is_down to False")
        with self.written:
            if (batch.lineage, batch.number) not in {(kept.lineage, kept.number) for kept in self.batches}:
                self.batches.append(batch)
            self.written.notify_all()
        return []

    def close(self) -> None:
        """Do nothing."""

    @property
    def records(self) -> list[Record[Any, Any]]:
        """All records that were written, in order."""
        return [record for batch in self.batches for record in batch.records]


class MemorySource:
    """Reads what ``put`` adds, from any position."""

    guarantee: Guarantee = "exactly once"

    def __init__(self, *topics: str, partitions: int = 1, most: int = 100, patience: float = 60.0) -> None:
        """Fill topics with up to ``most`` changes at a time; wait for changes for ``patience`` seconds at most."""
        self._topics = {topic: TopicConfig(partitions=partitions) for topic in topics}
        self._most = most
        self._patience = patience
        self._changes: list[tuple[str, Any, Any]] = []
        self._added = threading.Condition()
        self.acknowledged = 0
        """How many changes the loop has taken over."""

    def put(self, topic: str, key: Any, value: Any) -> None:
        """Add a change; a value of None is a tombstone."""
        with self._added:
            self._changes.append((topic, key, value))
            self._added.notify_all()

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the topics that it was made with."""
        return self._topics

    def open(self, position: bytes | None, _context: ConnectorContext, /) -> MemoryReader:
        """Read on after as many changes as the position says."""
        return MemoryReader(self, int(position or b"0"))


class MemoryReader:
    """Reads a ``MemorySource``."""

    def __init__(self, source: MemorySource, start: int) -> None:
        self._source = source
        self._next = start

    def read(self, timeout: float) -> Intake | None:
        """Return the next changes, or None if there are none."""
        source = self._source
        with source._added:
            if not source._added.wait_for(lambda: len(source._changes) > self._next, min(timeout, source._patience)):
                return None
            changes = source._changes[self._next : self._next + source._most]
        self._next += len(changes)
        blocks = {
            topic: block_of(
                [None if key is None else READABLE.encode(key) for name, key, _ in changes if name == topic],
                [None if value is None else JSON.encode(value) for name, _, value in changes if name == topic],
                [0 for name, _, _ in changes if name == topic],
            )
            for topic in dict.fromkeys(name for name, _, _ in changes)
        }
        return Intake(records=blocks, position=b"%d" % self._next)

    def committed(self, position: bytes) -> None:
        """Learn how many changes are durable."""
        self._source.acknowledged = int(position)

    def close(self) -> None:
        """Do nothing."""
