"""The journal of an app in a topic with one partition, so that another host can continue, and only one can write.

The environment on disk is a copy of that partition (``task/changelog.py``). A run takes the journal over once, and
stores itself as the owner. From then on, every process of the run that writes first makes sure that the run still is
the owner. A run that was fenced by another one finds the other's name, and stops.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from millstream.broker import Broker, Output, SupportsChangelogs, WriterLostError
from millstream.errors import BrokerError, BrokerUnavailableError, FencedError, StorageError, UnknownTopicError
from millstream.foundation.names import journal_topic_name
from millstream.foundation.storage import Environment
from millstream.foundation.transactions import Transaction
from millstream.state.changelog_rows import changelog_block
from millstream.state.recording import Changes, RecordedTransaction
from millstream.task.changelog import ChangelogPartition, ChangelogTopic

T = TypeVar("T")
JOURNAL = "journal"
"""The database with the rows that are in the topic; the other databases of the environment are local."""
_OWNER = b"owner"
_AHEAD = b"ahead"
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


def find_journal_topic(broker: Broker, app: str) -> ChangelogTopic | None:
    """Return the topic with the journal of an app, or None if there is none."""
    name = journal_topic_name(app)
    try:
        return ChangelogTopic(name, broker.topic(name).id) if isinstance(broker, SupportsChangelogs) else None
    except UnknownTopicError:
        return None


def missing_changelog(topic: str, partitions: int) -> UnknownTopicError:
    """Return the error for a topic that is missing and may not be created."""
    hint = f"create it, compacted and with {partitions} partitions, or allow create_topics, or set changelogs=False"
    return UnknownTopicError(f"there is no topic {topic!r} for the state of the app", hint=hint, topic=topic)


def journal_topic(broker: Broker, app: str, *, creates: bool = True) -> ChangelogTopic:
    """Return the topic with the journal of an app; create it if it does not exist."""
    assert isinstance(broker, SupportsChangelogs)
    topic = find_journal_topic(broker, app)
    if topic is None and not creates:
        raise missing_changelog(journal_topic_name(app), 1)
    if topic is None:
        broker.create_changelog(journal_topic_name(app), 1)
        topic = find_journal_topic(broker, app)
    assert topic is not None
    return topic


class JournalChangelog:
    """The topic of a journal, as one process of a run uses it."""

    def __init__(
        self, broker: Broker, app: str, topic: ChangelogTopic, owner: Owner, *, database: str = JOURNAL
    ) -> None:
        """Use the journal of an app, or of a source or sink; ``database`` has the rows that are in the topic."""
        assert isinstance(broker, SupportsChangelogs)
        self._database = database
        self.topic = topic
        self.owner = owner
        self._app = app
        self._partition = ChangelogPartition(broker, topic, 0)
        self._writer = broker.fenced_writer(journal_topic_name(app))
        self._unstored = 0
        """How many offsets this process has written that the position of the copy does not include yet."""
        self._looked_at = 0

    # Becoming and staying the owner

    def take_over(self, environment: Environment) -> None:
        """Fence the previous owner, bring the copy up to date, and store this run as the owner.

        A copy that is ahead, such as a restored savepoint, or one that is older than the topic, replaces the topic.
        """
        for _ in _attempts():
            self._writer.open()
            changes: Changes = {}
            owners = [self.stored_owner(environment)]
            if self._partition.is_empty() or self._is_ahead(environment):
                replaced: Changes = {(database, key): value for database, key, value in self._partition.rows()}
                owners.append(_owner(replaced.get((self._database, _OWNER))))
                changes = {**dict.fromkeys(replaced), **self._rows_of(environment)}
                self._partition.start_copy(environment)
            else:
                self._catch_up(environment)
                owners.append(self.stored_owner(environment))
            number = 1 + max(owner.number for owner in owners if owner is not None) if any(owners) else 1
            self.owner = msgspec.structs.replace(self.owner, number=number)
            changes[self._database, _OWNER] = msgspec.json.encode(self.owner)
            changes.pop((self._database, _AHEAD), None)
            try:
                self._write(environment, changes)
                return
            except WriterLostError:
                continue

    def join(self, environment: Environment) -> None:
        """Bring the copy up to date and make sure that no other process writes; raises if another run took over."""
        if self._writer.is_open:
            return
        self._catch_up(environment)
        self._check_owner(environment)  # before the writer is opened, so that the other run is not disturbed
        self._writer.open()
        try:
            self._catch_up(environment)
            self._check_owner(environment)
        except BaseException:
            self._writer.close()
            raise

    def check_owner(self, environment: Environment) -> None:
        """Raise if another run has taken over; does nothing if the broker cannot be reached."""
        with suppress(BrokerError, StorageError):
            self._catch_up(environment)
        self._check_owner(environment)

    def look_for_takeover(self, environment: Environment) -> None:
        """Raise if another run has taken over; reads the topic only, so the copy and the writer are not disturbed."""
        position = self._partition.position(environment)
        start = max(self._looked_at, 0 if position is None else position.offset)
        rows, self._looked_at = self._partition.rows_from(start)
        owners = [value for database, key, value in rows if (database, key) == (self._database, _OWNER)]
        self._check_run(_owner(owners[-1]) if owners else self.stored_owner(environment))

    def follow(self, environment: Environment) -> None:
        """Bring the copy up to date without writing; the process that writes the journal is not disturbed."""
        if not self._is_ahead(environment) and not self._partition.is_empty():
            self._catch_up(environment)

    def leave(self) -> None:
        """Let another process of the run write."""
        self._writer.close()

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

    # Writing

    def update(self, environment: Environment, change: Callable[[Any], T]) -> T:
        """Run a change of the journal: first the topic, then the copy; it may run again, so it must be idempotent."""
        for _ in _attempts():
            self.join(environment)
            try:
                return self._update(environment, change)
            except WriterLostError:
                self._writer.close()
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
            staged = self._partition.stage(environment, txn, changes, self._unstored)
            if staged is not None:
                self._writer.commit([staged])
                is_committed = True
            return result

        try:
            result = environment.update(change_both)
        except BaseException:
            if is_committed:
                self._writer.close()  # so that the next write reads the commit from the topic first
            raise
        if is_committed:
            self._unstored = 0
        return result

    def _write(self, environment: Environment, changes: Changes) -> None:
        """Write rows to the topic and to the copy."""

        def change(txn: RecordedTransaction) -> None:
            for (database, key), value in changes.items():
                if value is None:
                    txn.delete(key, db=environment.databases[database])
                else:
                    txn.put(key, value, db=environment.databases[database])

        self._update(environment, change)
        environment.update(lambda txn: txn.delete(_AHEAD, db=environment.databases[self._database]))

    def commit_batch(
        self, environment: Environment, changes: Changes, outputs: Sequence[Output], is_done: Callable[[], bool]
    ) -> None:
        """Commit a batch, with everything that its tasks publish and change, to the broker only.

        If the outcome of an attempt is unknown, ``is_done`` tells whether it has committed, from the renewed copy.
        """
        block = changelog_block(changes)
        for attempt in _attempts():
            self.join(environment)
            if attempt and is_done():
                return
            try:
                self._writer.commit([*outputs, Output(self.topic.name, 0, block)])
            except WriterLostError:
                continue
            self._unstored += len(block) + 1
            return

    def store_position(self, environment: Environment, txn: Transaction) -> None:
        """Store in the copy how far it contains the topic, after rows of ``commit_batch`` were written to it."""
        self._partition.advance(environment, txn, self._unstored)
        self._unstored = 0

    # Reading

    def _catch_up(self, environment: Environment) -> None:
        if not self._partition.is_usable(environment):
            self._partition.restart_copy(environment)
        self._partition.catch_up(environment)
        self._unstored = 0

    def _is_ahead(self, environment: Environment) -> bool:
        with environment.read() as txn:
            return is_marked_ahead(txn, environment.databases[self._database])

    def _rows_of(self, environment: Environment) -> Changes:
        with environment.read() as txn, txn.cursor(db=environment.databases[self._database]) as cursor:
            return {(self._database, key): value for key, value in cursor}


def _owner(stored: bytes | None) -> Owner | None:
    return None if stored is None else msgspec.json.decode(stored, type=Owner)


def mark_ahead(txn: Transaction, database: Any) -> None:
    """Mark a copy whose rows replace those of the topic, such as a restored savepoint."""
    txn.put(_AHEAD, b"1", db=database)


def is_marked_ahead(txn: Transaction, database: Any) -> bool:
    """Whether a copy was marked so."""
    return txn.get(_AHEAD, db=database) is not None


def _attempts() -> Any:
    """Yield the numbers of attempts until it has taken too long."""
    deadline = time.monotonic() + _RETRY_SECONDS
    attempt = 0
    while time.monotonic() < deadline:
        yield attempt
        attempt += 1
    raise BrokerUnavailableError(
        f"the journal could not be written for {_RETRY_SECONDS:.0f} s",
        hint="check that Kafka is running; the step is retried",
    )
