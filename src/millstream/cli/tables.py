"""``millstream tables``: read the tables of an app, while it runs or after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import click

from millstream.cli.command import Group
from millstream.cli.connection import check_there
from millstream.cli.moments import as_moment
from millstream.cli.output import json_option, say, show_json, show_table
from millstream.cli.settings import Settings, pass_settings
from millstream.errors import MillstreamError
from millstream.foundation.paths import app_names
from millstream.foundation.text import format_value, json_line
from millstream.foundation.times import format_timestamp
from millstream.records import Windowed
from millstream.tables.opening import open_tables
from millstream.tables.rows import Row, TableReader
from millstream.tables.typed_keys import find_rows, find_rows_as_of, find_versions
from millstream.tables.versions import Version

app_option = click.option("--app", "app_id", metavar="APP", help="The app; not needed if only one has run.")


@click.group(cls=Group)
def tables() -> None:
    """Read the tables of an app, also while it runs.

    What is read is the state as of the last batch that is done; the app is not disturbed.
    """


@tables.command("list", examples=["millstream tables list", "millstream tables list --app word-count --rows --json"])
@click.option("--app", "app_id", metavar="APP", help="Only the tables of this app.")
@click.option("--rows", "count_rows", is_flag=True, help="Count the rows too, which reads all of them.")
@json_option
@pass_settings
def list_(settings: Settings, app_id: str | None, count_rows: bool, as_json: bool) -> None:
    """List the tables of all apps, or of one."""
    check_there(settings)
    bound = None if settings.app is None else settings.app.id
    wanted = [chosen] if (chosen := app_id or bound) else app_names(settings.data_dir)
    found: list[dict[str, Any]] = [
        {"app": app, "table": name, **({"rows": len(table)} if count_rows else {})}
        for app in wanted
        for name, table in sorted(_tables(settings, app).items())
    ]
    if as_json:
        show_json(found)
    elif found:
        show_table(list(found[0]), [list(one.values()) for one in found])
    else:
        say("there are no tables yet")


@tables.command(
    examples=[
        "millstream tables get words kafka --app word-count",
        "millstream tables get trips_per_minute 2 --since 2026-01-31T12:00 --json",
        "millstream tables get prices ACME --versions",
    ]
)
@click.argument("table")
@click.argument("key")
@app_option
@click.option("--since", type=as_moment, metavar="TIME", help="Of windows: those that begin then or later.")
@click.option("--as-of", type=as_moment, metavar="TIME", help="Of a table with history: the row that was valid then.")
@click.option("--versions", is_flag=True, help="Of a table with history: all versions, the newest first.")
@json_option
@pass_settings
def get(
    settings: Settings,
    table: str,
    key: str,
    app_id: str | None,
    since: int | None,
    as_of: int | None,
    versions: bool,
    as_json: bool,
) -> None:
    """Print the value of a key, which is looked for as text first, then as what it means in JSON: 17, true, [1,2].

    Of a table of windows it prints all windows of the key that are kept, a line each, oldest first; of versions also
    from when on each was valid.
    """
    check_there(settings)
    reader = _tables(settings, settings.app_id(app_id))[table]
    if versions:
        rows: Sequence[Row] = find_versions(reader, key)
    elif as_of is not None:
        rows = find_rows_as_of(reader, key, as_of)
    else:
        rows = find_rows(reader, key, since=since or 0)
    if not rows:
        raise MillstreamError(
            f"table {table!r} has no row of key {key!r}",
            hint=f"see: millstream tables scan {table}; what was written just now comes with the next batch",
        )
    for row in rows:
        click.echo(json_line(row) if as_json else _line(row))


@tables.command(
    examples=[
        "millstream tables scan words --app word-count --limit 10",
        "millstream tables scan words --prefix ka --json",
    ]
)
@click.argument("table")
@click.option("--prefix", help="Only text keys that begin with this.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many rows.")
@app_option
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per row, for programs.")
@pass_settings
def scan(
    settings: Settings, table: str, prefix: str | None, limit: int | None, app_id: str | None, as_json: bool
) -> None:
    """Print keys and values, with a tab between them, in the order of keys within each partition."""
    check_there(settings)
    rows = _tables(settings, settings.app_id(app_id))[table].scan(prefix=prefix)
    for row in islice(rows, limit):
        click.echo(json_line(row) if as_json else f"{format_value(row.key)}\t{format_value(row.value)}")


def _line(row: Row) -> str:
    if isinstance(row.key, Windowed):
        return f"{format_value(row.key)}\t{format_value(row.value)}"
    value = format_value(row.value)
    return f"{format_timestamp(row.timestamp)}\t{value}" if isinstance(row, Version) else value


def _tables(settings: Settings, app: str) -> Mapping[str, TableReader]:
    """Open the tables of an app; those of the bound one come back as its types."""
    plan = settings.app.plan if settings.app is not None and settings.app.id == app else None
    return open_tables(settings.data_dir, app, plan)
