"""Check a data directory: which files of the log, of apps and of savepoints are whole."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from millstream.admin.savepoints import Savepoint
from millstream.batch.batch import Progress, offsets_of
from millstream.batch.connector_status import connector_apps, connector_statuses, sink_problem
from millstream.batch.journal import Inputs, Journal
from millstream.broker import Broker
from millstream.broker_urls import open_broker
from millstream.errors import MillstreamError, StorageError, UnknownTopicError
from millstream.foundation.content import SOURCE_JOURNAL, TOPIC
from millstream.foundation.data_file import check_environment
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import app_dir, source_dir
from millstream.foundation.storage import close_environments, open_environment
from millstream.foundation.stored import decoding
from millstream.foundation.typed_decoding import decode_json
from millstream.state.checkpoint import Checkpoint
from millstream.tables.state_files import committed_versions, state_problems
from millstream.views.share_groups import share_groups

_MANIFEST = "savepoint.json"


class Finding(msgspec.Struct, frozen=True):
    """The result for one part of a data directory; ``problem`` is None if it is whole."""

    kind: str
    path: str
    """Relative to the data directory."""
    problem: str | None


def examine(data_dir: Path, checkpoint: str | None = None) -> list[Finding]:
    """Check every environment of a data directory, and that the tasks of its apps can be restored from a checkpoint.

    Apps may run meanwhile, but not in this process.
    """
    if not data_dir.is_dir():
        raise StorageError(f"there is no data directory {str(data_dir)!r}", hint="name an existing one")
    parts = [*_log(data_dir), *_apps(data_dir, checkpoint), *_connectors(data_dir), *_savepoints(data_dir)]
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


def _log(data_dir: Path) -> Iterator[Part]:
    log = data_dir / "log"
    if not log.exists():
        return
    yield "log", log / "meta", _check_catalog
    if (log / "shares" / "state").exists() or (log / "shares" / "id").exists():
        yield "share groups", log / "shares" / "state", _check_share_groups
    names = {path.name for path in (log / "topics").glob("[!.]*") if path.is_dir()}
    listed = _listed_topics(data_dir)
    for name in sorted(names | listed):
        yield "topic", log / "topics" / name, partial(_check_topic, is_listed=name in listed)


def _listed_topics(data_dir: Path) -> set[str]:
    """Return the topics in the catalog, none if it cannot be read, which is the finding of the catalog."""
    try:
        with _open_log(data_dir) as broker:
            return set(broker.topic_names())
    except MillstreamError:
        return set()


@contextmanager
def _open_log(data_dir: Path) -> Iterator[Broker]:
    close_environments(data_dir)
    broker = open_broker(None, data_dir)
    try:
        yield broker
    finally:
        broker.close()


def _apps(data_dir: Path, checkpoint: str | None) -> Iterator[Part]:
    for app in sorted(path for path in (data_dir / "apps").glob("*") if path.is_dir()):
        has_run = (app / "state").exists() or not (app / "deliveries").exists()  # else only sinks of a connect file
        if has_run:
            yield "journal", app / "journal", _check_journal
        for data in sorted((app / "state").rglob("data.mdb")):
            yield "state", data.parent, check_environment
        for path, problem in _foreign_states(app):
            yield "state", path, partial(_report, problem=problem)
        if checkpoint is not None and has_run:
            yield "checkpoint", app, partial(_check_checkpoint, uri=checkpoint)


def _connectors(data_dir: Path) -> Iterator[Part]:
    """Yield the journals of sinks and sources, and the rows that sources keep."""
    for data in sorted((data_dir / "apps").glob("*/deliveries/*/data.mdb")):
        yield "sink", data.parent, _check_sink
    yield from _lost_connectors(data_dir)
    for data in sorted((data_dir / "connectors").rglob("data.mdb")):
        yield "source", data.parent, check_environment


def _lost_connectors(data_dir: Path) -> Iterator[Part]:
    """Yield sources and sinks that may have lost their journal."""
    for app in connector_apps(data_dir) if _has_log(data_dir) else ():
        for status in connector_statuses(data_dir, app):
            path = source_dir(data_dir, app, status.name)
            if status.direction == "source" and status.batch > 0:
                yield "source", path, _check_source
            journals = app_dir(data_dir, app) / "deliveries"
            if status.direction == "sink" and status.batch > 0 and not _journals_of(journals, status.name):
                yield "sink", journals, partial(_report, problem=f"the journal of sink {status.name!r} is lost")


def _has_log(data_dir: Path) -> bool:
    """Whether the broker is the embedded log; on Kafka, journals are topics, and what is here are only copies."""
    return (data_dir / "log" / "meta").exists()


def _check_sink(path: Path) -> None:
    """Check the journal of a sink, and that it is neither an old copy nor another one."""
    _check_journal(path)
    app, journal = path.parents[1], Journal(path, readonly=True)
    lineage, done = journal.stored_lineage(), journal.current_batch() - 1
    for status in connector_statuses(app.parents[1], app.name) if _has_log(app.parents[1]) else ():
        problem = sink_problem(status, lineage, done)
        if problem is not None and path in _journals_of(path.parent, status.name):
            raise StorageError(f"it {problem}")


def _journals_of(deliveries: Path, sink: str) -> list[Path]:
    return [data.parent for data in deliveries.glob("*/data.mdb") if data.parent.name.endswith(f".{sink}")]


def _check_source(path: Path) -> None:
    """Check that the journal of a source that has read something knows that."""
    if not (path / "data.mdb").exists():
        raise StorageError("it is lost")
    environment = open_environment(path, ("source",), readonly=True, content=SOURCE_JOURNAL)
    with environment.read() as txn:
        if txn.get(b"progress", db=environment.databases["source"]) is None:
            raise StorageError("another file is in its place")


def _foreign_states(app: Path) -> list[tuple[Path, str]]:
    """Return the states of a stopped app that are lost, or not those of its journal."""
    if FileLock(app / "lock").is_held():
        return []
    try:
        return list(state_problems(app / "state", committed_versions(Journal(app / "journal", readonly=True))))
    except MillstreamError:  # reported as the finding of the journal or the state
        return []


def _report(_path: Path, *, problem: str) -> None:
    raise StorageError(problem)


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
    with _open_log(meta.parents[1]) as broker:
        for group in broker.group_names():
            broker.committed(group)


def _check_share_groups(state: Path) -> None:
    if (state / "data.mdb").exists():
        check_environment(state)
    with _open_log(state.parents[2]) as broker:
        share_groups(broker)


def _check_topic(path: Path, *, is_listed: bool) -> None:
    """Check the file, then the checksums of all blocks; a topic that is not in the catalog cannot be read."""
    if (path / "data.mdb").exists():
        check_environment(path)
    with _open_log(path.parents[2]) as broker:
        if is_listed:
            for partition, bounds in enumerate(broker.offsets(path.name)):
                for _ in broker.read(path.name, partition, bounds.begin, bounds.end):
                    pass
        elif broker.topic_names() and _has_records(path):
            raise StorageError("it has records, but is not in the list of topics")


def _has_records(path: Path) -> bool:
    environment = open_environment(path, ("blobs",), readonly=True, content=TOPIC)
    blobs = environment.databases["blobs"]
    with environment.read() as txn:
        return blobs is not None and txn.stat(blobs)["entries"] > 0


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
    inputs = journal.inputs()
    if inputs is not None and (path.parents[2] / "log" / "meta" / "data.mdb").exists():
        _check_positions(path.parents[2], progress, inputs)


def _check_positions(data_dir: Path, progress: Progress, inputs: Inputs) -> None:
    """Check that the positions of an app are in the topics of the log, if it reads the log."""
    with _open_log(data_dir) as broker:
        if broker.cluster_id() != inputs.cluster:
            return
        for partition, position in offsets_of(progress).items():
            with suppress(UnknownTopicError):  # reported as the finding of the topic
                end = broker.offsets(partition.topic)[partition.partition].end
                if position > end:
                    raise StorageError(f"it is at offset {position} of {partition}, which ends at {end}")


def _check_checkpoint(app: Path, *, uri: str) -> None:
    """Check that a checkpoint contains the committed version of every task, if it contains the app."""
    journal = Journal(app / "journal", readonly=True)
    checkpoint = Checkpoint(uri, app.name, journal.stored_lineage())
    for task, expected in journal.read()[0].versions.items() if checkpoint.exists() else ():
        checkpoint.of_task(task).check(expected)


def _check_savepoint(path: Path) -> None:
    with decoding(path):
        decode_json((path / _MANIFEST).read_bytes(), Savepoint)
    if not (path / "journal" / "data.mdb").exists():
        raise StorageError("its journal is lost")
    for data in path.rglob("data.mdb"):
        check_environment(data.parent, is_live=False)
    with tempfile.TemporaryDirectory() as directory:  # since LMDB creates a lock file where it reads
        copy = Path(shutil.copytree(path, Path(directory) / "copy"))
        versions = committed_versions(Journal(copy / "journal", readonly=True))
        for state, problem in state_problems(copy / "state", versions):
            raise StorageError(f"state {str(state.relative_to(copy))!r}: {problem}")
        close_environments(copy)
