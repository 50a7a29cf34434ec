"""``millstream reset``: delete the state of an app, so that it starts over."""

from __future__ import annotations

import click

from millstream.admin.reset import execute_reset, planned_reset
from millstream.cli.command import Command
from millstream.cli.connection import connected
from millstream.cli.output import json_option, show_json, show_message
from millstream.cli.settings import CommonOptions, pass_settings
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
    metavar="OFFSET",
    help="Where to read from afterwards: earliest, latest, an offset, a time, or a duration ago.",
)
@click.option("--execute", is_flag=True, help="Make the change instead of showing it.")
@json_option
@pass_settings
def reset(settings: CommonOptions, app_id: str | None, start: str, execute: bool, as_json: bool) -> None:
    """Delete the state of a stopped app, so that it starts over. Without --execute the change is only shown.

    Changelogs are deleted, other topics stay unchanged: earlier results remain, and are written again as the app reads
    its input again. An earlier savepoint can be restored.
    """
    with connected(settings) as broker:
        plan = planned_reset(broker, settings.data_dir, settings.app_id(app_id), start)
        if execute:
            execute_reset(broker, settings.data_dir, plan)
    if as_json:
        show_json({"executed": execute, "reset": plan})
    else:
        stages = ", ".join(plan.stages) or "no stage"
        click.echo(f"app      {plan.app}, after {format_count(plan.batches, 'batch')}")
        click.echo(f"state    {plan.bytes:,} bytes of {stages}")
        if plan.changelogs:
            click.echo(f"topics   {', '.join(plan.changelogs)}")
        click.echo(f"reads    {format_count(plan.records, 'record')} again")
        for partition, offset in plan.positions.items():
            click.echo(f"         {partition} from {offset}")
    show_message("done" if execute else "nothing was changed; add --execute to make the change")
