"""Reset an app: delete its journal and state, and set the positions from which it reads its input again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from millstream.admin.group_offsets import resolve_offset
from millstream.admin.journals import fetch_journal, replace_journal
from millstream.admin.savepoints import remove_app
from millstream.batch.batch import Progress
from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.errors import AlreadyRunningError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.names import producer_prefix
from millstream.foundation.paths import app_dir, journal_dir, lock_file, state_dir
from millstream.records import TopicPartition
from millstream.views.status import check_has_run


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset deletes, and where the app starts afterwards."""

    app: str
    batches: int
    stages: list[str]
    """Stages that have state on disk."""
    bytes: int
    positions: dict[str, int]
    """The first offset to read of each partition, by ``topic/partition``."""
    records: int
    """The number of records that will be read again."""
    changelogs: list[str] = []
    """The topics with its state, which are deleted."""


def planned_reset(broker: Broker, data_dir: Path, app: str, to: str = "earliest") -> Reset:
    """Return what a reset of an app would do; nothing is changed."""
    fetch_journal(broker, data_dir, app)
    check_has_run(data_dir, app)
    journal = Journal(journal_dir(data_dir, app), readonly=True)
    progress, _ = journal.read()
    plan = journal.catalog().get("plan", {})
    topics = {topic for stage in plan.get("stages", []) for topic in stage["topics"]}
    positions = resolve_positions(broker, sorted(topics), to)
    files = list(app_dir(data_dir, app).rglob("data.mdb"))
    state = state_dir(data_dir, app)
    return Reset(
        app=app,
        batches=progress.done,
        stages=sorted({*journal.changelogs(), *(path.name for path in (state.iterdir() if state.exists() else ()))}),
        bytes=sum(file.stat().st_size for file in files),
        positions=positions,
        records=sum(max(0, offset - positions.get(name, 0)) for name, offset in progress.positions.items()),
        changelogs=sorted(topic.name for topic in journal.changelogs().values()),
    )


def resolve_positions(broker: Broker, topics: list[str], to: str) -> dict[str, int]:
    """Return the offset of a position, such as ``earliest`` or a time, in each partition of existing topics."""
    existing = broker.topic_names()
    return {
        f"{topic}/{number}": resolve_offset(broker, TopicPartition(topic, number), bounds, to)
        for topic in topics
        if topic in existing
        for number, bounds in enumerate(broker.offsets(topic))
    }


def execute_reset(broker: Broker, data_dir: Path, reset: Reset) -> None:
    """Delete journal and state of an app that is not running, and store its new positions."""
    app = reset.app
    lock = FileLock(lock_file(data_dir, app))
    if not lock.acquire(timeout=0.1):
        raise AlreadyRunningError(
            f"app {app!r} is running (process {lock.holder()})", hint="stop it first", process=lock.holder()
        )
    try:
        if reset.stages:  # first, because the names of producers follow from the directories of stages
            broker.forget_producers([producer_prefix(app, stage) for stage in reset.stages])
        checkpoint = Journal(journal_dir(data_dir, app)).checkpoint()
        remove_app(data_dir, app)
        store_positions(data_dir, app, reset.positions)
        replace_journal(broker, data_dir, app, checkpoint)
        for topic in set(reset.changelogs) & set(broker.topic_names()):
            broker.delete_topic(topic)
    finally:
        lock.release()
    if app in broker.group_names():
        broker.delete_group(app)


def store_positions(data_dir: Path, app: str, positions: dict[str, int]) -> None:
    """Store the positions at which an app that has not run yet starts."""
    journal = Journal(journal_dir(data_dir, app))
    journal.write(Progress(positions=positions), None)
    journal.close()
