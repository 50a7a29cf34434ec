"""Open the journal of an app, which is on this host, and in a topic or in a checkpoint too if the settings say so."""

from __future__ import annotations

from pathlib import Path

from millstream.admin.changelogs import has_changelogs, restore_states
from millstream.admin.checkpoints import checkpoint_for_journal, restore_from_checkpoint
from millstream.admin.inputs import check_cluster
from millstream.batch.app_spec import AppSettings
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import JournalChangelog, find_journal_topic, journal_topic
from millstream.batch.journal_files import JournalFiles
from millstream.batch.restoring import Restoring
from millstream.batch.shared_journal import Owner, SharedJournal
from millstream.broker import Broker
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import has_run, journal_dir, lock_file, state_dir


def open_journal(app: AppSettings, broker: Broker, owner: Owner, restoring: Restoring | None = None) -> Journal:
    """Open the journal of an app; if it is not only on this host, all other runs of the app are fenced."""
    path = journal_dir(app.data_dir, app.id)
    local = Journal(path, durable=app.is_durable)
    check_cluster(app.id, local, broker)
    checkpoint = checkpoint_for_journal(app, broker)
    in_checkpoint = _checkpoint_in_use(app, local)
    shared: SharedJournal | None = None
    if checkpoint is not None:
        shared = JournalFiles(checkpoint, app.id, owner)
    if in_checkpoint is not None and in_checkpoint != checkpoint:
        _leave_checkpoint(app, in_checkpoint, owner, restoring)
    if has_changelogs(app, broker):
        topic = journal_topic(broker, app.id, creates=app.config.create_topics)
        shared = JournalChangelog(broker, app.id, topic, owner)
    elif in_checkpoint is None and not local.is_ahead() and (left := find_journal_topic(broker, app.id)) is not None:
        _leave_changelogs(app, broker, JournalChangelog(broker, app.id, left, owner), restoring)
    if shared is None:
        return local
    journal = Journal(path, durable=app.is_durable, changelog=shared)
    journal.take_over()
    check_cluster(app.id, journal, broker)
    if checkpoint is not None:
        journal.remember_checkpoint(checkpoint)
    return journal


def _checkpoint_in_use(app: AppSettings, local: Journal) -> str | None:
    """Return the checkpoint that has the journal of an app, according to this host or to the checkpoint itself."""
    uri = app.config.checkpoint
    is_here = uri is not None and JournalFiles(uri, app.id, Owner.new()).is_in_use()
    return uri if is_here else local.checkpoint()


def _leave_checkpoint(app: AppSettings, uri: str, owner: Owner, restoring: Restoring | None) -> None:
    """Copy what only a checkpoint may have to this host, from which the journal then goes elsewhere."""
    path = journal_dir(app.data_dir, app.id)
    journal = Journal(path, durable=app.is_durable, changelog=JournalFiles(uri, app.id, owner))
    journal.take_over()
    restore_from_checkpoint(app.id, state_dir(app.data_dir, app.id), journal, uri, restoring)
    journal.remember_checkpoint(None)
    Journal(path, durable=app.is_durable).leave_changelogs()


def _leave_changelogs(
    app: AppSettings, broker: Broker, changelog: JournalChangelog, restoring: Restoring | None
) -> None:
    """Copy what only the broker may have to this host, which from now on has the only copy."""
    journal = Journal(journal_dir(app.data_dir, app.id), durable=app.is_durable, changelog=changelog)
    journal.take_over()
    restore_states(app.id, state_dir(app.data_dir, app.id), journal, broker, restoring, app.config.checkpoint)
    journal.leave()
    Journal(journal_dir(app.data_dir, app.id), durable=app.is_durable).leave_changelogs()


def journal_of(broker: Broker, data_dir: Path, app: str) -> Journal:
    """Return the journal of a stopped app for a change of it; this fences its runs on other hosts."""
    journal = Journal(journal_dir(data_dir, app), changelog=_shared_journal(broker, data_dir, app))
    journal.take_over()
    return journal


def _shared_journal(broker: Broker, data_dir: Path, app: str) -> SharedJournal | None:
    """Return where the journal of an app is outside this host, without the settings of the app."""
    path = journal_dir(data_dir, app)
    checkpoint = Journal(path, readonly=True).checkpoint() if has_run(data_dir, app) else None
    if checkpoint is not None:
        return JournalFiles(checkpoint, app, Owner.new())
    topic = find_journal_topic(broker, app)
    return None if topic is None else JournalChangelog(broker, app, topic, Owner.new())


def fetch_journal(broker: Broker, data_dir: Path, app: str, *, is_locked: bool = False) -> None:
    """Bring the journal of an app on this host up to date, unless the app runs here.

    ``is_locked`` if the caller holds the lock of the app. A checkpoint is only known where the app has run.
    """
    shared = _shared_journal(broker, data_dir, app)
    if shared is not None and (is_locked or not FileLock(lock_file(data_dir, app)).is_held()):
        Journal(journal_dir(data_dir, app), changelog=shared).follow()


def replace_journal(broker: Broker, data_dir: Path, app: str, checkpoint: str | None = None) -> None:
    """Replace the journal of an app outside this host, in a topic or in a checkpoint, by the one on this host."""
    if checkpoint is not None:
        Journal(journal_dir(data_dir, app)).remember_checkpoint(checkpoint)
    if checkpoint is not None or find_journal_topic(broker, app) is not None:
        Journal(journal_dir(data_dir, app)).leave_changelogs()
        journal_of(broker, data_dir, app).leave()
