"""The status of an app, readable by any process on the host, while the app runs and after it has stopped."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from millstream.batch.activity import Heartbeat, HeartbeatFile
from millstream.batch.connector_status import ConnectorStatus, connector_statuses
from millstream.batch.fill import FillProgress, fill_progress
from millstream.batch.history import FailureReport
from millstream.batch.journal import Journal
from millstream.batch.report import BatchReport, Phases, StageTotals, Totals
from millstream.errors import StateError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import activity_file, app_names, journal_dir, lock_file
from millstream.foundation.text import format_count
from millstream.task.report import TaskReport

_RECENT_MS = 10_000
_MAX_BATCHES = 200
_PHASES = Phases.__struct_fields__


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a store in all partitions."""

    rows: int
    bytes: int


class StageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A stage: its totals since the first batch, and the state of each task after its last batch with input."""

    name: str
    partitions: int
    totals: StageTotals
    stream_times: dict[int, int]
    """By partition, in milliseconds; partitions that have received no records are missing."""
    stores: dict[str, StoreStatus]

    @property
    def stream_time(self) -> int | None:
        """The earliest stream time of its partitions, or None before the first record."""
        return min(self.stream_times.values(), default=None)

    @property
    def held_back_by(self) -> int | None:
        """The partition with the earliest stream time, or None if all are equal."""
        times = self.stream_times
        if len(set(times.values())) < 2:
            return None
        return min(times, key=times.__getitem__)


class AppStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an app after its last batch."""

    app: str
    process: int | None
    """The process that runs the app, or None."""
    batch: int
    """The last batch that is done."""
    planned: int | None
    """The batch that is running, or will run again at the next start."""
    ended_at: int | None
    """When the last batch ended, wall-clock time in milliseconds."""
    rate: float
    """Records per second in the last ten seconds."""
    seconds: float
    """The average duration of the recent batches."""
    phases: Phases
    totals: Totals
    lag: dict[str, int]
    """Unread records after the last batch, by ``topic/partition``."""
    stages: list[StageStatus]
    sign: Heartbeat | None
    """The last heartbeat of its process, with its activity; about once a second while it runs."""
    failure: FailureReport | None
    """The last failure, unless a batch has succeeded since."""
    storage: str
    """Where the state is kept."""
    connectors: list[ConnectorStatus] = []
    """The sources and sinks, including ``to_spark`` steps."""
    fill: FillProgress | None = None
    """The progress of tables that are filled from the past."""


def status_of(data_dir: Path, app: str, *, now: int | None = None) -> AppStatus:
    """Return the status of an app; raises if it has never run on the data directory."""
    check_has_run(data_dir, app)
    journal = Journal(journal_dir(data_dir, app), readonly=True)
    progress, planned = journal.read()
    recent = journal.history.batches(_MAX_BATCHES)
    totals = journal.history.totals()
    lock = FileLock(lock_file(data_dir, app))
    sign = HeartbeatFile(activity_file(data_dir, app)).read()
    return AppStatus(
        app=app,
        process=lock.holder() if lock.is_held() else None,
        batch=progress.done,
        planned=None if planned is None else planned.number,
        ended_at=recent[-1].ended_at if recent else None,
        rate=_rate(recent, time.time_ns() // 1_000_000 if now is None else now),
        seconds=_mean(batch.seconds for batch in recent),
        phases=Phases(**{name: _mean(getattr(batch.phases, name) for batch in recent) for name in _PHASES}),
        totals=totals,
        lag=recent[-1].lag if recent else {},
        stages=_stages(journal, totals),
        sign=sign,
        failure=journal.history.failure(),
        connectors=connector_statuses(data_dir, app),
        fill=fill_progress(data_dir, app),
        storage=_storage(journal, sign),
    )


def _storage(journal: Journal, sign: Heartbeat | None) -> str:
    """Describe where the state of an app is kept, and with which guarantee if it is not exactly once."""
    inputs, topics, checkpoint = journal.inputs(), journal.changelogs(), journal.checkpoint()
    if checkpoint is not None:
        return f"in the checkpoint {checkpoint}, with a copy on this host"
    if not topics or inputs is None:
        return "on this host"
    guarantee = "; output is at least once" if sign is not None and sign.guarantee == "at_least_once" else ""
    return f"in {format_count(len(topics), 'changelog')} on {inputs.url}, with a copy on this host{guarantee}"


def check_has_run(data_dir: Path, app: str) -> None:
    """Raise if an app has never run on a data directory."""
    names = app_names(data_dir)
    if app not in names:
        raise StateError(
            f"app {app!r} has not run on {str(data_dir)!r}", hint=f"apps there: {', '.join(names) or 'none yet'}"
        )


def _stages(journal: Journal, totals: Totals) -> list[StageStatus]:
    partitions: dict[str, int] = journal.catalog().get("partitions", {})
    by_stage: dict[str, list[TaskReport]] = {name: [] for name in partitions}
    for task in journal.history.tasks().values():
        if task.partition < partitions.get(task.stage, 0):  # skip tasks of stages that no longer exist
            by_stage[task.stage].append(task)
    return [
        StageStatus(
            name=name,
            partitions=partitions[name],
            totals=totals.stages.get(name, StageTotals()),
            stream_times={task.partition: task.stream_time for task in tasks if task.stream_time >= 0},
            stores=_stores(tasks),
        )
        for name, tasks in by_stage.items()
    ]


def _stores(tasks: list[TaskReport]) -> dict[str, StoreStatus]:
    names = dict.fromkeys(name for task in tasks for name in task.rows)
    return {
        name: StoreStatus(
            rows=sum(task.rows.get(name, 0) for task in tasks), bytes=sum(task.bytes.get(name, 0) for task in tasks)
        )
        for name in names
    }


def _rate(recent: list[BatchReport], now: int) -> float:
    since = now - _RECENT_MS
    batches = [batch for batch in recent if batch.ended_at >= since]
    if not batches:
        return 0.0
    began = max(since, batches[0].ended_at - round(batches[0].seconds * 1000))
    return sum(batch.records_in for batch in batches) / max(0.001, (now - began) / 1000)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
