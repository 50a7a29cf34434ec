"""``millstream rescale``: give an app another number of partitions."""

from __future__ import annotations

import click

from millstream.admin.rescaling import rescale as rescale_app
from millstream.cli.command import TARGET, Command
from millstream.cli.output import json_option, say, show_json
from millstream.cli.settings import Settings, pass_settings
from millstream.foundation.text import format_count


@click.command(
    cls=Command,
    examples=["millstream rescale word_count.py --partitions 8"],
)
@click.argument(TARGET)
@click.option("--partitions", type=click.IntRange(1), required=True, help="How many partitions its topics get.")
@json_option
@pass_settings
def rescale(settings: Settings, partitions: int, as_json: bool, target: str | None = None) -> None:
    """Give the topics that an app reads more partitions, and move its state to where its keys belong then.

    The app must be stopped and have caught up. New state is built beside the old one and compared with it row by row
    before it takes its place. Tables and windows with updates can be moved; an app with other stores is refused.
    """
    app = settings.load(target)
    broker = app.broker
    try:
        done = rescale_app(broker, app.data_dir, app.id, app.plan, partitions)
    finally:
        broker.close()
    if as_json:
        show_json(done)
        return
    for stage in done:
        rows = ", ".join(f"{format_count(count, 'row')} of {name}" for name, count in stage.rows.items()) or "no rows"
        click.echo(f"stage {stage.stage}: {stage.before} → {stage.now} partitions, {rows}, verified")
    say("done" if done else "nothing had to be moved")
