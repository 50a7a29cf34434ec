"""Apps: their state, their batches, and their last deploy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from millstream.batch.history import MINUTES_KEPT
from millstream.batch.journal import Journal
from millstream.batch.report import BatchReport, Phases
from millstream.batch.restoring import is_restore
from millstream.operations.lag import lag_of
from millstream.serve.api.params import Name
from millstream.serve.history import HistoryPoint, history_of
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.status import AppStatus, StageStatus, status_of

State = Literal["running", "catching up", "waiting", "failed", "stopped"]
_BEHIND_SECONDS = 10  # an app with a backlog of more than this much work is catching up
_BEHIND_RECORDS = 1000
_TIMELINE_BATCHES, _LATENCY_BATCHES = 60, 30
_HOUR = 60


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from the timestamp of a batch's first record, which waited longest, to the end of the batch."""

    p50: float
    p99: float


class AppSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An app in a list; ``why`` explains its state, ``rate`` is in records per second, ``seconds`` per batch."""

    app: str
    state: State
    why: str
    process: int | None
    batch: int
    ended_at: int | None
    rate: float
    seconds: float
    latency: Latency | None
    lag: int
    records_in: int
    records_out: int
    late: int
    dead_letters: int
    storage: str
    """Where the state is kept."""


class BatchTimes(msgspec.Struct, frozen=True, kw_only=True):
    """A batch in the timeline."""

    number: int
    ended_at: int
    seconds: float
    phases: Phases
    records_in: int
    records_out: int
    late: int
    dead_letters: int


class PlanChange(msgspec.Struct, frozen=True, kw_only=True):
    """How the last deploy changed the plan; all empty for the first plan of an app."""

    at: int
    is_first: bool
    added: list[str]
    removed: list[str]
    changed: list[str]


class AppDetail(msgspec.Struct, frozen=True, kw_only=True):
    """An app with its recent history."""

    summary: AppSummary
    lag: dict[str, int]
    dropped: dict[str, int]
    phases: Phases
    stages: list[StageStatus]
    batches: list[BatchTimes]
    minutes: list[HistoryPoint]
    deploy: PlanChange | None


class AppParams(msgspec.Struct, frozen=True, kw_only=True):
    app: Name


class BatchParams(msgspec.Struct, frozen=True, kw_only=True):
    app: Name
    limit: Annotated[int, Meta(ge=1, le=1000)] = 60
    after: Annotated[int, Meta(ge=0, le=2**62, description="Only batches after this one.")] = 0


class HistoryParams(msgspec.Struct, frozen=True, kw_only=True):
    app: Name
    minutes: Annotated[int, Meta(ge=5, le=MINUTES_KEPT, description="How far back.")] = _HOUR


def list_apps(site: Site, _: object = None) -> list[AppSummary]:
    """Return all apps that have run on the data directory."""
    return [summary_of(site, app) for app in site.directory.apps()]


def get_app(site: Site, params: AppParams) -> AppDetail:
    """Return one app."""
    journal = site.directory.journal(params.app)
    status = status_of(site.directory.path, params.app)
    lag, batches = lag_of(site.directory, journal), journal.history.batches(_TIMELINE_BATCHES)
    return AppDetail(
        summary=_summary(status, lag, batches[-_LATENCY_BATCHES:]),
        lag=lag,
        dropped=status.totals.dropped,
        phases=status.phases,
        stages=status.stages,
        batches=[_batch_times(report) for report in batches],
        minutes=history_of(journal, _HOUR),
        deploy=plan_change(journal),
    )


def get_history(site: Site, params: HistoryParams) -> list[HistoryPoint]:
    """Return an app over time, from the stored minutes of the last day."""
    return history_of(site.directory.journal(params.app), params.minutes)


def list_batches(site: Site, params: BatchParams) -> list[BatchTimes]:
    """Return the newest batches of an app, oldest first."""
    history = site.directory.journal(params.app).history
    return [_batch_times(report) for report in history.batches(params.limit, after=params.after)]


def summary_of(site: Site, app: str) -> AppSummary:
    """Return the summary of an app."""
    journal = site.directory.journal(app)
    lag = lag_of(site.directory, journal)
    return _summary(status_of(site.directory.path, app), lag, journal.history.batches(_LATENCY_BATCHES))


def plan_change(journal: Journal) -> PlanChange | None:
    """Return how the last deploy changed the plan."""
    deploy = journal.deployed()
    if deploy is None:
        return None
    now = _nodes(journal.catalog().get("plan"))
    before = _nodes(deploy.before)
    is_first = deploy.before is None
    return PlanChange(
        at=deploy.at,
        is_first=is_first,
        added=[] if is_first else [name for name in now if name not in before],
        removed=[name for name in before if name not in now],
        changed=[name for name in now if name in before and now[name] != before[name]],
    )


def _nodes(plan: dict[str, Any] | None) -> dict[str, Any]:
    return {} if plan is None else {node["name"]: node for node in plan.get("nodes", [])}


def _summary(status: AppStatus, lags: Mapping[str, int], batches: Sequence[BatchReport]) -> AppSummary:
    lag = sum(lags.values())
    state, why = _state(status, lag)
    return AppSummary(
        app=status.app,
        state=state,
        why=why,
        process=status.process,
        batch=status.batch,
        ended_at=status.ended_at,
        rate=status.rate,
        seconds=status.seconds,
        latency=_latency(batches),
        lag=lag,
        records_in=status.totals.records_in,
        records_out=status.totals.records_out,
        late=status.totals.late,
        dead_letters=status.totals.dead_letters,
        storage=status.storage,
    )


def _latency(batches: Sequence[BatchReport]) -> Latency | None:
    """Return the latency of batches, or None if timestamps are not the times of sending."""
    latencies = sorted(batch.latency for batch in batches if batch.latency is not None)
    if not latencies:
        return None
    return Latency(p50=latencies[len(latencies) // 2], p99=latencies[int(len(latencies) * 0.99)])


def _state(status: AppStatus, lag: int) -> tuple[State, str]:
    failure = status.failure
    if failure is not None:
        message = f"{failure.message}; {failure.hint}" if failure.hint else failure.message
        return "failed", f"retrying: {message}" if status.process is not None and failure.goes_on else message
    if status.process is None:
        if status.planned is not None:
            return "stopped", f"batch {status.planned} was interrupted; the next run starts with it"
        return "stopped", "the next run continues from the current position"
    if status.sign is not None and is_restore(status.sign.doing.what):
        return "catching up", status.sign.doing.what
    if lag == 0 and status.planned is None:
        return "waiting", "all records are processed; waiting for new records"
    if lag > max(_BEHIND_RECORDS, _BEHIND_SECONDS * status.rate):
        return "catching up", f"the lag of {lag:,} records is more than {_BEHIND_SECONDS} seconds of work"
    return "running", "processing records as they arrive"


def _batch_times(report: BatchReport) -> BatchTimes:
    return BatchTimes(
        number=report.plan.number,
        ended_at=report.ended_at,
        seconds=report.seconds,
        phases=report.phases,
        records_in=report.records_in,
        records_out=report.records_out,
        late=report.late,
        dead_letters=report.dead_letters,
    )


OPERATIONS = (
    Operation(method="GET", path="/api/apps", summary="List apps", handler=list_apps, result=list[AppSummary]),
    Operation(
        method="GET",
        path="/api/apps/{app}",
        summary="Describe an app and its recent history",
        handler=get_app,
        params=AppParams,
        result=AppDetail,
    ),
    Operation(
        method="GET",
        path="/api/apps/{app}/history",
        summary="Show an app over time: throughput, latency, lag, late records and size of state by minute",
        handler=get_history,
        params=HistoryParams,
        result=list[HistoryPoint],
    ),
    Operation(
        method="GET",
        path="/api/apps/{app}/batches",
        summary="List the newest batches of an app",
        handler=list_batches,
        params=BatchParams,
        result=list[BatchTimes],
    ),
)
