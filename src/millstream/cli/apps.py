"""``millstream apps``: which apps have run here."""

from __future__ import annotations

import click

from millstream.cli.command import Group
from millstream.cli.connection import check_there
from millstream.cli.output import json_option, say, show_json, show_table
from millstream.cli.settings import Settings, pass_settings
from millstream.foundation.paths import app_names
from millstream.tables.opening import open_tables


@click.group(cls=Group)
def apps() -> None:
    """See which apps have run on the data directory."""


@apps.command("list", examples=["millstream apps list", "millstream apps list --json --data-dir /srv/orders"])
@json_option
@pass_settings
def list_(settings: Settings, as_json: bool) -> None:
    """List the apps that have run on the data directory, with their tables."""
    check_there(settings)
    found = {name: sorted(open_tables(settings.data_dir, name)) for name in app_names(settings.data_dir)}
    if as_json:
        show_json([{"app": name, "tables": tables} for name, tables in found.items()])
    elif found:
        show_table(["app", "tables"], [[name, ", ".join(tables)] for name, tables in found.items()])
    else:
        say(f"no app has run on {str(settings.data_dir)!r} yet")
