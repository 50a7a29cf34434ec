"""``millstream sql``: what files of SQL statements define."""

from __future__ import annotations

import click

from millstream.cli.command import Group
from millstream.cli.describe import changes_since_last_run
from millstream.cli.output import show_message
from millstream.cli.settings import Settings, pass_settings
from millstream.foundation.text import printable


@click.group(cls=Group)
def sql() -> None:
    """Show what a file of SQL statements defines. `millstream run FILE.sql` runs it."""


@sql.command("plan", examples=["millstream sql plan shop.sql", "millstream sql plan shop.sql --data-dir /srv/shop"])
@click.argument("file", type=click.Path(dir_okay=False))
@pass_settings
def plan(settings: Settings, file: str) -> None:
    """Show the topology of a file, and how a start would change the existing state.

    Nothing is run and nothing is written. Each stage is reused, new, dropped or incompatible.
    """
    app = settings.load(file)
    click.echo(app.describe(), nl=False)
    changes = changes_since_last_run(app)
    for change in changes:
        click.echo(printable(str(change)))
    if not changes:
        show_message(f"{app.id} has not run on {str(app.data_dir)!r} yet: everything is new")
