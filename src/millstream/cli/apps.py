"""``millstream apps``: list the apps that have run on a data directory."""

from __future__ import annotations

import click

from millstream.cli.command import CommandGroup
from millstream.cli.connection import require_data_dir
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.paths import app_names
from millstream.tables.opening import open_tables


@click.group(cls=CommandGroup)
def apps() -> None:
    """List the apps that have run on the data directory."""


@apps.command("list", examples=["millstream apps list", "millstream apps list --json --data-dir /srv/orders"])
@json_option
@pass_settings
def list_(settings: CommonOptions, as_json: bool) -> None:
    """List the apps that have run on the data directory, with their tables."""
    require_data_dir(settings)
    tables_of = {app: sorted(open_tables(settings.data_dir, app)) for app in app_names(settings.data_dir)}
    if as_json:
        show_json([{"app": app, "tables": tables} for app, tables in tables_of.items()])
    elif tables_of:
        show_table(["app", "tables"], [[app, ", ".join(tables)] for app, tables in tables_of.items()])
    else:
        show_message(f"no app has run on {str(settings.data_dir)!r} yet")
