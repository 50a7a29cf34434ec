"""``millstream reset``: let an app begin anew."""

from __future__ import annotations

import click

from millstream.admin.reset import execute_reset, planned_reset
from millstream.cli.command import Command
from millstream.cli.connection import connected
from millstream.cli.output import json_option, say, show_json
from millstream.cli.settings import Settings, pass_settings
from millstream.foundation.text import format_count


@click.command(
    cls=Command,
    examples=[
        "millstream reset word-count",
        "millstream reset word-count --execute",
        'millstream reset word-count --from "1 d" --execute',
    ],
)
@click.argument("app_id", metavar="[APP]", required=False)
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help="Where to read from then: earliest, latest, an offset, a time, or a duration ago.",
)
@click.option("--execute", is_flag=True, help="Do it, rather than show what would be done.")
@json_option
@pass_settings
def reset(settings: Settings, app_id: str | None, start: str, execute: bool, as_json: bool) -> None:
    """Take away the state of an app that does not run, so that it begins anew. Without --execute this only shows it.

    Its topics stay as they are: what it has written is there, and is written once more as it reads again. A savepoint
    made before can be restored.
    """
    with connected(settings) as broker:
        found = planned_reset(broker, settings.data_dir, settings.app_id(app_id), start)
        if execute:
            execute_reset(broker, settings.data_dir, found)
    if as_json:
        show_json({"executed": execute, "reset": found})
    else:
        stages = ", ".join(found.stages) or "no stage"
        click.echo(f"app      {found.app}, after {format_count(found.batches, 'batch')}")
        click.echo(f"state    {found.bytes:,} bytes of {stages}")
        click.echo(f"reads    {format_count(found.records, 'record')} again")
        for place, offset in found.positions.items():
            click.echo(f"         {place} from {offset}")
    say("done" if execute else "nothing was changed; add --execute to do it")
