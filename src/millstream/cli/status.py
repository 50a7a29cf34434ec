"""``millstream status``: how an app is doing, while it runs or after."""

from __future__ import annotations

import time

import click
import msgspec

from millstream.cli.command import Command
from millstream.cli.connection import check_there
from millstream.cli.output import json_option, show_json, show_table
from millstream.cli.settings import Settings, pass_settings
from millstream.foundation.text import format_count, printable
from millstream.foundation.times import format_timestamp
from millstream.views.status import AppStatus, status_of

_SILENT_SECONDS = 10.0


@click.command(
    cls=Command, examples=["millstream status", "millstream status word-count", "millstream status word-count --json"]
)
@click.argument("app_id", metavar="[APP]", required=False)
@json_option
@pass_settings
def status(settings: Settings, app_id: str | None, as_json: bool) -> None:
    """Show how an app is doing: whether it runs, its batches, lag, stages, stores and what was dropped.

    What is shown is as of the last batch that is done. It is there while the app runs and after it has died; the app
    is not disturbed. APP is not needed if only one has run.
    """
    check_there(settings)
    found = status_of(settings.data_dir, settings.app_id(app_id))
    if as_json:
        show_json(facts_of(found))
        return
    for name, fact in _facts(found):
        click.echo(f"{name:<14}{printable(fact)}")
    if found.stages:
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
                for stage in found.stages
            ],
        )
    stores = [(stage.name, *one) for stage in found.stages for one in stage.stores.items()]
    if stores:
        click.echo("")
        show_table(["store", "stage", "rows", "bytes"], [[name, at, one.rows, one.bytes] for at, name, one in stores])


def facts_of(status: AppStatus) -> dict[str, object]:
    """Return a status as data for programs, with what is derived of it."""
    stages = [
        {
            **msgspec.to_builtins(stage, str_keys=True),
            "stream_time": stage.stream_time,
            "held_back_by": stage.held_back_by,
        }
        for stage in status.stages
    ]
    return {**msgspec.to_builtins(status, str_keys=True), "stages": stages}


def _facts(status: AppStatus) -> list[tuple[str, str]]:
    totals = status.totals
    phases = msgspec.structs.asdict(status.phases)
    told = [
        ("app", f"{status.app}, {_doing(status)}"),
        ("failure", _failure(status)),
        ("batches", _batches(status)),
        ("records", f"{totals.records_in:,} in, {totals.records_out:,} out, {status.rate:,.0f}/s now"),
        ("lag", listed(status.lag) or "none"),
        ("time", ", ".join(f"{name} {seconds * 1000:.1f} ms" for name, seconds in phases.items())),
        ("dropped", listed(totals.dropped)),
        ("dead letters", f"{totals.dead_letters:,} (see: millstream dlq list)" if totals.dead_letters else ""),
    ]
    return [(name, fact) for name, fact in told if fact]


def _doing(status: AppStatus) -> str:
    if status.process is not None:
        sign = status.sign
        if sign is None or sign.process != status.process:
            return f"starting in process {status.process}"
        silent = time.time() - sign.at / 1000
        told = f"running in process {status.process}: {sign.doing.what} for {sign.doing.seconds:,.0f} s"
        return told if silent < _SILENT_SECONDS else f"{told}; it has shown no sign of life for {silent:,.0f} s"
    return "not running" + (f"; batch {status.planned} comes first at the next start" if status.planned else "")


def _failure(status: AppStatus) -> str:
    note = status.failure
    if note is None:
        return ""
    ago = max(0.0, time.time() - note.at / 1000)
    hint = f"; {note.hint}" if note.hint else ""
    return f"{ago:,.0f} s ago, batch {note.batch}, attempt {note.attempts} ({note.kind}): {note.message}{hint}"


def _batches(status: AppStatus) -> str:
    if status.ended_at is None:
        return "none yet"
    ago = max(0.0, time.time() - status.ended_at / 1000)
    last = f"the last, number {status.batch}, done {ago:,.0f} s ago"
    return f"{format_count(status.totals.batches, 'batch')}; {last}; {status.seconds * 1000:.1f} ms each"


def listed(numbers: dict[str, int]) -> str:
    """Return counts by name in one line."""
    return ", ".join(f"{name} {number:,}" for name, number in sorted(numbers.items()))
