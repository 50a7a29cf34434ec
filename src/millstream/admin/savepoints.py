"""Savepoints: consistent copies of an app's journal and state, taken while it runs.

Between two batches all environments are opened for reading, which takes milliseconds. The app then continues, while
the snapshots of those readers are copied. Restoring starts a new lineage of the app: batch numbers continue, but
output that was published after the savepoint is published again.
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
from millstream.batch.connector_status import forget_sinks
from millstream.batch.journal import Journal
from millstream.errors import StateError
from millstream.foundation.data_file import check_structure
from millstream.foundation.exchange import try_exchange
from millstream.foundation.file_lock import FileLock
from millstream.foundation.names import check_name
from millstream.foundation.paths import app_dir, journal_dir, lock_file, state_dir
from millstream.foundation.storage import (
    Environment,
    close_environments,
    make_private_directory,
    open_environment,
    translate_storage_errors,
)
from millstream.foundation.stored import decoding
from millstream.foundation.typed_decoding import decode_json

_MANIFEST = "savepoint.json"
Transaction: TypeAlias = Any


class Savepoint(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a savepoint."""

    name: str
    app: str
    at: int
    """Wall-clock time in milliseconds."""
    batch: int
    """The last batch that the savepoint contains."""
    bytes: int
    positions: dict[str, int]


def create_savepoint(data_dir: Path, app: str, name: str, directory: Path) -> Savepoint:
    """Copy journal and state of an app, which may be running, to ``directory``."""
    target = _path(directory, app, name)
    if target.exists():
        raise StateError(f"app {app!r} already has a savepoint {name!r}", hint="choose another name, or delete it")
    draft = target.with_name(f".{name}-{uuid.uuid4().hex[:8]}")
    with translate_storage_errors(target), ExitStack() as readers:
        make_private_directory(draft)
        try:
            progress, copies = _snapshots(data_dir, app, readers)
            for source, (environment, txn) in copies.items():
                copy = draft / source
                make_private_directory(copy)
                environment.copy(copy, txn)
            savepoint = Savepoint(
                name=name,
                app=app,
                at=time.time_ns() // 1_000_000,
                batch=progress.done,
                bytes=sum(file.stat().st_size for file in draft.rglob("data.mdb")),
                positions=progress.positions,
            )
            (draft / _MANIFEST).write_bytes(msgspec.json.encode(savepoint))
            draft.rename(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return savepoint


def _snapshots(
    data_dir: Path, app: str, readers: ExitStack
) -> tuple[Progress, dict[Path, tuple[Environment, Transaction]]]:
    """Open all environments between two batches; the app waits for this, but not for the copies."""
    root = app_dir(data_dir, app)
    with BatchLock(root).exclusive():
        progress, _ = Journal(journal_dir(data_dir, app), readonly=True).read()
        paths = [journal_dir(data_dir, app), *(file.parent for file in state_dir(data_dir, app).rglob("data.mdb"))]
        snapshots: dict[Path, tuple[Environment, Transaction]] = {}
        for path in paths:
            environment = open_environment(path, readonly=True)
            snapshots[path.relative_to(root)] = environment, readers.enter_context(environment.read())
    return progress, snapshots


def savepoints_of(directory: Path, app: str) -> list[Savepoint]:
    """Return the savepoints of an app, oldest first."""
    savepoints = [
        _manifest(file)
        for file in (directory / check_name("app", app)).glob(f"*/{_MANIFEST}")
        if not file.parent.name.startswith(".")
    ]
    return sorted(savepoints, key=lambda savepoint: savepoint.at)


def _manifest(file: Path) -> Savepoint:
    with decoding(file.parent):
        return decode_json(file.read_bytes(), Savepoint)


def delete_savepoint(directory: Path, app: str, name: str) -> None:
    """Delete a savepoint."""
    shutil.rmtree(_existing(directory, app, name))


def restore_savepoint(data_dir: Path, app: str, name: str, directory: Path) -> Savepoint:
    """Replace journal and state of a stopped app with those of a savepoint.

    They are built beside the app and switched by a rename: a kill at any time leaves the old or the new app.
    """
    source = _existing(directory, app, name)
    savepoint = _manifest(source / _MANIFEST)
    finish_restore(data_dir, app)
    lock = FileLock(lock_file(data_dir, app))
    if not lock.acquire(timeout=0.1):
        raise StateError(f"app {app!r} is running (process {lock.holder()})", hint="stop it first")
    draft = data_dir / "restoring" / "drafts" / f"{app}-{uuid.uuid4().hex[:8]}"
    try:
        with translate_storage_errors(app_dir(data_dir, app)):
            make_private_directory(draft.parent)
            shutil.copytree(source, draft, ignore=shutil.ignore_patterns(_MANIFEST, "lock.mdb"))
            for file in draft.glob("**/data.mdb"):
                check_structure(file.parent)
            journal = Journal(draft / "journal")
            journal.start_lineage()
            journal.close()  # its files are moved below
            install_app(data_dir, app, draft)
    finally:
        lock.release()
        shutil.rmtree(draft, ignore_errors=True)
    return savepoint


def install_app(data_dir: Path, app: str, draft: Path) -> None:
    """Put complete journal and state in the position of an app, and remove what was there; the caller has the lock."""
    root, ready = app_dir(data_dir, app), _ready(data_dir, app)
    make_private_directory(ready.parent)
    forget_sinks(data_dir, app)  # their journals are among what is removed
    shutil.rmtree(ready, ignore_errors=True)
    draft.rename(ready)
    close_environments(root)
    if not try_exchange(ready, root):
        remove_app(data_dir, app)  # if the process dies here, the next start finishes the restore
        finish_restore(data_dir, app)
    shutil.rmtree(ready, ignore_errors=True)


def finish_restore(data_dir: Path, app: str) -> None:
    """Finish a restore that died while it switched to the new state; called before an app starts."""
    root, ready = app_dir(data_dir, app), _ready(data_dir, app)
    if ready.exists() and not root.exists():
        with translate_storage_errors(root):
            make_private_directory(root.parent)
            ready.rename(root)


def _ready(data_dir: Path, app: str) -> Path:
    return data_dir / "restoring" / "ready" / check_name("app", app)


def remove_app(data_dir: Path, app: str) -> None:
    """Remove journal and state of an app atomically: after a crash either all or nothing is left."""
    root = app_dir(data_dir, app)
    removed = data_dir / "removed" / f"{app}-{uuid.uuid4().hex[:8]}"
    forget_sinks(data_dir, app)
    with translate_storage_errors(root):
        close_environments(root)
        make_private_directory(removed.parent)
        root.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)


def _path(directory: Path, app: str, name: str) -> Path:
    return directory / check_name("app", app) / check_name("savepoint", name)


def _existing(directory: Path, app: str, name: str) -> Path:
    path = _path(directory, app, name)
    if not (path / _MANIFEST).exists():
        names = ", ".join(savepoint.name for savepoint in savepoints_of(directory, app)) or "none"
        raise StateError(f"app {app!r} has no savepoint {name!r}", hint=f"its savepoints: {names}")
    return path
