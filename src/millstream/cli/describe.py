"""``millstream describe``: the topology of an app."""

from __future__ import annotations

from typing import get_args

import click

from millstream.cli.command import TARGET, Command
from millstream.cli.settings import Settings, pass_settings
from millstream.plan.describe import Format


@click.command(
    cls=Command,
    examples=[
        "millstream describe word_count.py",
        "millstream describe shop.streams:orders --format mermaid",
    ],
)
@click.argument(TARGET)
@click.option(
    "--format", type=click.Choice(get_args(Format)), default="text", show_default=True, help="How to show it."
)
@pass_settings
def describe(settings: Settings, format: Format, target: str | None = None) -> None:
    """Show the topology of an app: its stages, what each reads and writes, and its tables.

    TARGET is a Python file or a module, with ":NAME" if there are several apps in it. Nothing is run, and no data
    directory is needed.
    """
    click.echo(settings.load(target).describe(format), nl=False)
