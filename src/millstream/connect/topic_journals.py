"""The journals of sources and sinks on Kafka: in a compacted topic each, so that another host continues exactly.

The environment on disk is a copy of the topic, as for the journal of an app (``batch/journal_changelog.py``). A process
takes a journal over when it starts, and fences the one that had it.
"""

from __future__ import annotations

from typing import Protocol

from millstream.batch.app_spec import AppSettings
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import JournalChangelog, find_journal_topic, journal_topic
from millstream.batch.shared_journal import JOURNAL, Owner, SharedJournal
from millstream.broker import Broker, SupportsChangelogs
from millstream.foundation.paths import has_run, journal_dir

_APP = b"app"


class TopicJournal(Protocol):
    """A journal that can be in a topic."""

    changelog: SharedJournal | None

    def take_over(self) -> None: ...
    def leave(self) -> None: ...
    def is_ahead(self) -> bool: ...
    def leave_changelogs(self) -> None: ...


def take_over(app: AppSettings, broker: Broker, name: str, journal: TopicJournal, database: str = JOURNAL) -> None:
    """Continue the journal of a source or sink where any host has left it; does nothing on an embedded log.

    If the settings no longer want the topic, its content is copied here, and this host has the only copy.
    """
    if not isinstance(broker, SupportsChangelogs):
        return
    if app.config.changelogs:
        topic = journal_topic(broker, name, creates=app.config.create_topics)
        journal.changelog = JournalChangelog(broker, name, topic, Owner.new(), database=database)
        journal.take_over()
        return
    left = None if journal.is_ahead() else find_journal_topic(broker, name)
    if left is not None:
        journal.changelog = JournalChangelog(broker, name, left, Owner.new(), database=database)
        journal.take_over()
        leave(journal)
        journal.leave_changelogs()


def leave(journal: TopicJournal) -> None:
    """Let another process write the journal."""
    journal.leave()
    journal.changelog = None


def follow_lineage(app: AppSettings, broker: Broker, name: str, journal: Journal) -> None:
    """Start a sink over if its app was reset, or restored from a savepoint, since the sink has run, on any host.

    Its dead letters are then appended by a new lineage, which the broker refuses unless it forgets the old one.
    """
    has_app = has_run(app.data_dir, app.id)
    current = Journal(journal_dir(app.data_dir, app.id)).stored_lineage() if has_app else ""
    stored = (journal.note(_APP) or b"").decode()
    if stored and stored != current:
        broker.forget_producers([f"{name}."])
        journal.start_over()
    if stored != current:
        journal.set_note(_APP, current.encode())
