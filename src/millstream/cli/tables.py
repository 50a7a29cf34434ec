"""``millstream tables``: read the tables of an app, running or stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import click

from millstream.broker import Broker
from millstream.broker_urls import KAFKA, open_broker
from millstream.cli.command import CommandGroup
from millstream.cli.connection import require_data_dir
from millstream.cli.option_types import parse_time
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.errors import DefinitionError, MillstreamError, UnknownTableError
from millstream.foundation.paths import app_names
from millstream.foundation.text import format_value, json_line
from millstream.foundation.times import format_timestamp
from millstream.records import Windowed
from millstream.tables.opening import open_tables
from millstream.tables.rows import Row, TableReader, Version
from millstream.tables.typed_keys import find_rows, find_rows_as_of, find_versions

_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.1
app_option = click.option("--app", "app_id", metavar="APP", help="The app; optional if only one has run.")


@click.group(cls=CommandGroup)
def tables() -> None:
    """Read the tables of an app, even while it runs.

    Reads see the state as of the last completed batch and do not affect the app.
    """


@tables.command("list", examples=["millstream tables list", "millstream tables list --app word-count --rows --json"])
@click.option("--app", "app_id", metavar="APP", help="Only the tables of this app.")
@click.option("--rows", "count_rows", is_flag=True, help="Also count the rows, which reads all of them.")
@json_option
@pass_settings
def list_(settings: CommonOptions, app_id: str | None, count_rows: bool, as_json: bool) -> None:
    """List the tables of all apps, or of one."""
    require_data_dir(settings)
    bound_id = None if settings.app is None else settings.app.id
    apps = [selected] if (selected := app_id or bound_id) else app_names(settings.data_dir)
    rows: list[dict[str, Any]] = [
        {"app": app, "table": name, **({"rows": len(table)} if count_rows else {})}
        for app in apps
        for name, table in sorted(_tables(settings, app).items())
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        show_message("there are no tables yet")


@tables.command(
    examples=[
        "millstream tables get words kafka --app word-count --wait",
        "millstream tables get trips_per_minute 2 --since 2026-01-31T12:00 --json",
        "millstream tables get prices ACME --versions",
    ]
)
@click.argument("table")
@click.argument("key")
@app_option
@click.option("--since", type=parse_time, metavar="TIME", help="Windowed table: only windows that start then or later.")
@click.option("--as-of", type=parse_time, metavar="TIME", help="Table with history: the row that was valid then.")
@click.option("--versions", is_flag=True, help="Table with history: all versions, newest first.")
@click.option("--wait", is_flag=True, help="Wait for the row if there is none yet, for up to a minute.")
@json_option
@pass_settings
def get(
    settings: CommonOptions,
    table: str,
    key: str,
    app_id: str | None,
    since: int | None,
    as_of: int | None,
    versions: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Print the value of a key. KEY is tried as text first, then as JSON: 17, true, [1,2].

    For a windowed table, all stored windows of the key are printed, one per line, oldest first. A version is printed
    with the time from which it was valid.
    """
    require_data_dir(settings)

    def find() -> Sequence[Row]:
        reader = _tables(settings, settings.app_id(app_id))[table]
        if versions:
            return find_versions(reader, key)
        if as_of is not None:
            return find_rows_as_of(reader, key, as_of)
        return find_rows(reader, key, since=since or 0)

    rows = _wait_for(find, settings.data_dir) if wait else find()
    if not rows:
        raise MillstreamError(
            f"table {table!r} has no row with key {key!r}" + f" after {_WAIT_SECONDS:.0f} s" * wait,
            hint=f"see: millstream tables scan {table}; new records appear after the next batch",
        )
    for row in rows:
        click.echo(json_line(row) if as_json else _line(row))
    _show_age(_tables(settings, settings.app_id(app_id))[table])


def _wait_for(find: Callable[[], Sequence[Row]], data_dir: Path) -> Sequence[Row]:
    """Call ``find`` until it returns rows; an app that has not run yet, or a table it has not written, may appear."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        is_over = time.monotonic() >= deadline
        try:
            rows = find()
        except (DefinitionError, UnknownTableError) as error:
            is_final = isinstance(error, DefinitionError) and bool(app_names(data_dir))  # waiting changes nothing
            if is_over or is_final:
                raise
            rows = ()
        if rows or is_over:
            return rows
        time.sleep(_POLL_SECONDS)


@tables.command(
    examples=[
        "millstream tables scan words --app word-count --limit 10",
        "millstream tables scan words --prefix ka --json",
    ]
)
@click.argument("table")
@click.option("--prefix", help="Only text keys with this prefix.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of rows.")
@app_option
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per row.")
@pass_settings
def scan(
    settings: CommonOptions, table: str, prefix: str | None, limit: int | None, app_id: str | None, as_json: bool
) -> None:
    """Print keys and values, separated by a tab, in key order within each partition."""
    require_data_dir(settings)
    reader = _tables(settings, settings.app_id(app_id))[table]
    for row in islice(reader.scan(prefix=prefix), limit):
        click.echo(json_line(row) if as_json else f"{format_value(row.key)}\t{format_value(row.value)}")
    _show_age(reader)


def _line(row: Row) -> str:
    if isinstance(row.key, Windowed):
        return f"{format_value(row.key)}\t{format_value(row.value)}"
    value = format_value(row.value)
    return f"{format_timestamp(row.timestamp)}\t{value}" if isinstance(row, Version) else value


def _tables(settings: CommonOptions, app: str) -> Mapping[str, TableReader]:
    """Open the tables of an app; rows of the bound app have its own types."""
    plan = settings.app.plan if settings.app is not None and settings.app.id == app else None
    return open_tables(settings.data_dir, app, plan, _remote_broker(settings.broker_url, settings.data_dir))


@cache
def _remote_broker(url: str | None, data_dir: Path) -> Broker | None:
    """Return the broker of an app that may run on another host; it stays open until the command ends."""
    return open_broker(url, data_dir) if url is not None and url.startswith(KAFKA) else None


def _show_age(reader: TableReader) -> None:
    """Print how old rows may be that were not read from the state itself."""
    if reader.copied_at is not None:
        show_message(f"copied from the changelogs at {format_timestamp(reader.copied_at)}")
