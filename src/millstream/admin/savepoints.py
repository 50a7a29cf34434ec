"""Savepoints: copies of an app's journal and state that belong together, taken while it runs.

Between two batches all environments are opened for reading, which takes milliseconds; then the app goes on, and what
those readers see is copied in peace. Restoring begins another history of the app: batches are counted on, but what
was published after the savepoint is published once more.
"""

from __future__ import annotations

import shutil
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from millstream.batch.batch import Progress
from millstream.batch.batch_lock import BatchLock
from millstream.batch.journal import Journal
from millstream.errors import StateError
from millstream.foundation.names import check_name
from millstream.foundation.paths import app_dir, journal_dir, lock_file, state_dir
from millstream.foundation.storage import (
    Environment,
    FileLock,
    close_environments,
    make_private_directory,
    open_environment,
    translate_storage_errors,
)

_MANIFEST = "savepoint.json"
Transaction: TypeAlias = Any


class Savepoint(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a savepoint."""

    name: str
    app: str
    at: int
    """Wall time in milliseconds."""
    batch: int
    """The last batch that is in it."""
    bytes: int
    positions: dict[str, int]


def create_savepoint(data_dir: Path, app: str, name: str, place: Path) -> Savepoint:
    """Copy journal and state of an app, which may be running, to ``place``."""
    target = _directory(place, app, name)
    if target.exists():
        raise StateError(f"app {app!r} has a savepoint {name!r} already", hint="choose another name, or delete it")
    draft = target.with_name(f".{name}-{uuid.uuid4().hex[:8]}")
    with translate_storage_errors(target), ExitStack() as readers:
        make_private_directory(draft)
        try:
            progress, copies = _snapshots(data_dir, app, readers)
            for source, (found, txn) in copies.items():
                copy = draft / source
                make_private_directory(copy)
                found.copy(copy, txn)
            made = Savepoint(
                name=name,
                app=app,
                at=time.time_ns() // 1_000_000,
                batch=progress.done,
                bytes=sum(file.stat().st_size for file in draft.rglob("data.mdb")),
                positions=progress.positions,
            )
            (draft / _MANIFEST).write_bytes(msgspec.json.encode(made))
            draft.rename(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return made


def _snapshots(
    data_dir: Path, app: str, readers: ExitStack
) -> tuple[Progress, dict[Path, tuple[Environment, Transaction]]]:
    """Open all environments at rest; the app waits for this only, not for the copies."""
    root = app_dir(data_dir, app)
    with BatchLock(root).exclusive():
        progress, _ = Journal(journal_dir(data_dir, app), readonly=True).read()
        paths = [journal_dir(data_dir, app), *(file.parent for file in state_dir(data_dir, app).rglob("data.mdb"))]
        found: dict[Path, tuple[Environment, Transaction]] = {}
        for path in paths:
            opened = open_environment(path, readonly=True)
            found[path.relative_to(root)] = opened, readers.enter_context(opened.read())
    return progress, found


def savepoints_of(place: Path, app: str) -> list[Savepoint]:
    """Return the savepoints of an app, oldest first."""
    found = [
        msgspec.json.decode(file.read_bytes(), type=Savepoint)
        for file in (place / check_name("app", app)).glob(f"*/{_MANIFEST}")
        if not file.parent.name.startswith(".")
    ]
    return sorted(found, key=lambda one: one.at)


def delete_savepoint(place: Path, app: str, name: str) -> None:
    """Delete a savepoint."""
    shutil.rmtree(_existing(place, app, name))


def restore_savepoint(data_dir: Path, app: str, name: str, place: Path) -> Savepoint:
    """Put journal and state of a stopped app back as they were; the present ones are replaced."""
    source = _existing(place, app, name)
    root = app_dir(data_dir, app)
    lock = FileLock(lock_file(data_dir, app))
    if not lock.acquire(timeout=0.1):
        raise StateError(f"app {app!r} is running (process {lock.holder()})", hint="stop it before it is restored")
    fresh = data_dir / "restoring" / f"{app}-{uuid.uuid4().hex[:8]}"
    try:
        with translate_storage_errors(root):
            make_private_directory(fresh.parent)
            shutil.copytree(source, fresh, ignore=shutil.ignore_patterns(_MANIFEST, "lock.mdb"))
            journal = Journal(fresh / "journal")
            journal.start_lineage()
            journal.close()  # its files are about to move
            remove_app(data_dir, app)
            fresh.rename(root)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        lock.release()
    return msgspec.json.decode((source / _MANIFEST).read_bytes(), type=Savepoint)


def remove_app(data_dir: Path, app: str) -> None:
    """Remove all that an app keeps, at once: a crash leaves it whole or gone."""
    root = app_dir(data_dir, app)
    gone = data_dir / "removed" / f"{app}-{uuid.uuid4().hex[:8]}"
    with translate_storage_errors(root):
        close_environments(root)
        make_private_directory(gone.parent)
        root.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _directory(place: Path, app: str, name: str) -> Path:
    return place / check_name("app", app) / check_name("savepoint", name)


def _existing(place: Path, app: str, name: str) -> Path:
    found = _directory(place, app, name)
    if not (found / _MANIFEST).exists():
        known = ", ".join(one.name for one in savepoints_of(place, app)) or "none"
        raise StateError(f"app {app!r} has no savepoint {name!r}", hint=f"its savepoints: {known}")
    return found
