"""``millstream rescale``: change the number of partitions of an app."""

from __future__ import annotations

import click

from millstream.admin.rescaling import rescale as rescale_app
from millstream.cli.command import TARGET, Command
from millstream.cli.output import json_option, show_json, show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.text import format_count


@click.command(
    cls=Command,
    examples=["millstream rescale word_count.py --partitions 8"],
)
@click.argument(TARGET)
@click.option("--partitions", type=click.IntRange(1), required=True, help="New number of partitions of its topics.")
@json_option
@pass_settings
def rescale(settings: CommonOptions, partitions: int, as_json: bool, target: str | None = None) -> None:
    """Increase the partitions of the topics that an app reads, and move its state to the new partitions of its keys.

    The app must be stopped and have caught up. New state is built beside the old state and compared with it row by row
    before it replaces it. Tables and windows with updates can be moved; an app with other stores is rejected.
    """
    app = settings.load(target)
    broker = app.broker
    try:
        stages = rescale_app(broker, app.data_dir, app.id, app.plan, partitions)
    finally:
        broker.close()
    if as_json:
        show_json(stages)
        return
    for stage in stages:
        rows = ", ".join(f"{format_count(count, 'row')} of {name}" for name, count in stage.rows.items()) or "no rows"
        click.echo(f"stage {stage.stage}: {stage.before} → {stage.now} partitions, {rows}, verified")
    show_message("done" if stages else "no state had to be moved")
