"""Merge the state of a stage into that of another one, which does the work of both from now on."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import msgspec

from millstream.batch.batch import Progress
from millstream.batch.journal import StateMerge
from millstream.errors import UpgradeError
from millstream.foundation.storage import close_environments
from millstream.foundation.transactions import WriteTransaction
from millstream.state.task import StateVersion, TaskState

_MERGED = ".merged"


def check_can_merge(progress: Progress, merges: dict[str, str], state_dir: Path) -> None:
    """Raise if the state of a stage that is to be merged is not on this host; nothing was changed yet."""
    for task in progress.versions:
        stage = task.rpartition("/")[0]
        if stage in merges and not (state_dir / task / "data.mdb").exists():
            raise UpgradeError(
                f"the state of stage {stage!r} would become part of {merges[stage]!r}, but it is not on this host",
                hint="run the app where its state is, or under another app id (millstream replay)",
                stage=stage,
            )


def with_commits(
    merges: dict[str, StateMerge], progress: Progress, state_dir: Path
) -> tuple[dict[str, StateMerge], dict[str, StateVersion]]:
    """Return the merges with commits for tasks that have no version yet, and all versions after them.

    Without a version a state would not be part of the app: it would be missing in savepoints and changelogs.
    """
    versions, result = dict(progress.versions), {}
    for source, merge in merges.items():
        commits = {}
        for path in sorted((state_dir / source).glob("*/data.mdb")):
            task = f"{merge.into}/{path.parent.name}"
            if task not in versions:
                commits[path.parent.name] = uuid.uuid4().hex
                versions[task] = StateVersion(batch=progress.done, commit=commits[path.parent.name])
        result[source] = msgspec.structs.replace(merge, batch=progress.done, commits=commits)
    return result, versions


def merge_state(source: Path, target: Path, merge: StateMerge) -> None:
    """Copy the stores of all tasks of a stage into the tasks of another one, then delete it; this is idempotent."""
    merged = source.with_name(f"{source.name}{_MERGED}")
    if source.exists():
        for task in sorted(path for path in source.iterdir() if (path / "data.mdb").exists()):
            _merge_task(task, target / task.name, merge)
        close_environments(source)
        source.rename(merged)  # in one step, so that a crash does not leave a part of it
    shutil.rmtree(merged, ignore_errors=True)


def _merge_task(source: Path, target: Path, merge: StateMerge) -> None:
    old, new = TaskState(source, merge.stores), TaskState(target, merge.stores)
    commit = merge.commits.get(target.name)

    def change(txn: WriteTransaction) -> None:
        version = new.version(txn) if commit is None else StateVersion(batch=merge.batch, commit=commit)
        stream_time = max(version.stream_time, old.read_version().stream_time)
        new.add_meta(txn, old, msgspec.structs.replace(version, stream_time=stream_time))
        for store in merge.stores:
            txn.drop(new.database(store), delete=False)  # rows of a store that was no longer used
            for key, value in old.scan(store):
                txn.put(key, value, db=new.database(store))

    new.update(change)
