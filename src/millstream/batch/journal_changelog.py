"""The journal of an app in a topic with one partition: the broker fences all writers but the last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.batch.shared_journal import JOURNAL, Owner, SharedJournal, attempts
from millstream.broker import Broker, Output, SupportsChangelogs, WriterLostError
from millstream.errors import UnknownTopicError
from millstream.foundation.names import journal_topic_name
from millstream.foundation.storage import Environment
from millstream.foundation.transactions import Transaction
from millstream.state.changelog_rows import changelog_block
from millstream.state.recording import Changes, Rows
from millstream.task.changelog import ChangelogPartition, ChangelogTopic


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


class JournalChangelog(SharedJournal):
    """The topic of a journal, as one process of a run uses it; the copy is that of a partition."""

    def __init__(
        self, broker: Broker, app: str, topic: ChangelogTopic, owner: Owner, *, database: str = JOURNAL
    ) -> None:
        """Use the journal of an app, or of a source or sink; ``database`` has the rows that are in the topic."""
        assert isinstance(broker, SupportsChangelogs)
        super().__init__(app, owner, database=database)
        self.topic = topic
        self._partition = ChangelogPartition(broker, topic, 0)
        self._writer = broker.fenced_writer(journal_topic_name(app))
        self._unstored = 0
        """How many offsets this process has written that the position of the copy does not include yet."""
        self._looked_at = 0

    @property
    def _is_open(self) -> bool:
        return self._writer.is_open

    def _open(self) -> None:
        self._writer.open()

    def leave(self) -> None:
        """Let another process of the run write."""
        self._writer.close()

    def _is_empty(self) -> bool:
        return self._partition.is_empty()

    def _stored_rows(self) -> Rows:
        return self._partition.rows()

    def _start_copy(self, environment: Environment) -> None:
        self._partition.start_copy(environment)

    def _catch_up(self, environment: Environment) -> None:
        if not self._partition.is_usable(environment):
            self._partition.restart_copy(environment)
        self._partition.catch_up(environment)
        self._unstored = 0

    def _commit(self, environment: Environment, txn: Transaction, changes: Changes) -> bool:
        staged = self._partition.stage(environment, txn, changes, self._unstored)
        if staged is None:
            return False
        self._writer.commit([staged])
        self._unstored = 0
        return True

    def look_for_takeover(self, environment: Environment) -> None:
        """Raise if another run has taken over; reads the topic only, so the copy and the writer are not disturbed."""
        position = self._partition.position(environment)
        start = max(self._looked_at, 0 if position is None else position.offset)
        rows, self._looked_at = self._partition.rows_from(start)
        self._check_run(self._last_owner(rows) or self.stored_owner(environment))

    # Write-behind: the journal and the tasks in one transaction

    def commit_batch(
        self, environment: Environment, changes: Changes, outputs: Sequence[Output], is_done: Callable[[], bool]
    ) -> None:
        """Commit a batch, with everything that its tasks publish and change, to the broker only.

        If the outcome of an attempt is unknown, ``is_done`` tells whether it has committed, from the renewed copy.
        """
        block = changelog_block(changes)
        for attempt in attempts():
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
