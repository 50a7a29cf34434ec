"""``millstream status``: the status of an app, running or stopped."""

from __future__ import annotations

import time

import click
import msgspec

from millstream.cli.command import Command
from millstream.cli.connection import require_data_dir
from millstream.cli.output import json_option, show_json, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.text import format_count, printable
from millstream.foundation.times import format_timestamp
from millstream.views.status import AppStatus, status_of
from millstream.views.tasks import RECENT_BATCHES, TaskStatus, recent_tasks

_SILENT_SECONDS = 10.0


@click.command(
    cls=Command,
    examples=[
        "millstream status",
        "millstream status word-count --tasks",
        "millstream status word-count --json",
    ],
)
@click.argument("app_id", metavar="[APP]", required=False)
@click.option("--tasks", "with_tasks", is_flag=True, help="Show the host, the records and the time of each task too.")
@json_option
@pass_settings
def status(settings: CommonOptions, app_id: str | None, with_tasks: bool, as_json: bool) -> None:
    """Show the status of an app: whether it runs, its batches, lag, stages, stores and dropped records.

    The status is as of the last completed batch. It can be read while the app runs and after it has stopped, and does
    not affect the app. APP is optional if only one has run.
    """
    require_data_dir(settings)
    name = settings.app_id(app_id)
    app_status = status_of(settings.data_dir, name)
    tasks = recent_tasks(settings.data_dir, name) if with_tasks else []
    if as_json:
        show_json({**status_fields(app_status), **({"tasks": tasks} if with_tasks else {})})
        return
    for label, text in _lines(app_status):
        click.echo(f"{label:<14}{printable(text)}")
    if app_status.stages:
        click.echo("")
        show_table(
            ["stage", "tasks", "in", "out", "late", "dead", "stream time", "held back by"],
            [
                [
                    stage.name,
                    stage.partitions,
                    stage.totals.records_in,
                    stage.totals.records_out,
                    stage.totals.late,
                    stage.totals.dead_letters,
                    None if stage.stream_time is None else format_timestamp(stage.stream_time),
                    None if stage.held_back_by is None else f"partition {stage.held_back_by}",
                ]
                for stage in app_status.stages
            ],
        )
    stores = [
        [store_name, stage.name, store.rows, store.bytes]
        for stage in app_status.stages
        for store_name, store in stage.stores.items()
    ]
    if stores:
        click.echo("")
        show_table(["store", "stage", "rows", "bytes"], stores)
    if tasks:
        click.echo(f"\ntasks in the last {RECENT_BATCHES} batches:")
        header = ["task", "host", "batches", "records", "seconds", "part of the time"]
        show_table(header, [_task_cells(task, tasks) for task in tasks])


def _task_cells(task: TaskStatus, tasks: list[TaskStatus]) -> list[object]:
    """Return a task with its part of the time of its stage: with skew, one task has most of it."""
    total = sum(other.seconds for other in tasks if other.stage == task.stage)
    part = f"{task.seconds / total if total else 0.0:.0%} of {task.stage}"
    name = f"{task.stage}/{task.partition}"
    return [name, task.host or None, task.batches, task.records_in, f"{task.seconds:.3f}", part]


def status_fields(status: AppStatus) -> dict[str, object]:
    """Return a status for JSON, with its derived properties."""
    stages = [
        {
            **msgspec.to_builtins(stage, str_keys=True),
            "stream_time": stage.stream_time,
            "held_back_by": stage.held_back_by,
        }
        for stage in status.stages
    ]
    return {**msgspec.to_builtins(status, str_keys=True), "stages": stages}


def _lines(status: AppStatus) -> list[tuple[str, str]]:
    totals = status.totals
    phases = msgspec.structs.asdict(status.phases)
    lines = [
        ("app", f"{status.app}, {_activity(status)}"),
        ("failure", _failure(status)),
        ("connectors", "; ".join(map(str, status.connectors))),
        ("fill", "" if status.fill is None else str(status.fill)),
        ("batches", _batches(status)),
        ("records", f"{totals.records_in:,} in, {totals.records_out:,} out, {status.rate:,.0f}/s now"),
        ("lag", _counts(status.lag) or "none"),
        ("time", ", ".join(f"{name} {seconds * 1000:.1f} ms" for name, seconds in phases.items())),
        ("state", status.storage),
        ("dropped", _counts(totals.dropped)),
        ("dead letters", f"{totals.dead_letters:,} (see: millstream dlq list)" if totals.dead_letters else ""),
    ]
    return [(name, text) for name, text in lines if text]


def _activity(status: AppStatus) -> str:
    if status.process is not None:
        sign = status.sign
        if sign is None or sign.process != status.process:
            return f"starting in process {status.process}"
        silent = time.time() - sign.at / 1000
        activity = f"running in process {status.process}: {sign.doing.what} for {sign.doing.seconds:,.0f} s"
        return activity if silent < _SILENT_SECONDS else f"{activity}; no heartbeat for {silent:,.0f} s"
    return "not running" + (f"; the next run starts with batch {status.planned}" if status.planned else "")


def _failure(status: AppStatus) -> str:
    failure = status.failure
    if failure is None:
        return ""
    ago = max(0.0, time.time() - failure.at / 1000)
    hint = f"; {failure.hint}" if failure.hint else ""
    attempt = f"batch {failure.batch}, attempt {failure.attempts} ({failure.kind})"
    return f"{ago:,.0f} s ago, {attempt}: {failure.message}{hint}"


def _batches(status: AppStatus) -> str:
    if status.ended_at is None:
        return "none yet"
    ago = max(0.0, time.time() - status.ended_at / 1000)
    last = f"last batch {status.batch}, completed {ago:,.0f} s ago"
    return f"{format_count(status.totals.batches, 'batch')}; {last}; {status.seconds * 1000:.1f} ms each"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
