"""Merge the state of a stage into that of another one, which does the work of both from now on."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from millstream.batch.batch import Progress
from millstream.errors import UpgradeError
from millstream.foundation.storage import close_environments
from millstream.foundation.transactions import WriteTransaction
from millstream.state.task import TaskState

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


def merge_state(source: Path, target: Path, stores: tuple[str, ...]) -> None:
    """Copy the stores of all tasks of a stage into the tasks of another one, then delete it; this is idempotent."""
    merged = source.with_name(f"{source.name}{_MERGED}")
    if source.exists():
        for task in sorted(path for path in source.iterdir() if (path / "data.mdb").exists()):
            _merge_task(task, target / task.name, stores)
        close_environments(source)
        source.rename(merged)  # in one step, so that a crash does not leave a part of it
    shutil.rmtree(merged, ignore_errors=True)


def _merge_task(source: Path, target: Path, stores: tuple[str, ...]) -> None:
    old, new = TaskState(source, stores), TaskState(target, stores)

    def change(txn: WriteTransaction) -> None:
        version = new.version(txn)
        stream_time = max(version.stream_time, old.read_version().stream_time)
        new.add_meta(txn, old, msgspec.structs.replace(version, stream_time=stream_time))
        for store in stores:
            txn.drop(new.database(store), delete=False)  # rows of a store that was no longer used
            for key, value in old.scan(store):
                txn.put(key, value, db=new.database(store))

    new.update(change)
