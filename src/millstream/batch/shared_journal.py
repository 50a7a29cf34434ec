"""A journal that is stored outside the host too, so that another host can continue, and only one run can write.

The environment on disk is a copy. A run takes the journal over once, and stores itself as the owner. From then on,
every process of the run that writes first makes sure that the run still is the owner. A run that was fenced by another
one finds the other's name, and stops. The journal is stored in a topic (``journal_changelog.py``) or in the checkpoint
(``journal_files.py``).
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from millstream.broker import WriterLostError
from millstream.errors import BrokerError, BrokerUnavailableError, FencedError, StorageError
from millstream.foundation.storage import Environment
from millstream.foundation.transactions import Transaction
from millstream.foundation.typed_decoding import decode_json
from millstream.state.recording import Changes, RecordedTransaction, Rows

T = TypeVar("T")
JOURNAL = "journal"
"""The database with the rows that are stored outside too; the other databases of the environment are local."""
_OWNER = b"owner"
AHEAD = b"ahead"
"""The row that marks a copy whose rows replace those outside."""
_RETRY_SECONDS = 60.0


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The run that may write the journal."""

    run: str
    number: int = 0
    """Grows with every run that takes over."""
    host: str
    process: int
    at: int
    """When it took over, wall-clock time in milliseconds."""

    def generation(self, attempt: int) -> int:
        """Return a number that is larger than those of earlier attempts and of earlier runs."""
        return (self.number << 32) + attempt

    @classmethod
    def new(cls) -> Owner:
        """Return an owner for a run of this process."""
        now = time.time_ns() // 1_000_000
        return cls(run=uuid.uuid4().hex[:12], host=socket.gethostname(), process=os.getpid(), at=now)


class SharedJournal(ABC):
    """The journal outside the host, as one process of a run uses it."""

    def __init__(self, app: str, owner: Owner, *, database: str = JOURNAL) -> None:
        """Use the journal of an app, or of a source or sink; ``database`` has the rows that are stored outside."""
        self._app = app
        self.owner = owner
        self._database = database

    # What the kinds of journals differ in

    @property
    @abstractmethod
    def _is_open(self) -> bool:
        """Whether this process has opened the journal for writing, and nothing has gone wrong since."""

    @abstractmethod
    def _open(self) -> None:
        """Open the journal for writing; a later read shows everything that others can have written."""

    @abstractmethod
    def leave(self) -> None:
        """Let another process of the run write."""

    @abstractmethod
    def _is_empty(self) -> bool:
        """Whether nothing was stored yet."""

    @abstractmethod
    def _stored_rows(self) -> Rows:
        """Return all rows, or all changes of rows in order."""

    @abstractmethod
    def _catch_up(self, environment: Environment) -> None:
        """Bring the copy up to date."""

    @abstractmethod
    def _start_copy(self, environment: Environment) -> None:
        """Prepare the copy for a commit that replaces everything that is stored outside."""

    @abstractmethod
    def _commit(self, environment: Environment, txn: Transaction, changes: Changes) -> bool:
        """Store changes outside, and the new position of the copy in ``txn``; False if there are none.

        Raises a ``WriterLostError`` if another process has written, or may have, or if the outcome is unknown.
        """

    @abstractmethod
    def look_for_takeover(self, environment: Environment) -> None:
        """Raise if another run has taken over; the copy and the writer are not disturbed."""

    # Becoming and staying the owner

    def take_over(self, environment: Environment) -> None:
        """Fence the previous owner, bring the copy up to date, and store this run as the owner.

        A copy that is ahead, such as a restored savepoint, or one of an app that had no such journal, replaces it.
        """
        for _ in attempts():
            self._open()
            changes: Changes = {}
            owners = [self.stored_owner(environment)]
            if self._is_empty() or self._is_ahead(environment):
                self._start_copy(environment)  # first, so that a commit of others since then is noticed
                replaced: Changes = {(database, key): value for database, key, value in self._stored_rows()}
                owners.append(_owner(replaced.get((self._database, _OWNER))))
                changes = {**dict.fromkeys(replaced), **self._rows_of(environment)}
            else:
                self._catch_up(environment)
                owners.append(self.stored_owner(environment))
            number = 1 + max(owner.number for owner in owners if owner is not None) if any(owners) else 1
            self.owner = msgspec.structs.replace(self.owner, number=number)
            changes[self._database, _OWNER] = msgspec.json.encode(self.owner)
            changes.pop((self._database, AHEAD), None)
            try:
                self._write(environment, changes)
                return
            except WriterLostError:
                continue

    def join(self, environment: Environment) -> None:
        """Bring the copy up to date and make sure that no other process writes; raises if another run took over."""
        if self._is_open:
            return
        self._catch_up(environment)
        self._check_owner(environment)  # before the writer is opened, so that the other run is not disturbed
        self._open()
        try:
            self._catch_up(environment)
            self._check_owner(environment)
        except BaseException:
            self.leave()
            raise

    def check_owner(self, environment: Environment) -> None:
        """Raise if another run has taken over; does nothing if the journal cannot be reached."""
        with suppress(BrokerError, StorageError):
            self._catch_up(environment)
        self._check_owner(environment)

    def follow(self, environment: Environment) -> None:
        """Bring the copy up to date without writing; the process that writes the journal is not disturbed."""
        if not self._is_ahead(environment) and not self._is_empty():
            self._catch_up(environment)

    def _check_owner(self, environment: Environment) -> None:
        self._check_run(self.stored_owner(environment))

    def _check_run(self, stored: Owner | None) -> None:
        if stored is not None and stored.run != self.owner.run:
            at = time.strftime("%H:%M:%S", time.localtime(stored.at / 1000))
            raise FencedError(
                f"app {self._app!r} was taken over by process {stored.process} on {stored.host!r} at {at}",
                hint="this run has stopped, and none of its later batches takes effect",
                host=stored.host,
                process=stored.process,
            )

    def stored_owner(self, environment: Environment) -> Owner | None:
        """Return the owner according to the copy."""
        with environment.read() as txn:
            return _owner(txn.get(_OWNER, db=environment.databases[self._database]))

    def _last_owner(self, rows: Rows) -> Owner | None:
        """Return the last owner in changes of rows."""
        owners = [value for database, key, value in rows if (database, key) == (self._database, _OWNER)]
        return _owner(owners[-1]) if owners else None

    # Writing

    def update(self, environment: Environment, change: Callable[[Any], T]) -> T:
        """Run a change of the journal: outside first, then the copy; it may run again, so it must be idempotent."""
        for _ in attempts():
            self.join(environment)
            try:
                return self._update(environment, change)
            except WriterLostError:
                self.leave()
        raise AssertionError("unreachable")

    def _update(self, environment: Environment, change: Callable[[Any], T]) -> T:
        is_committed = False

        def change_both(txn: Transaction) -> T:
            nonlocal is_committed
            if is_committed:  # the local commit failed, since the map was full
                raise WriterLostError("the copy lacks a commit")
            recorded = RecordedTransaction(txn, environment.databases)
            result = change(recorded)
            changes = {row: value for row, value in recorded.changes.items() if row[0] == self._database}
            is_committed = self._commit(environment, txn, changes)
            return result

        try:
            result = environment.update(change_both)
        except BaseException:
            if is_committed:
                self.leave()  # so that the next write reads the commit first
            raise
        return result

    def _write(self, environment: Environment, changes: Changes) -> None:
        """Write rows outside and to the copy."""

        def change(txn: RecordedTransaction) -> None:
            for (database, key), value in changes.items():
                if value is None:
                    txn.delete(key, db=environment.databases[database])
                else:
                    txn.put(key, value, db=environment.databases[database])

        self._update(environment, change)
        environment.update(lambda txn: txn.delete(AHEAD, db=environment.databases[self._database]))

    def _is_ahead(self, environment: Environment) -> bool:
        with environment.read() as txn:
            return is_marked_ahead(txn, environment.databases[self._database])

    def _rows_of(self, environment: Environment) -> Changes:
        with environment.read() as txn, txn.cursor(db=environment.databases[self._database]) as cursor:
            return {(self._database, bytes(key)): bytes(value) for key, value in cursor}


def _owner(stored: bytes | None) -> Owner | None:
    return None if stored is None else decode_json(stored, Owner)


def mark_ahead(txn: Transaction, database: Any) -> None:
    """Mark a copy whose rows replace those outside, such as a restored savepoint."""
    txn.put(AHEAD, b"1", db=database)


def is_marked_ahead(txn: Transaction, database: Any) -> bool:
    """Whether a copy was marked so."""
    return txn.get(AHEAD, db=database) is not None


def attempts() -> Iterator[int]:
    """Yield the numbers of attempts until it has taken too long."""
    deadline = time.monotonic() + _RETRY_SECONDS
    attempt = 0
    while time.monotonic() < deadline:
        yield attempt
        attempt += 1
    raise BrokerUnavailableError(
        f"the journal could not be written for {_RETRY_SECONDS:.0f} s",
        hint="check that Kafka is running, or that the checkpoint can be written; the step is retried",
    )
