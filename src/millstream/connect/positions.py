"""The positions of sources and sinks: what they are, and how a user sets them while nothing runs."""

from __future__ import annotations

from pathlib import Path

from millstream.batch.app_spec import AppSettings
from millstream.batch.batch import Progress
from millstream.batch.connector_status import ConnectorStatus, connector_statuses
from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.connect.kinds import meant
from millstream.connect.source_journal import SOURCE, SourceJournal, SourceProgress
from millstream.connect.topic_journals import leave, take_over
from millstream.errors import AlreadyRunningError, DefinitionError, StateError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import delivery_dir, lock_file, source_dir


def connector_status(data_dir: Path, app: str, name: str) -> ConnectorStatus:
    """Return the status of a source or sink that has run."""
    statuses = {status.name: status for status in connector_statuses(data_dir, app)}
    if name not in statuses:
        hint = meant(name, statuses) if statuses else "start it first: millstream connect run FILE"
        raise DefinitionError(f"{app!r} has no source or sink {name!r}", hint=hint)
    return statuses[name]


def positions(data_dir: Path, app: str, name: str) -> dict[str, str]:
    """Return the position of a source, or the offsets of a sink by ``topic/partition``."""
    if connector_status(data_dir, app, name).direction == "source":
        position = SourceJournal(source_dir(data_dir, app, name), readonly=True).read().position
        return {} if position is None else {"position": position_text(position)}
    progress, _ = Journal(_sink_dir(data_dir, app, name), readonly=True).read()
    return {partition: str(offset) for partition, offset in sorted(progress.positions.items())}


def set_position(settings: AppSettings, broker: Broker, name: str, text: str, *, discard_batch: bool = False) -> None:
    """Set the position of a source, or an offset of a sink as ``TOPIC/PARTITION=OFFSET``, while neither runs.

    A batch of a sink that is not finished may be in the target, in part: it is only given up with ``discard_batch``.
    On Kafka the journal is taken over, which stops a process that runs it on another host.
    """
    data_dir, app = settings.data_dir, settings.id
    is_source = connector_status(data_dir, app, name).direction == "source"
    lock = FileLock(lock_file(data_dir, app))
    if not lock.acquire(timeout=0.1):
        raise AlreadyRunningError(
            f"{app!r} is running (process {lock.holder()})", hint="stop it first", process=lock.holder()
        )
    try:
        if is_source:
            source = SourceJournal(source_dir(data_dir, app, name))
            take_over(settings, broker, f"{app}.source.{name}", source, SOURCE)
            _set_source(source, text)
            leave(source)
        else:
            directory = _sink_dir(data_dir, app, name)
            journal = Journal(directory)
            take_over(settings, broker, directory.name, journal)
            _set_sink(journal, broker, name, text, discard_batch=discard_batch)
            leave(journal)
    finally:
        lock.release()


def _set_source(journal: SourceJournal, text: str) -> None:
    before = journal.read()
    try:
        position = bytes.fromhex(text.removeprefix("hex:")) if text.startswith("hex:") else text.encode()
    except ValueError:
        raise DefinitionError(f"{text!r} is not a valid position", hint="write two digits for each byte") from None
    journal.set_position(SourceProgress(sequence=before.sequence, position=position, records=before.records))


def _set_sink(journal: Journal, broker: Broker, name: str, text: str, *, discard_batch: bool) -> None:
    """Set an offset; a discarded batch may be written already, so that its number is not used for other records."""
    partition, _, offset = text.rpartition("=")
    progress, planned = journal.read()
    if partition not in progress.positions or not offset.isdecimal():
        raise DefinitionError(
            f"{text!r} is not a valid position of sink {name!r}",
            hint=f"write TOPIC/PARTITION=OFFSET for one of: {', '.join(sorted(progress.positions)) or 'none yet'}",
        )
    _check_offset(broker, partition, int(offset))
    if planned is not None and not discard_batch:
        raise StateError(
            f"batch {planned.number} of sink {name!r} is not finished, and may be in its target, in part or as a whole",
            hint="run the sink until it is finished, or give it up with --discard-batch: its records are written "
            "again, as far as they are after the new position",
        )
    done = progress.done if planned is None else planned.number
    moved = Progress(done=done, positions={**progress.positions, partition: int(offset)}, versions=progress.versions)
    journal.write(moved, None)


def _check_offset(broker: Broker, partition: str, offset: int) -> None:
    topic, _, number = partition.rpartition("/")
    bounds = broker.offsets(topic)[int(number)]
    if not bounds.begin <= offset <= bounds.end:
        raise DefinitionError(
            f"{partition} has no offset {offset:,}", hint=f"choose one from {bounds.begin} to {bounds.end}"
        )


def _sink_dir(data_dir: Path, app: str, name: str) -> Path:
    directory = delivery_dir(data_dir, app, f"{app}.sink.{name}")
    return directory if directory.is_dir() else delivery_dir(data_dir, app, f"{app}.to-spark.{name}")


def position_text(position: bytes) -> str:
    """Return a position as text, or as ``hex:...`` if it is not."""
    try:
        text = position.decode()
    except UnicodeDecodeError:
        return f"hex:{position.hex()}"
    return text if text.isprintable() else f"hex:{position.hex()}"
