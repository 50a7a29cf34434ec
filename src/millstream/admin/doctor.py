"""Check a data directory: which files of the log, of apps and of savepoints are whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from millstream.admin.savepoints import Savepoint
from millstream.batch.journal import Journal
from millstream.broker_urls import open_broker
from millstream.errors import MillstreamError, StorageError
from millstream.foundation.data_file import check_environment
from millstream.foundation.file_lock import FileLock
from millstream.foundation.storage import close_environments
from millstream.foundation.stored import decoding

_MANIFEST = "savepoint.json"


class Finding(msgspec.Struct, frozen=True):
    """The result for one part of a data directory; ``problem`` is None if it is whole."""

    kind: str
    path: str
    """Relative to the data directory."""
    problem: str | None


def examine(data_dir: Path) -> list[Finding]:
    """Check every environment of a data directory; apps may run meanwhile, but not in this process."""
    if not data_dir.is_dir():
        raise StorageError(f"there is no data directory {str(data_dir)!r}", hint="name an existing one")
    parts = _parts(data_dir)
    findings = [_finding(data_dir, kind, path, check) for kind, path, check in parts]
    close_environments(data_dir)
    return findings


def _finding(data_dir: Path, kind: str, path: Path, check: Callable[[Path], object]) -> Finding:
    problem = None
    close_environments(data_dir)  # LMDB refuses to open a directory twice
    try:
        check(path)
    except MillstreamError as error:
        problem = error.message
    except OSError as error:
        problem = f"it cannot be read: {error}"
    return Finding(kind, str(path.relative_to(data_dir)), problem)


Part = tuple[str, Path, Callable[[Path], object]]


def _parts(data_dir: Path) -> list[Part]:
    return [*_log(data_dir), *_apps(data_dir), *_savepoints(data_dir)]


def _log(data_dir: Path) -> Iterator[Part]:
    log = data_dir / "log"
    if log.exists():
        yield "log", log / "meta", _check_catalog
    for topic in sorted(path for path in (log / "topics").glob("[!.]*") if path.is_dir()):
        yield "topic", topic, _check_topic


def _apps(data_dir: Path) -> Iterator[Part]:
    for app in sorted(path for path in (data_dir / "apps").glob("*") if path.is_dir()):
        yield "journal", app / "journal", _check_journal
        paths = {data.parent for data in (app / "state").rglob("data.mdb")}
        for path in sorted(paths | {app / "state" / task for task in _committed_tasks(app)}):
            yield "state", path, _check_state


def _committed_tasks(app: Path) -> list[str]:
    """Return the tasks whose state must exist: those of a stopped app whose journal has no commits to apply."""
    if FileLock(app / "lock").is_held():
        return []
    try:
        journal = Journal(app / "journal", readonly=True)
        return [] if journal.has_pending() else list(journal.read()[0].versions)
    except MillstreamError:  # reported as the finding of the journal
        return []


def _savepoints(data_dir: Path) -> Iterator[Part]:
    for manifest in sorted((data_dir / "savepoints").glob(f"*/[!.]*/{_MANIFEST}")):
        yield "savepoint", manifest.parent, _check_savepoint


def _check_catalog(meta: Path) -> None:
    topics = sorted((meta.parent / "topics").glob("[!.]*/data.mdb"))
    if not (meta / "data.mdb").exists():
        if topics:
            raise StorageError(f"it is lost, but there are {len(topics)} topics")
        return
    check_environment(meta)


def _check_topic(path: Path) -> None:
    """Check the file, then the checksums of all blocks; a topic that is not in the catalog cannot be read."""
    check_environment(path)
    broker = open_broker(None, path.parents[2])
    try:
        offsets = broker.offsets(path.name)
    except MillstreamError:  # reported as the finding of the catalog
        return
    else:
        for partition, bounds in enumerate(offsets):
            for _ in broker.read(path.name, partition, bounds.begin, bounds.end):
                pass
    finally:
        broker.close()


def _check_journal(path: Path) -> None:
    check_environment(path)
    journal = Journal(path, readonly=True)
    progress, _ = journal.read()
    journal.inputs()
    journal.migration()
    journal.deployed()
    journal.catalog()
    journal.history.batches()
    journal.history.minutes()
    has_state = any((path.parent / "state").rglob("data.mdb"))
    if has_state and progress.done == 0 and not journal.encoded_catalog().strip(b"{}"):
        raise StorageError("it is empty, but the app has state")


def _check_state(path: Path) -> None:
    if not (path / "data.mdb").exists():
        raise StorageError("it is lost")
    check_environment(path)


def _check_savepoint(path: Path) -> None:
    with decoding(path):
        msgspec.json.decode((path / _MANIFEST).read_bytes(), type=Savepoint)
    if not (path / "journal" / "data.mdb").exists():
        raise StorageError("its journal is lost")
    for data in path.rglob("data.mdb"):
        check_environment(data.parent, is_live=False)
