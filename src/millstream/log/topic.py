"""One topic: an LMDB environment with blobs, their index, the sequences of producers, and bounds.

The index contains offsets, times and sizes, so only reading records accesses blobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from millstream.broker import Offsets
from millstream.errors import UnknownTopicError
from millstream.foundation.content import TOPIC
from millstream.foundation.storage import Environment, open_environment
from millstream.foundation.transactions import Transaction
from millstream.log.layout import (
    CATALOG_KEY,
    DATABASES,
    ID_KEY,
    PLAIN_DATABASES,
    Bounds,
    Span,
    pack_sequence,
    unpack_sequence,
)
from millstream.log.snapshot import Snapshot, out_of_range
from millstream.log.waiting import notify
from millstream.log.writing import Blob, check_partition, encode_blob

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.broker import Output, TopicConfig

T = TypeVar("T")
CLEAN_AFTER_BLOBS = 256
CLEAN_AFTER_MS = 300_000
_CLEAN_OVERSIZED_AFTER_BLOBS = 8


class TopicContent(NamedTuple):
    """What a directory of a topic holds; a deleted topic has no id."""

    id: str | None
    has_records: bool


class Topic:
    """A topic as described by the catalog; cheap to create, opened on first use."""

    def __init__(self, name: str, id: str, config: TopicConfig, directory: Path, *, sync: bool) -> None:
        self.name = name
        self.id = id
        self.config = config
        self.directory = directory
        self._id = id.encode()
        self._sync = sync
        self._data = str(directory / "data.mdb")
        self._environment: Environment | None = None

    @property
    def environment(self) -> Environment:
        """The topic's environment in this process."""
        if self._environment is None or not self._environment.is_open:
            self._environment = _open(self.directory, self._sync)
        return self._environment

    @property
    def waiters(self) -> Path:
        """The directory with the pipes of processes that wait for new records."""
        return self.directory / "waiters"

    def initialize(self) -> None:
        """Create the directory and write the topic's id into it."""
        opened = self.environment
        opened.update(lambda txn: txn.put(ID_KEY, self._id, db=opened.databases["bounds"]))

    @staticmethod
    def invalidate(directory: Path, *, sync: bool) -> None:
        """Remove the id from a directory, so that processes that have it open notice that the topic was deleted."""
        opened = _open(directory, sync)
        opened.update(lambda txn: txn.delete(ID_KEY, db=opened.databases["bounds"]))
        opened.close()

    @staticmethod
    def content(directory: Path, *, sync: bool) -> TopicContent:
        """Return what a directory holds, whether or not the catalog has the topic."""
        opened = _open(directory, sync)
        with opened.read() as txn:
            stored = txn.get(ID_KEY, db=opened.databases["bounds"])
            entries = txn.stat(opened.databases["blobs"])["entries"]
        return TopicContent(None if stored is None else stored.decode(), entries > 0)

    def catalog_commit(self) -> int:
        """Return the commit that the catalog had reached when this topic was last closed, 0 if that is not known."""
        opened = self.environment
        with opened.read() as txn:
            stored = txn.get(CATALOG_KEY, db=opened.databases["bounds"])
        return 0 if stored is None else unpack_sequence(stored)

    def remember_catalog(self, commit: int) -> None:
        """Store the commit that the catalog has reached."""
        opened = self.environment
        opened.update(lambda txn: txn.put(CATALOG_KEY, pack_sequence(commit), db=opened.databases["bounds"]))

    def has_directory(self) -> bool:
        """Whether the directory exists; it may belong to a later topic with the same name."""
        return os.path.exists(self._data)  # noqa: PTH110 - half the cost of Path.exists, on every call

    def exists(self) -> bool:
        """Whether the directory belongs to this topic; the environment of an earlier topic is closed first."""
        if not self.has_directory():
            return False
        for _ in range(2):
            opened = self.environment
            with opened.read() as txn:
                if txn.get(ID_KEY, db=opened.databases["bounds"]) == self._id:
                    return True
            opened.close()
        return False

    @contextmanager
    def snapshot(self, *, buffers: bool = False) -> Iterator[Snapshot]:
        """Open a snapshot of the topic; keep it short."""
        opened = self.environment
        with opened.read(buffers=buffers) as txn:
            yield Snapshot(txn, opened.databases, self.directory)

    def update(self, change: Callable[[Snapshot], T]) -> T:
        """Change the topic in one transaction, unless it has been deleted."""
        opened = self.environment

        def checked(txn: Transaction) -> T:
            if txn.get(ID_KEY, db=opened.databases["bounds"]) != self._id:
                raise UnknownTopicError(
                    f"topic {self.name!r} has been deleted",
                    hint=f"create it: millstream topics create {self.name}",
                    topic=self.name,
                )
            return change(Snapshot(txn, opened.databases, self.directory))

        return opened.update(checked)

    def sync(self) -> None:
        """Flush everything committed so far to disk."""
        self.environment.sync()

    def clear_stale_readers(self) -> None:
        """Release the pages that were read by processes that have died."""
        self.environment.clear_stale_readers()

    def offsets(self) -> list[Offsets]:
        """Return the first and the next offset of every partition."""
        with self.snapshot() as snapshot:
            bounds = map(snapshot.bounds, range(self.config.partitions))
            return [Offsets(begin=each.begin, end=each.end) for each in bounds]

    def bytes(self) -> list[int]:
        """Return the size of every partition in bytes."""
        with self.snapshot() as snapshot:
            return [snapshot.bounds(partition).bytes for partition in range(self.config.partitions)]

    def append(self, outputs: Sequence[Output], once: Sequence[tuple[str, int]] = ()) -> tuple[list[int], bool]:
        """Append blocks in one transaction; return their first offsets, and whether cleaning is due.

        ``once`` has a producer and a sequence for each block; blocks for partitions that already have this or a later
        sequence of the producer are skipped.
        """
        now = time_ns() // 1_000_000
        # Append timestamps are taken under the write lock, so that they increase with the offsets.
        encoded = None if self.config.timestamps == "append" else [encode_blob(o, self.config, now) for o in outputs]

        def change(snapshot: Snapshot) -> tuple[list[int], bool]:
            time = time_ns() // 1_000_000
            blobs = [encode_blob(o, self.config, time) for o in outputs] if encoded is None else encoded
            offsets, changed = _append_outputs(snapshot, outputs, blobs, once, time)
            return offsets, any(self._is_cleaning_due(bounds, time) for bounds in changed)

        result = self.update(change)
        notify(self.waiters)
        return result

    def _is_cleaning_due(self, bounds: Bounds, now: int) -> bool:
        limit = self.config.retention_bytes
        return (
            bounds.new_blobs >= CLEAN_AFTER_BLOBS
            or now - bounds.cleaned >= CLEAN_AFTER_MS
            or (limit is not None and bounds.bytes > 2 * limit and bounds.new_blobs >= _CLEAN_OVERSIZED_AFTER_BLOBS)
        )

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete the records before ``offset``; the others keep their offsets."""
        check_partition(self.name, partition, self.config)

        def change(snapshot: Snapshot) -> None:
            bounds = snapshot.bounds(partition)
            if offset > bounds.end:
                raise out_of_range(self.name, partition, offset, bounds)
            if offset > bounds.begin:
                snapshot.drop_before(partition, offset)

        self.update(change)


def _open(directory: Path, sync: bool) -> Environment:
    return open_environment(directory, DATABASES, sync=sync, plain=PLAIN_DATABASES, content=TOPIC)


def _append_outputs(
    snapshot: Snapshot,
    outputs: Sequence[Output],
    blobs: Sequence[Blob | None],
    once: Sequence[tuple[str, int]],
    now: int,
) -> tuple[list[int], list[Bounds]]:
    offsets = []
    changed = []
    claims = {(output.partition, *claim) for output, claim in zip(outputs, once, strict=True)} if once else set()
    stored = {claim for claim in claims if _is_stored(snapshot, *claim)}
    for index, (output, blob) in enumerate(zip(outputs, blobs, strict=True)):
        bounds = snapshot.bounds(output.partition)
        offsets.append(bounds.end)
        if blob is None or (once and (output.partition, *once[index]) in stored):
            continue
        changed.append(_append_blob(snapshot, blob, bounds, now))
    for claim in claims - stored:
        snapshot.put_sequence(*claim)
    return offsets, changed


def _is_stored(snapshot: Snapshot, partition: int, producer: str, sequence: int) -> bool:
    last = snapshot.last_sequence(partition, producer)
    return last is not None and last >= sequence


def _append_blob(snapshot: Snapshot, blob: Blob, bounds: Bounds, now: int) -> Bounds:
    base = bounds.end
    peak = max(bounds.peak_time, blob.last_time)
    size = len(blob.data)
    span = Span(base, base + blob.records, blob.records, blob.first_time, blob.last_time, peak, now, size, False)
    snapshot.put_blob(blob.partition, span, blob.data)
    bounds = bounds._replace(
        end=span.next_offset,
        bytes=bounds.bytes + size,
        peak_time=peak,
        new_blobs=bounds.new_blobs + 1,
        cleaned=bounds.cleaned or now,
    )
    snapshot.put_bounds(blob.partition, bounds)
    return bounds
