"""Check that the state of a stopped app is that of its journal: not lost, and not that of another time or task."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from millstream.batch.journal import Journal
from millstream.errors import StateError
from millstream.foundation.content import TASK_STATE, copy_of_table
from millstream.foundation.file_lock import FileLock
from millstream.foundation.storage import open_environment
from millstream.state.task import StateVersion, stored_version


def check_states(app_dir: Path, journal: Journal) -> None:
    """Raise if tables would be read from state that does not belong to the journal of a stopped app."""
    if not FileLock(app_dir / "lock").is_held():
        _check_states(app_dir, journal.path, journal.last_commit())


@lru_cache(maxsize=64)
def _check_states(app_dir: Path, journal_path: Path, _commit: int) -> None:
    """Check once for each commit of the journal."""
    journal = Journal(journal_path, readonly=True)
    for path, problem in state_problems(app_dir / "state", committed_versions(journal)):
        raise StateError(
            f"state in {str(path)!r} cannot be read: {problem}",
            hint="the app has run on another host since: read its tables there, or start it here, which restores them"
            if journal.changelogs()
            else "it was copied, restored or deleted by hand; put it back, or reset the app",
        )


def committed_versions(journal: Journal) -> dict[str, StateVersion] | None:
    """Return the version that the state of each task must have; None if the journal has commits to apply."""
    return None if journal.has_pending() else journal.read()[0].versions


def state_problems(directory: Path, versions: dict[str, StateVersion] | None) -> Iterator[tuple[Path, str]]:
    """Yield the states below a directory that are not those of the journal, with the reason.

    Executors of a cluster keep state elsewhere: a stage without a directory is not lost.
    """
    for stage in sorted(path for path in directory.glob("*") if path.is_dir()):
        tasks = {path.parent.name for path in stage.glob("*/data.mdb")}
        expected = {name.rpartition("/")[2] for name in versions or () if name.startswith(f"{stage.name}/")}
        for task in sorted(tasks | expected or {"0"}):
            problem = _problem(stage / task, versions)
            if problem is not None:
                yield stage / task, problem


def _problem(path: Path, versions: dict[str, StateVersion] | None) -> str | None:
    """Return why a state is not that of the journal; it may contain the batch after it, if that was interrupted."""
    if not (path / "data.mdb").exists():
        return "it is lost"
    content = open_environment(path, readonly=True).stored_content()
    if content not in (None, TASK_STATE, copy_of_table(path.parent.name)):
        return f"it holds {content}: another file is in its position"
    if versions is None:
        return None
    stored, expected = stored_version(path), versions.get(f"{path.parent.name}/{path.name}")
    if expected is None:
        return f"it is at batch {stored.batch}, which its journal does not have" if stored.base else None
    if expected.commit in (stored.commit, stored.base):
        return None
    return f"it is at batch {stored.batch}, but its journal is at batch {expected.batch}"
