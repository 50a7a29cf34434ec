"""The journal: the durable memory of an app's batches.

"Batch N-1 is done and batch N has these ranges" is one commit. After a crash a batch that was planned and not done is
run again with the same ranges. Where a batch runs in one process, what it changed in the state of all tasks may be part
of that commit too; it is then *unsettled* until it has reached the tasks' own environments.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from millstream.batch.batch import Batch, Progress
from millstream.batch.history import HISTORY, FailureNote, History
from millstream.batch.report import BatchReport
from millstream.foundation.storage import Environment, open_environment
from millstream.foundation.transactions import Transaction
from millstream.state.redo import TaskCommit, pack_commits, redo, unpack_commits

_JOURNAL = "journal"
_UNSETTLED = "unsettled"
_PROGRESS = b"progress"
_PLANNED = b"planned"
_CATALOG = b"catalog"
_LINEAGE = b"lineage"
_INPUTS = b"inputs"
_DEPLOYED = b"deployed"
_CHORES = b"chores"
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


class Chores(msgspec.Struct, frozen=True, kw_only=True):
    """What a change of the topology does to the directories of stages; doing it twice is the same as once."""

    discard: tuple[str, ...] = ()
    move: dict[str, str] = {}
    """From the old name of a stage to the new one."""


NONE = Chores()


class Journal:
    """The journal of one app."""

    def __init__(self, path: Path, *, durable: bool = True, readonly: bool = False) -> None:
        self.path = path
        databases = (_JOURNAL, HISTORY, _UNSETTLED)
        self._durable = durable
        self._environment: Environment = open_environment(path, databases, sync=durable, readonly=readonly)
        self._database = self._environment.databases[_JOURNAL]
        self._unsettled = self._environment.databases[_UNSETTLED]
        self.history = History(self._environment)

    def read(self) -> tuple[Progress, Batch | None]:
        """Return how far the app has come, and the batch that was planned but is not done."""
        with self._environment.read() as txn:
            progress, planned = txn.get(_PROGRESS, db=self._database), txn.get(_PLANNED, db=self._database)
        return (
            Progress() if progress is None else msgspec.json.decode(progress, type=Progress),
            None if planned is None else msgspec.json.decode(planned, type=Batch),
        )

    def write(self, progress: Progress, planned: Batch | None, report: BatchReport | None = None) -> None:
        """Store all in one commit: how far the app is, what is next and, if a batch was done, its report."""
        self._environment.update(lambda txn: self._note(txn, progress, planned, report))

    def write_applied(
        self,
        progress: Progress,
        planned: Batch,
        report: BatchReport | None,
        commits: list[TaskCommit],
        *,
        settled: int,
    ) -> None:
        """Store also what the planned batch changes in the state; up to batch ``settled`` that is forgotten."""

        def change(txn: Transaction) -> None:
            self._note(txn, progress, planned, report)
            self._forget_settled(txn, settled)
            if commits:
                txn.put(planned.number.to_bytes(8), pack_commits(commits), db=self._unsettled)

        self._environment.update(change)

    def _note(self, txn: Transaction, progress: Progress, planned: Batch | None, report: BatchReport | None) -> None:
        txn.put(_PROGRESS, msgspec.json.encode(progress), db=self._database)
        if planned is None:
            txn.delete(_PLANNED, db=self._database)
        else:
            txn.put(_PLANNED, msgspec.json.encode(planned), db=self._database)
        if report is not None:
            self.history.note(txn, report)

    def _forget_settled(self, txn: Transaction, settled: int) -> None:
        with txn.cursor(db=self._unsettled) as cursor:
            while cursor.first() and int.from_bytes(cursor.key()) <= settled:
                cursor.delete()

    def settle(self, state_dir: Path) -> None:
        """Have the state of each task hold what only the journal has, as after the death of a task that stayed."""
        with self._environment.read() as txn, txn.cursor(db=self._unsettled) as cursor:
            commits = [commit for _, data in cursor for commit in unpack_commits(data)]
        if commits:
            redo(state_dir, commits, sync=self._durable)
            self._environment.update(lambda txn: self._forget_settled(txn, _ALL))

    def note_failure(self, note: FailureNote | None) -> None:
        """Remember why a batch failed, for those who look later; None when a new run begins."""
        self._environment.update(lambda txn: self.history.note_failure(txn, note))

    def inputs(self) -> Inputs | None:
        """Return what the positions refer to, or None if the app has not started yet."""
        with self._environment.read() as txn:
            stored = txn.get(_INPUTS, db=self._database)
        return None if stored is None else msgspec.json.decode(stored, type=Inputs)

    def remember_inputs(self, inputs: Inputs) -> None:
        """Store what the positions refer to."""
        self._environment.update(lambda txn: txn.put(_INPUTS, msgspec.json.encode(inputs), db=self._database))

    def lineage(self) -> str:
        """Return the random name of this history of the app, which begins with an empty journal."""

        def change(txn: Transaction) -> bytes:
            stored = txn.get(_LINEAGE, db=self._database)
            if stored is None:
                stored = uuid.uuid4().hex[:12].encode()
                txn.put(_LINEAGE, stored, db=self._database)
            return bytes(stored)

        return self._environment.update(change).decode()

    def begin_lineage(self) -> None:
        """Begin another history: what is published from now on is not taken for what was published before."""
        self._environment.update(lambda txn: txn.delete(_LINEAGE, db=self._database))

    def describe_as(self, catalog: Mapping[str, Any], progress: Progress | None = None, chores: Chores = NONE) -> None:
        """Store what other processes need in order to read the app's tables and to draw its plan.

        When the plan is another one than before, the moment and the old plan are kept beside it. What the change does
        to the state is noted in the same commit, and is done after it.
        """

        def change(txn: Transaction) -> None:
            stored = txn.get(_CATALOG, db=self._database)
            before = None if stored is None else msgspec.json.decode(stored, type=dict[str, Any]).get("plan")
            if before != catalog.get("plan"):
                deploy = Deploy(at=time.time_ns() // 1_000_000, before=before)
                txn.put(_DEPLOYED, msgspec.json.encode(deploy), db=self._database)
            txn.put(_CATALOG, msgspec.json.encode(catalog), db=self._database)
            txn.put(_CHORES, msgspec.json.encode(chores), db=self._database)
            if progress is not None:
                txn.put(_PROGRESS, msgspec.json.encode(progress), db=self._database)

        self._environment.update(change)

    def chores(self) -> Chores:
        """Return what is still to be done to the state."""
        with self._environment.read() as txn:
            stored = txn.get(_CHORES, db=self._database)
        return NONE if stored is None else msgspec.json.decode(stored, type=Chores)

    def chores_done(self) -> None:
        """Note that nothing is left to be done to the state."""
        self._environment.update(lambda txn: txn.delete(_CHORES, db=self._database))

    def deployed(self) -> Deploy | None:
        """Return when the plan changed last, and what it was before."""
        with self._environment.read() as txn:
            stored = txn.get(_DEPLOYED, db=self._database)
        return None if stored is None else msgspec.json.decode(stored, type=Deploy)

    def catalog(self) -> dict[str, Any]:
        """Return what ``describe_as`` has stored."""
        return msgspec.json.decode(self.stored_catalog(), type=dict[str, Any])

    def stored_catalog(self) -> bytes:
        """Return what ``describe_as`` has stored as the text that it is on disk, which is quick to compare."""
        with self._environment.read() as txn:
            stored = txn.get(_CATALOG, db=self._database)
        return b"{}" if stored is None else bytes(stored)

    def close(self) -> None:
        self._environment.close()
