"""The journal of a source: its position and the records that belong to it are one commit.

On Kafka that is one transaction of the broker: the records in their topics, the position in the topic of the journal,
of which the environment on disk is a copy. On an embedded log the records are stored with the position. After a crash
the stored records are published again under the same number, which partitions that have them skip, and the source is
read on from the stored position. What a source returns need not be the same if it is read twice.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from millstream.batch.history import HISTORY, FailureReport, History
from millstream.batch.journal_changelog import JournalChangelog
from millstream.batch.lineage import LINEAGE, lineage_in
from millstream.batch.shared_journal import SharedJournal, is_marked_ahead, mark_ahead
from millstream.broker import Output
from millstream.foundation.content import SOURCE_JOURNAL
from millstream.foundation.storage import Environment, open_environment
from millstream.foundation.stored import decoding
from millstream.foundation.transactions import Transaction, WriteTransaction
from millstream.foundation.typed_decoding import decode_msgpack
from millstream.state.recording import Changes
from millstream.task.outbox import OutboxBlock

SOURCE = "source"
"""The database with the rows that are in the topic of the journal."""
_PROGRESS, _OUTBOX = b"progress", b"outbox"
_encoder = msgspec.msgpack.Encoder()
_pack = _encoder.encode
_unpack = msgspec.msgpack.Decoder(list[OutboxBlock]).decode


class SourceProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a source has been read."""

    sequence: int = 0
    """The number of the last intake."""
    position: bytes | None = None
    records: int = 0
    """All records so far."""


class SourceJournal:
    """The journal of one source."""

    def __init__(self, path: Path, *, durable: bool = True, readonly: bool = False) -> None:
        self.path = path
        self._environment: Environment = open_environment(
            path, (SOURCE, HISTORY), sync=durable, readonly=readonly, content=SOURCE_JOURNAL
        )
        self._database = self._environment.databases[SOURCE]
        self._history = History(self._environment)
        self.changelog: SharedJournal | None = None
        """The topic of the journal, while this process has taken it over."""

    def take_over(self) -> None:
        """Fence all other processes that read the source, and bring the journal up to date."""
        if self.changelog is not None:
            self.changelog.take_over(self._environment)

    def leave(self) -> None:
        """Let another process read the source."""
        if self.changelog is not None:
            self.changelog.leave()

    def is_ahead(self) -> bool:
        """Whether the journal on this host replaces the one on the broker."""
        with self._environment.read() as txn:
            return is_marked_ahead(txn, self._database)

    def leave_changelogs(self) -> None:
        """From now on this journal is the only copy."""
        self._environment.update(lambda txn: mark_ahead(txn, self._database))

    def read(self) -> SourceProgress:
        """Return how far the source has been read."""
        with decoding(self.path), self._environment.read() as txn:
            stored = txn.get(_PROGRESS, db=self._database)
            return SourceProgress() if stored is None else decode_msgpack(stored, SourceProgress)

    def outbox(self) -> list[OutboxBlock]:
        """Return the records of the last intake; they may or may not be published."""
        with decoding(self.path), self._environment.read() as txn:
            stored = txn.get(_OUTBOX, db=self._database)
            return [] if stored is None else _unpack(stored)

    def commit(self, progress: SourceProgress, outputs: list[Output]) -> None:
        """Store the position and the records up to it in one commit; the last attempt was successful."""

        def change(txn: WriteTransaction) -> None:
            txn.put(_PROGRESS, _pack(progress), db=self._database)
            blocks, packed = [(output.partition, output.data, output.topic) for output in outputs], bytearray()
            _encoder.encode_into(blocks, packed)
            txn.put(_OUTBOX, packed, db=self._database)
            self._history.set_failure(txn, None)

        self._environment.update(change)

    def publish(self, progress: SourceProgress, outputs: list[Output]) -> None:
        """Append records and store the position after them, in one transaction of the broker; then store it here."""
        changelog = self.changelog
        assert isinstance(changelog, JournalChangelog)
        changes: Changes = {(SOURCE, _PROGRESS): _pack(progress)}
        changelog.commit_batch(self._environment, changes, outputs, lambda: self.read().sequence >= progress.sequence)

        def change(txn: Transaction) -> None:
            txn.put(_PROGRESS, _pack(progress), db=self._database)
            txn.delete(_OUTBOX, db=self._database)
            self._history.set_failure(txn, None)
            changelog.store_position(self._environment, txn)

        self._environment.update(change)

    def set_position(self, progress: SourceProgress) -> None:
        """Store another position, on the broker first if the journal is there."""

        def change(txn: Transaction) -> None:
            txn.put(_PROGRESS, _pack(progress), db=self._database)

        if self.changelog is None:
            self._environment.update(change)
        else:
            self.changelog.update(self._environment, change)

    def lineage(self) -> str:
        """Return the random name of this history of the source; an empty journal gets a new one."""
        return self._environment.update(lambda txn: lineage_in(txn, self._database))

    def stored_lineage(self) -> str:
        """Return the name of this history without creating one, empty if there is none."""
        with decoding(self.path), self._environment.read() as txn:
            stored = txn.get(LINEAGE, db=self._database)
            return "" if stored is None else bytes(stored).decode()

    def current_batch(self) -> int:
        """Return the number of the next intake."""
        return self.read().sequence + 1

    def set_failure(self, failure: FailureReport | None) -> None:
        """Store why the last attempt failed."""
        self._environment.update(lambda txn: self._history.set_failure(txn, failure))

    def failure(self) -> FailureReport | None:
        """Return why the last attempt failed, unless an intake was committed since."""
        return self._history.failure()

    def close(self) -> None:
        self._environment.close()
