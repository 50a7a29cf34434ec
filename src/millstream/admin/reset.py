"""Let an app begin anew: what that takes away, and from where it reads then."""

from __future__ import annotations

from pathlib import Path

import msgspec

from millstream.admin.group_offsets import place_in
from millstream.admin.savepoints import remove_app
from millstream.batch.batch import Progress
from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.errors import AlreadyRunningError
from millstream.foundation.names import producer_prefix
from millstream.foundation.paths import app_dir, journal_dir, lock_file, state_dir
from millstream.foundation.storage import FileLock
from millstream.records import TopicPartition
from millstream.views.status import check_has_run


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset takes away and where the app begins then."""

    app: str
    batches: int
    stages: list[str]
    """Stages that have state on disk."""
    bytes: int
    positions: dict[str, int]
    """From where each partition is read, by ``topic/partition``."""
    records: int
    """How many records will be read again."""


def planned_reset(broker: Broker, data_dir: Path, app: str, to: str = "earliest") -> Reset:
    """Return what a reset of an app would do; nothing is changed."""
    check_has_run(data_dir, app)
    journal = Journal(journal_dir(data_dir, app), readonly=True)
    progress, _ = journal.read()
    plan = journal.catalog().get("plan", {})
    topics = {topic for stage in plan.get("stages", []) for topic in stage["topics"]}
    positions = positions_at(broker, sorted(topics), to)
    files = list(app_dir(data_dir, app).rglob("data.mdb"))
    state = state_dir(data_dir, app)
    return Reset(
        app=app,
        batches=progress.done,
        stages=sorted(path.name for path in state.iterdir()) if state.exists() else [],
        bytes=sum(file.stat().st_size for file in files),
        positions=positions,
        records=sum(max(0, before - positions.get(place, 0)) for place, before in progress.positions.items()),
    )


def positions_at(broker: Broker, topics: list[str], to: str) -> dict[str, int]:
    """Return the offsets that a place such as ``earliest`` or a time means in each partition of topics."""
    known = broker.topic_names()
    return {
        f"{topic}/{number}": place_in(broker, TopicPartition(topic, number), there, to)
        for topic in topics
        if topic in known
        for number, there in enumerate(broker.offsets(topic))
    }


def execute_reset(broker: Broker, data_dir: Path, reset: Reset) -> None:
    """Take away journal and state of an app that does not run, and let it begin at its new positions."""
    app = reset.app
    lock = FileLock(lock_file(data_dir, app))
    if not lock.acquire(timeout=0.1):
        raise AlreadyRunningError(
            f"app {app!r} is running (process {lock.holder()})", hint="stop it first", process=lock.holder()
        )
    try:
        if reset.stages:  # first, since the directories of stages tell the names of producers
            broker.forget_producers([producer_prefix(app, stage) for stage in reset.stages])
        remove_app(data_dir, app)
        begin_at(data_dir, app, reset.positions)
    finally:
        lock.release()
    if app in broker.group_names():
        broker.delete_group(app)


def begin_at(data_dir: Path, app: str, positions: dict[str, int]) -> None:
    """Let an app that has not run yet begin at these positions."""
    journal = Journal(journal_dir(data_dir, app))
    journal.write(Progress(positions=positions), None)
    journal.close()
