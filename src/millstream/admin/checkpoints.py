"""Restore the state of an app from its checkpoint on this host, and upload state that the checkpoint lacks."""

from __future__ import annotations

from pathlib import Path

from millstream.admin.changelogs import has_changelogs
from millstream.batch.app_spec import AppSettings
from millstream.batch.journal import Journal
from millstream.batch.journal_files import can_hold_journal
from millstream.batch.restoring import Restoring
from millstream.broker import Broker
from millstream.state.checkpoint import Checkpoint
from millstream.state.task import TaskState
from millstream.task.changelog import CatchUp


def checkpoint_for_journal(app: AppSettings, broker: Broker) -> str | None:
    """Return the checkpoint in which the journal of an app is kept too, or None if it is elsewhere."""
    uri = app.config.checkpoint
    return uri if uri is not None and not has_changelogs(app, broker) and can_hold_journal(uri) else None


def restore_from_checkpoint(
    app: str, directory: Path, journal: Journal, uri: str, restoring: Restoring | None = None
) -> list[str]:
    """Restore the states of tasks that are not on this host, or are older than the journal; return their names."""
    restoring = restoring or Restoring()
    progress, batch = journal.read()[0], journal.current_batch()
    checkpoint = Checkpoint(uri, app, journal.lineage())
    states = {name: TaskState(directory / name, ()) for name in progress.versions}
    missing = {
        name: state for name, state in states.items() if state.read_version().commit != progress.versions[name].commit
    }
    restoring.start(len(missing), "the checkpoint")
    for name, state in missing.items():
        restoring.begin(name)
        last = CatchUp.of_part(0, 0, 0.0)

        def update(rows: int, size: int, part: float) -> None:
            nonlocal last
            last = CatchUp.of_part(rows, size, part)
            restoring.update(last)

        checkpoint.of_task(name).restore(state, progress.versions[name], batch, update)
        restoring.end(last)
    return list(missing)


def fill_checkpoint(app: str, directory: Path, journal: Journal, uri: str) -> None:
    """Upload the states of this host that the checkpoint lacks, since the app had none or a command changed them."""
    checkpoint = Checkpoint(uri, app, journal.lineage())
    for name, version in journal.read()[0].versions.items():
        task = checkpoint.of_task(name)
        if not task.has(version) and (directory / name).exists():
            task.restore(TaskState(directory / name, ()), version, journal.current_batch())
