"""A local environment as a copy of one partition of a changelog: bring it up to date, and commit to both.

The order is: open the writer, which fences all others; read the changelog to its end; process; commit to the changelog;
commit locally. So the local copy is never ahead of the changelog, only its owner can write, and no process acts on a
copy that lacks a commit. Replaying records that the copy already contains changes nothing: the last write wins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from millstream.broker import TOMBSTONE_RETENTION_MS, Broker, Offsets, Output
from millstream.errors import StateError
from millstream.foundation.blocks import Block
from millstream.foundation.databases import clear_databases
from millstream.foundation.storage import Environment
from millstream.foundation.transactions import Transaction
from millstream.foundation.typed_decoding import decode_msgpack
from millstream.state.changelog_rows import POSITIONS, RowAssembler, changelog_block
from millstream.state.recording import Changes, Rows, apply_rows

_POSITION = b"position"
_SNAPSHOT = b"snapshot"
_VISIBLE_SECONDS = 10.0  # Kafka acknowledges a commit shortly before readers see it
_POLL_SECONDS = 0.01
_PARTS = 1_000
_COMMIT_BYTES = 16 << 20
"""Records of a changelog that are committed together: more of them change a page of the copy less often."""
_STORE_POSITION_MS = 3_600_000  # how often a position is stored that has not changed: each time waits for the disk
_MAX_AGE_MS = TOMBSTONE_RETENTION_MS // 2  # half, since the clocks of hosts differ and compaction is not punctual


class ChangelogTopic(msgspec.Struct, frozen=True, array_like=True):
    """A changelog topic; its id changes when it is deleted and created again."""

    name: str
    id: str


class CopyPosition(msgspec.Struct, frozen=True, array_like=True):
    """The offset up to which an environment contains a changelog, as of a wall-clock time; it may be too low."""

    topic: str
    """The id of the topic."""
    offset: int
    at: int


class CatchUp(msgspec.Struct, frozen=True):
    """How far a copy has been brought up to date."""

    rows: int
    bytes: int
    offset: int
    start: int
    end: int

    @classmethod
    def of_part(cls, rows: int, size: int, part: float) -> CatchUp:
        """Return the progress of a copy that is not made by offsets, by its part from 0 to 1."""
        return cls(rows, size, int(part * _PARTS), 0, _PARTS)

    @property
    def part(self) -> float:
        """The part of the offsets that has been read, from 0 to 1."""
        return (self.offset - self.start) / max(1, self.end - self.start)


OnCatchUp: TypeAlias = Callable[[CatchUp], None]
OnTaskRestore: TypeAlias = Callable[[str, CatchUp], None]
"""Receives the name of a task that is being restored, and how far it is."""


def ignore_restore(_task: str, _progress: CatchUp) -> None:
    """Report nothing."""


class ChangelogPartition:
    """One partition of a changelog, and how to write to it."""

    def __init__(self, broker: Broker, topic: ChangelogTopic, partition: int) -> None:
        self._broker = broker
        self.topic = topic
        self.number = partition

    def is_usable(self, environment: Environment) -> bool:
        """Whether a copy can be brought up to date; otherwise it has to be discarded first."""
        position = self.position(environment)
        age = time.time_ns() // 1_000_000 - (0 if position is None else position.at)
        return position is not None and position.topic == self.topic.id and age <= _MAX_AGE_MS

    def position(self, environment: Environment) -> CopyPosition | None:
        """Return the stored position of a copy."""
        environment.open_databases((POSITIONS,))
        if environment.databases[POSITIONS] is None:
            return None
        with environment.read() as txn:
            stored = txn.get(_POSITION, db=environment.databases[POSITIONS])
        return None if stored is None else decode_msgpack(stored, CopyPosition)

    def is_empty(self) -> bool:
        """Whether the changelog has no committed records."""
        return not self.has_records_from(0)

    def has_records_from(self, offset: int) -> bool:
        """Whether the changelog has committed records at or after an offset."""
        bounds = self._broker.offsets(self.topic.name)[self.number]
        start = max(bounds.begin, offset)
        return next(self._broker.read(self.topic.name, self.number, start, bounds.end), None) is not None

    def offset_in(self, environment: Environment, txn: Transaction) -> int:
        """Return the offset up to which an environment contains the changelog, as a transaction sees it."""
        position = _position_in(environment, txn)
        return 0 if position is None else position.offset

    def rows(self) -> Rows:
        """Return all rows of a small changelog; deleted ones are None."""
        return self.rows_from(0)[0]

    def rows_from(self, offset: int) -> tuple[Rows, int]:
        """Return the rows at or after an offset, and the offset after them."""
        bounds = self._broker.offsets(self.topic.name)[self.number]
        start = max(bounds.begin, offset)
        assembler = RowAssembler()
        chunks = self._broker.read(self.topic.name, self.number, start, bounds.end)
        return [row for chunk in chunks for row in assembler.rows_of(chunk.block)], max(start, bounds.end)

    def restart_copy(self, environment: Environment) -> None:
        """Empty an environment, so that it is a copy of the changelog up to offset 0."""
        clear_databases(environment)
        self.start_copy(environment)

    def start_copy(self, environment: Environment) -> None:
        """Store that an environment is a copy of the changelog up to offset 0."""
        environment.open_databases((POSITIONS,))
        environment.update(lambda txn: self._put_position(environment, txn, 0))

    def finish_copy(self, environment: Environment) -> None:
        """Store that an environment contains everything that the changelog has now."""
        end = self._broker.offsets(self.topic.name)[self.number].end
        environment.open_databases((POSITIONS,))
        environment.update(lambda txn: self._put_position(environment, txn, end))

    def snapshot_batch(self, environment: Environment) -> int:
        """Return the batch of which this host has last uploaded a snapshot."""
        environment.open_databases((POSITIONS,))
        with environment.read() as txn:
            return int(txn.get(_SNAPSHOT, b"0", db=environment.databases[POSITIONS]))

    def store_snapshot_batch(self, environment: Environment, batch: int) -> None:
        """Store the batch of which this host has uploaded a snapshot."""
        environment.update(lambda txn: txn.put(_SNAPSHOT, b"%d" % batch, db=environment.databases[POSITIONS]))

    def catch_up(self, environment: Environment, on_progress: OnCatchUp = lambda _: None) -> CatchUp:
        """Apply the records that a copy lacks, in several commits; a later call continues where this one stopped."""
        position = self.position(environment)
        bounds = self._bounds(0 if position is None else position.offset)
        start = complete = max(bounds.begin, 0 if position is None else position.offset)
        progress = CatchUp(0, 0, start, start, bounds.end)
        assembler = RowAssembler()
        waiting: Rows = []
        waiting_bytes = 0
        for chunk in self._broker.read(self.topic.name, self.number, start, bounds.end):
            rows, size = assembler.rows_of(chunk.block), chunk.block.nbytes
            waiting += rows
            waiting_bytes += size
            if assembler.is_between_rows:
                complete = chunk.next_offset  # a later call must not begin inside a value that is split
            if waiting_bytes >= _COMMIT_BYTES:
                self._apply(environment, waiting, complete)
                waiting, waiting_bytes = [], 0
            progress = CatchUp(progress.rows + len(rows), progress.bytes + size, chunk.next_offset, start, bounds.end)
            on_progress(progress)
        now = time.time_ns() // 1_000_000
        if waiting or position is None or position.offset != bounds.end or now - position.at > _STORE_POSITION_MS:
            self._apply(environment, waiting, bounds.end)
        return progress

    def _bounds(self, offset: int) -> Offsets:
        """Return the bounds of the partition; waits a moment if it ends before an offset that was committed."""
        deadline = time.monotonic() + _VISIBLE_SECONDS
        while True:
            bounds = self._broker.offsets(self.topic.name)[self.number]
            if bounds.end >= offset:
                return bounds
            if time.monotonic() > deadline:
                raise StateError(
                    f"changelog {self.topic.name!r} ends at offset {bounds.end} in partition {self.number}, but "
                    f"the app has written it up to {offset}",
                    hint="the cluster has lost records; restore a savepoint, or reset the app",
                )
            time.sleep(_POLL_SECONDS)

    def _apply(self, environment: Environment, rows: Rows, offset: int) -> None:
        environment.open_databases(tuple({database for database, _, _ in rows}))

        def change(txn: Transaction) -> None:
            apply_rows(txn, environment.databases, rows)
            self._put_position(environment, txn, offset)

        environment.update(change)

    def stage(self, environment: Environment, txn: Transaction, changes: Changes, unstored: int = 0) -> Output | None:
        """Return what a transaction has changed as records, and advance the position of the copy in ``txn``.

        ``unstored`` offsets were written before and are not part of the position yet.
        """
        block: Block = changelog_block(changes)
        if not len(block):
            return None
        # Each record and the end of the transaction take an offset; aborted attempts take more, which are read again.
        self.advance(environment, txn, unstored + len(block) + 1)
        return Output(self.topic.name, self.number, block)

    def advance(self, environment: Environment, txn: Transaction, offsets: int) -> None:
        """Advance the position of a copy that contains that many offsets more."""
        position = _position_in(environment, txn)
        self._put_position(environment, txn, (0 if position is None else position.offset) + offsets)

    def _put_position(self, environment: Environment, txn: Transaction, offset: int) -> None:
        position = CopyPosition(self.topic.id, offset, time.time_ns() // 1_000_000)
        txn.put(_POSITION, msgspec.msgpack.encode(position), db=environment.databases[POSITIONS])


def _position_in(environment: Environment, txn: Transaction) -> CopyPosition | None:
    stored = txn.get(_POSITION, db=environment.databases[POSITIONS])
    return None if stored is None else decode_msgpack(stored, CopyPosition)
