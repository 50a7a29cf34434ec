"""The journal: the durable record of an app's batches.

"Batch N-1 is done and batch N has these ranges" is one commit. After a crash, a batch that was planned and is not done
runs again with the same ranges. If a batch runs in one process, that commit may also contain the commits of its tasks;
they are *pending* until they are in the states of the tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from millstream.batch.batch import Batch, Progress
from millstream.batch.history import HISTORY, FailureReport, History
from millstream.batch.journal_files import CHECKPOINT_ROW
from millstream.batch.lineage import LINEAGE, lineage_in
from millstream.batch.report import BatchReport
from millstream.batch.shared_journal import JOURNAL, SharedJournal, is_marked_ahead, mark_ahead
from millstream.foundation.content import JOURNAL as JOURNAL_CONTENT
from millstream.foundation.storage import Environment, open_environment
from millstream.foundation.stored import decoding
from millstream.foundation.transactions import Transaction
from millstream.foundation.typed_decoding import decode_json
from millstream.state.recording import Changes
from millstream.state.redo import TaskCommit, pack_commits, redo, unpack_commits
from millstream.task.changelog import ChangelogTopic

T = TypeVar("T")

_JOURNAL = JOURNAL
_PENDING = "unsettled"  # the name of the database on disk
_PROGRESS = b"progress"
_PLANNED = b"planned"
_CATALOG = b"catalog"
_INPUTS = b"inputs"
_DEPLOYED = b"deployed"
_MIGRATION = b"chores"
_CHANGELOGS = b"changelogs"
_NOTE = b"note/"
_ALL = 2**64 - 1


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What the positions of an app refer to: a cluster, its address when the app last started, and ids of topics."""

    cluster: str
    url: str
    topics: dict[str, str] = {}


class Deploy(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the plan at a time in milliseconds; ``before`` is None for the first plan."""

    at: int
    before: dict[str, Any] | None


class StateMerge(msgspec.Struct, frozen=True, kw_only=True):
    """The stores of a stage that become part of the state of another stage."""

    into: str
    stores: tuple[str, ...]
    batch: int = 0
    commits: dict[str, str] = {}
    """By partition, the commit of tasks that have no version yet; it is that of ``batch``."""


class StateMigration(msgspec.Struct, frozen=True, kw_only=True):
    """What a change of the topology does to the state directories of stages; it is idempotent."""

    discard: tuple[str, ...] = ()
    move: dict[str, str] = {}
    """From the old name of a stage to the new one."""
    merge: dict[str, StateMerge] = {}
    """By the stage that no longer has its own state; done after the moves."""

    @property
    def replaced(self) -> set[str]:
        """The stages whose state is not what it was."""
        merged = {stage for name, merge in self.merge.items() for stage in (name, merge.into)}
        return {*self.discard, *self.move, *self.move.values(), *merged}


NO_MIGRATION = StateMigration()


class Journal:
    """The journal of one app."""

    def __init__(
        self, path: Path, *, durable: bool = True, readonly: bool = False, changelog: SharedJournal | None = None
    ) -> None:
        """Open a journal; with a changelog, everything but the history is written there first."""
        self.path = path
        self.changelog = changelog
        databases = (_JOURNAL, HISTORY, _PENDING)
        self._durable = durable
        self._environment: Environment = open_environment(
            path, databases, sync=durable, readonly=readonly, content=JOURNAL_CONTENT
        )
        self._database = self._environment.databases[_JOURNAL]
        self._pending = self._environment.databases[_PENDING]
        self.history = History(self._environment)

    def take_over(self) -> None:
        """Fence all other runs of the app, and bring the journal up to date; does nothing without a changelog."""
        if self.changelog is not None:
            self.changelog.take_over(self._environment)

    def join(self) -> None:
        """Bring the journal up to date after another process of this run has written it, or may have."""
        if self.changelog is not None:
            self.changelog.leave()
            self.changelog.join(self._environment)

    def check_owner(self) -> None:
        """Raise a ``FencedError`` if another run of the app has taken over."""
        if self.changelog is not None:
            self.changelog.check_owner(self._environment)

    def look_for_takeover(self) -> None:
        """Do the same without a change of this copy; any thread may call it, and an outage is an error."""
        if self.changelog is not None:
            self.changelog.look_for_takeover(self._environment)

    def follow(self) -> None:
        """Bring the journal up to date without becoming its writer."""
        if self.changelog is not None:
            self.changelog.follow(self._environment)

    def leave(self) -> None:
        """Let another process of this run write the journal."""
        if self.changelog is not None:
            self.changelog.leave()

    def _update(self, change: Callable[[Any], T]) -> T:
        if self.changelog is None:
            return self._environment.update(change)
        return self.changelog.update(self._environment, change)

    def read(self) -> tuple[Progress, Batch | None]:
        """Return the progress of the app, and the batch that was planned but is not done."""
        with self._environment.read() as txn:
            progress, planned = txn.get(_PROGRESS, db=self._database), txn.get(_PLANNED, db=self._database)
        return self._decode(progress, Progress) or Progress(), self._decode(planned, Batch)

    def current_batch(self) -> int:
        """Return the number of the batch that is planned, or is planned next."""
        progress, planned = self.read()
        return planned.number if planned is not None else progress.done + 1

    def _decode(self, stored: bytes | None, kind: type[T]) -> T | None:
        """Return a stored entry, or None if there is none."""
        if stored is None:
            return None
        with decoding(self.path):
            return decode_json(stored, kind)

    def write(self, progress: Progress, planned: Batch | None, report: BatchReport | None = None) -> None:
        """Store everything in one commit: the progress, the next batch and, if a batch was done, its report."""
        self._update(lambda txn: self._put(txn, progress, planned, report))

    def write_with_commits(
        self,
        progress: Progress,
        planned: Batch,
        report: BatchReport | None,
        commits: list[TaskCommit],
        *,
        committed: int,
    ) -> None:
        """Also store the task commits of the planned batch; delete those of batches up to ``committed``."""

        def change(txn: Transaction) -> None:
            self._put(txn, progress, planned, report)
            self._delete_pending(txn, committed)
            if commits:
                txn.put(planned.number.to_bytes(8), pack_commits(commits), db=self._pending)

        self._update(change)

    def changes_of(self, progress: Progress, planned: Batch | None) -> Changes:
        """Return the rows that ``write`` would change."""
        return {
            (_JOURNAL, _PROGRESS): msgspec.json.encode(progress),
            (_JOURNAL, _PLANNED): None if planned is None else msgspec.json.encode(planned),
        }

    def _put(self, txn: Transaction, progress: Progress, planned: Batch | None, report: BatchReport | None) -> None:
        txn.put(_PROGRESS, msgspec.json.encode(progress), db=self._database)
        if planned is None:
            txn.delete(_PLANNED, db=self._database)
        else:
            txn.put(_PLANNED, msgspec.json.encode(planned), db=self._database)
        if report is not None:
            with decoding(self.path):
                self.history.add(txn, report)

    def _delete_pending(self, txn: Transaction, committed: int) -> None:
        with txn.cursor(db=self._pending) as cursor:
            while cursor.first() and int.from_bytes(cursor.key()) <= committed:
                cursor.delete()

    def has_pending(self) -> bool:
        """Whether commits of tasks are not in their states yet."""
        with self._environment.read() as txn:
            return bool(self._pending is not None and txn.stat(self._pending)["entries"])

    def replay_commits(self, state_dir: Path) -> None:
        """Apply the pending commits to the states of the tasks, as needed after a resident task has died."""
        with decoding(self.path), self._environment.read() as txn, txn.cursor(db=self._pending) as cursor:
            commits = [commit for _, data in cursor for commit in unpack_commits(data)]
        if commits:
            redo(state_dir, commits, sync=self._durable)
            self._update(lambda txn: self._delete_pending(txn, _ALL))

    def set_failure(self, failure: FailureReport | None) -> None:
        """Store why a batch failed; None when a new run starts."""
        self._update(lambda txn: self.history.set_failure(txn, failure))

    def failure(self) -> FailureReport | None:
        """Return the last failure, unless a batch was done since."""
        return self.history.failure()

    def inputs(self) -> Inputs | None:
        """Return what the positions refer to, or None if the app has not started yet."""
        with self._environment.read() as txn:
            stored = txn.get(_INPUTS, db=self._database)
        return self._decode(stored, Inputs)

    def remember_inputs(self, inputs: Inputs) -> None:
        """Store what the positions refer to."""
        self._update(lambda txn: txn.put(_INPUTS, msgspec.json.encode(inputs), db=self._database))

    def lineage(self) -> str:
        """Return the random name of this history of the app; an empty journal gets a new one."""
        with decoding(self.path):
            return self._update(lambda txn: lineage_in(txn, self._database))

    def stored_lineage(self) -> str:
        """Return the name of this history without creating one, empty if there is none."""
        with self._environment.read() as txn:
            stored = txn.get(LINEAGE, db=self._database)
        with decoding(self.path):
            return "" if stored is None else stored.decode()

    def note(self, name: bytes) -> bytes | None:
        """Return what a sink has stored under a name."""
        with self._environment.read() as txn:
            stored = txn.get(_NOTE + name, db=self._database)
        return None if stored is None else bytes(stored)

    def set_note(self, name: bytes, data: bytes) -> None:
        """Store something under a name, durably."""
        self._update(lambda txn: txn.put(_NOTE + name, data, db=self._database))

    def start_over(self) -> None:
        """Forget progress and lineage, here and on the broker, as a reset of a sink does."""

        def change(txn: Transaction) -> None:
            for key in (_PROGRESS, _PLANNED, LINEAGE):
                txn.delete(key, db=self._database)

        self._update(change)

    def start_lineage(self) -> None:
        """Start a new history from this journal, which is not that of the topic or of the changelogs any more.

        New output is then not taken for duplicates of older output, and the next start replaces what is on the broker.
        """

        self._update(lambda txn: txn.delete(LINEAGE, db=self._database))
        self.leave_changelogs()

    def leave_changelogs(self) -> None:
        """From now on this journal, and the state on this host, are the only copies."""

        def change(txn: Transaction) -> None:
            txn.delete(_CHANGELOGS, db=self._database)
            mark_ahead(txn, self._database)

        self._update(change)

    def is_ahead(self) -> bool:
        """Whether the journal on this host replaces that on the broker at the next start with changelogs."""
        with self._environment.read() as txn:
            return is_marked_ahead(txn, self._database)

    def changelogs(self) -> dict[str, ChangelogTopic]:
        """Return the changelog topics that contain the state of the app, by stage."""
        with self._environment.read() as txn:
            stored = txn.get(_CHANGELOGS, db=self._database)
        return self._decode(stored, dict[str, ChangelogTopic]) or {}

    def remember_changelogs(self, topics: Mapping[str, ChangelogTopic]) -> None:
        """Store which changelog topics contain the state."""
        self._update(lambda txn: txn.put(_CHANGELOGS, msgspec.json.encode(topics), db=self._database))

    def checkpoint(self) -> str | None:
        """Return the location of the checkpoint that has the journal too, or None if there is none."""
        with self._environment.read() as txn:
            stored = txn.get(CHECKPOINT_ROW[1], db=self._database)
        return None if stored is None else bytes(stored).decode()

    def remember_checkpoint(self, uri: str | None) -> None:
        """Store which checkpoint has the journal too."""
        if uri is None:
            self._update(lambda txn: txn.delete(CHECKPOINT_ROW[1], db=self._database))
        elif uri != self.checkpoint():
            self._update(lambda txn: txn.put(CHECKPOINT_ROW[1], uri.encode(), db=self._database))

    def write_catalog(
        self,
        catalog: Mapping[str, Any],
        progress: Progress | None = None,
        migration: StateMigration = NO_MIGRATION,
    ) -> None:
        """Store what other processes need in order to read the app's tables and to draw its plan.

        If the plan has changed, the time and the old plan are stored too. The same commit stores the migration of the
        state that follows from the change; the migration is done after it.
        """

        def change(txn: Transaction) -> None:
            stored = txn.get(_CATALOG, db=self._database)
            before = (self._decode(stored, dict[str, Any]) or {}).get("plan")
            if before != catalog.get("plan"):
                deploy = Deploy(at=time.time_ns() // 1_000_000, before=before)
                txn.put(_DEPLOYED, msgspec.json.encode(deploy), db=self._database)
            txn.put(_CATALOG, msgspec.json.encode(catalog), db=self._database)
            txn.put(_MIGRATION, msgspec.json.encode(migration), db=self._database)
            self._forget_changelogs(txn, migration.replaced)
            if progress is not None:
                txn.put(_PROGRESS, msgspec.json.encode(progress), db=self._database)

        self._update(change)

    def _forget_changelogs(self, txn: Transaction, stages: set[str]) -> None:
        """Forget the changelogs of stages whose state is replaced; they are filled again."""
        topics = self._decode(txn.get(_CHANGELOGS, db=self._database), dict[str, ChangelogTopic]) or {}
        if stages & topics.keys():
            kept = {stage: topic for stage, topic in topics.items() if stage not in stages}
            txn.put(_CHANGELOGS, msgspec.json.encode(kept), db=self._database)

    def migration(self) -> StateMigration:
        """Return the migration that still has to be done to the state."""
        with self._environment.read() as txn:
            stored = txn.get(_MIGRATION, db=self._database)
        return self._decode(stored, StateMigration) or NO_MIGRATION

    def finish_migration(self) -> None:
        """Store that the migration is done."""
        self._update(lambda txn: txn.delete(_MIGRATION, db=self._database))

    def deployed(self) -> Deploy | None:
        """Return when the plan last changed, and the plan before."""
        with self._environment.read() as txn:
            stored = txn.get(_DEPLOYED, db=self._database)
        return self._decode(stored, Deploy)

    def catalog(self) -> dict[str, Any]:
        """Return the catalog."""
        return self._decode(self.encoded_catalog(), dict[str, Any]) or {}

    def encoded_catalog(self) -> bytes:
        """Return the catalog as JSON, which is fast to compare."""
        with self._environment.read() as txn:
            stored = txn.get(_CATALOG, db=self._database)
        return b"{}" if stored is None else bytes(stored)

    def last_commit(self) -> int:
        """Return a number that grows with every change."""
        return self._environment.last_commit()

    def close(self) -> None:
        self._environment.close()
