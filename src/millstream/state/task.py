"""The environment of one task: its stores, its version, and the outbox of its last batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from millstream.errors import StateError
from millstream.foundation.content import TASK_STATE
from millstream.foundation.storage import Environment, open_environment
from millstream.foundation.stored import decoding
from millstream.foundation.transactions import Database, Transaction
from millstream.foundation.typed_decoding import decode_msgpack
from millstream.state.recording import RecordedTransaction
from millstream.state.timers import merged_timers

T = TypeVar("T")

_META = "meta"
_VERSION = b"version"
_LATEST = b"latest-times"
_OUTBOX = b"outbox."
_TIMERS = b"timers"
CLAIM_ROW = _META, b"claim"
"""The database and key of the row with the generation that last claimed the task."""
COMMIT_ROW = _META, _VERSION
"""The database and key of the row that names the last commit."""


class StateVersion(msgspec.Struct, frozen=True, array_like=True):
    """The last round of the last batch that a task has committed.

    ``commit`` is random, so that different lineages never match. ``base`` is the commit that the batch was built on.
    """

    batch: int = 0
    commit: str = ""
    stream_time: int = -1
    base: str = ""
    round: int = 0


class TaskState:
    """State of a task on disk."""

    def __init__(self, path: Path, stores: tuple[str, ...], *, sync: bool = True) -> None:
        self.path = path
        self._databases = (_META, *(store_database(name) for name in stores))
        self._sync = sync
        self.reopen()

    def reopen(self) -> None:
        """Open the environment, also after its files were replaced."""
        self._environment: Environment = open_environment(
            self.path, self._databases, sync=self._sync, content=TASK_STATE
        )

    @property
    def environment(self) -> Environment:
        """The environment that holds the state."""
        return self._environment

    def read_version(self) -> StateVersion:
        """Return the last committed version."""
        with self._environment.read() as txn:
            return self.version(txn)

    def read_claim(self) -> int:
        """Return the generation that last claimed the task."""
        with self._environment.read() as txn:
            stored = txn.get(CLAIM_ROW[1], db=self._environment.databases[_META])
        return 0 if stored is None else int(stored)

    def recorded(self, txn: Transaction) -> RecordedTransaction:
        """Return a transaction that records its writes."""
        return RecordedTransaction(txn, self._environment.databases)

    def copy_to(self, directory: Path) -> None:
        """Copy the last committed state into an empty directory; other processes are not blocked."""
        with self._environment.read() as txn:
            self._environment.copy(directory, txn)

    def update(self, change: Callable[[Any], T]) -> T:
        """Run ``change`` in one transaction; it may run again if the map had to grow."""
        return self._environment.update(change)

    def writing(self) -> AbstractContextManager[Any]:
        """Return a transaction for any number of batches; it commits at the end of the block."""
        return self._environment.write()

    def grow(self) -> None:
        """Grow the map, after a transaction that was too large for it."""
        self._environment.grow()

    def version(self, txn: Transaction) -> StateVersion:
        """Return the version that a transaction sees."""
        stored = txn.get(_VERSION, db=self._environment.databases[_META])
        if stored is None:
            return StateVersion()
        with decoding(self.path):
            return decode_msgpack(stored, StateVersion)

    def has_applied(self, stored: StateVersion, batch: int, round: int, expected: StateVersion) -> bool:
        """Whether the state already contains a round of a batch; raises if another lineage has written the state."""
        if stored.batch == batch and expected.commit in (stored.base, stored.commit):
            return stored.round >= round
        if (stored.batch, stored.commit) == (expected.batch, expected.commit):
            return False
        raise StateError(
            f"state in {str(self.path)!r} is at batch {stored.batch}, but the last committed batch is {expected.batch}",
            hint="it was copied, restored or deleted by hand; put it back, or reset the app",
            stored=stored.batch,
            expected=expected.batch,
        )

    def save(self, txn: Transaction, version: StateVersion, outbox: bytes, timers: bytes | None = None) -> None:
        """Store version, outbox and changed timers in the transaction that changes the stores."""
        meta = self._environment.databases[_META]
        txn.put(_VERSION, msgspec.msgpack.encode(version), db=meta)
        txn.put(_OUTBOX + b"%d" % version.round, outbox, db=meta)
        if timers is not None:
            txn.put(_TIMERS, timers, db=meta)

    def start_at(self, version: StateVersion) -> None:
        """Store the version of a state that no batch has computed."""
        self.update(lambda txn: self.save(txn, version, b""))

    def timers(self, txn: Transaction) -> bytes | None:
        """Return the stored timers of processors."""
        stored = txn.get(_TIMERS, db=self._environment.databases[_META])
        return None if stored is None else bytes(stored)

    def latest_times(self, txn: Transaction) -> dict[str, int]:
        """Return the latest times of inputs that need them, by partition."""
        stored = txn.get(_LATEST, db=self._environment.databases[_META])
        if stored is None:
            return {}
        with decoding(self.path):
            return decode_msgpack(stored, dict[str, int])

    def save_latest_times(self, txn: Transaction, latest: dict[str, int]) -> None:
        """Store the latest times of inputs, if there are any."""
        if latest:
            txn.put(_LATEST, msgspec.msgpack.encode(latest), db=self._environment.databases[_META])

    def add_meta(self, txn: Transaction, other: TaskState, version: StateVersion) -> None:
        """Add the timers and latest times of another task whose stores become part of this one."""
        meta = self._environment.databases[_META]
        with other._environment.read() as reading:
            timers = merged_timers(self.timers(txn), other.timers(reading))
            latest = other.latest_times(reading)
        for partition, time in self.latest_times(txn).items():
            latest[partition] = max(time, latest.get(partition, time))
        txn.put(_VERSION, msgspec.msgpack.encode(version), db=meta)
        if timers is not None:
            txn.put(_TIMERS, timers, db=meta)
        self.save_latest_times(txn, latest)

    def outbox(self, txn: Transaction, round: int) -> bytes:
        """Return the outbox of a round of the last committed batch."""
        stored = txn.get(_OUTBOX + b"%d" % round, db=self._environment.databases[_META])
        assert stored is not None, f"round {round} has no outbox"
        return bytes(stored)

    def database(self, store: str) -> Database:
        """Return the handle of a store."""
        database: Database = self._environment.databases[store_database(store)]
        return database

    def bytes_of(self, txn: Transaction, store: str) -> int:
        """Return the size of a store on disk, as a transaction sees it."""
        stats = txn.stat(self.database(store))
        return int(stats["psize"] * (stats["branch_pages"] + stats["leaf_pages"] + stats["overflow_pages"]))

    def scan(self, store: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the raw keys and values of a store."""
        with self._environment.read() as txn, txn.cursor(self.database(store)) as cursor:
            yield from cursor

    @property
    def is_open(self) -> bool:
        """Whether this process can still use the environment."""
        return self._environment.is_open

    def close(self) -> None:
        self._environment.close()


def store_database(store: str) -> str:
    """Return the name of the database that holds a store."""
    return f"store.{store}"


def stored_version(path: Path) -> StateVersion:
    """Return the last committed version of the state in a directory, which is opened for reading only."""
    environment = open_environment(path, (_META,), readonly=True)  # perhaps a copy of a global table
    meta = environment.databases[_META]
    with decoding(path), environment.read() as txn:
        stored = None if meta is None else txn.get(_VERSION, db=meta)
        return StateVersion() if stored is None else decode_msgpack(stored, StateVersion)
