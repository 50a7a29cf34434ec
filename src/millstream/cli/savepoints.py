"""``millstream savepoints``: copy the state of an app while it runs, and restore it."""

from __future__ import annotations

from pathlib import Path

import click

from millstream.admin.savepoints import create_savepoint, delete_savepoint, restore_savepoint, savepoints_of
from millstream.cli.command import CommandGroup
from millstream.cli.connection import require_data_dir
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.times import format_timestamp
from millstream.views.status import check_has_run

app_option = click.option("--app", "app_id", metavar="APP", help="The app; optional if only one has run.")
directory_option = click.option(
    "--in", "directory", metavar="DIR", help="Directory of savepoints.  [default: savepoints in the data directory]"
)


@click.group(cls=CommandGroup)
def savepoints() -> None:
    """Copy the state of an app while it runs, and restore it.

    A savepoint is the state between two batches; the app pauses for a few milliseconds. Topics are not part of it.
    """


@savepoints.command(
    examples=[
        "millstream savepoints create before-upgrade",
        "millstream savepoints create daily --app orders --in /backup",
    ]
)
@click.argument("name")
@app_option
@directory_option
@pass_settings
def create(settings: CommonOptions, name: str, app_id: str | None, directory: str | None) -> None:
    """Create a savepoint of an app, whether it runs or not."""
    app = _app(settings, app_id)
    savepoint = create_savepoint(settings.data_dir, app, name, _directory(settings, directory))
    after = f"after batch {savepoint.batch}, {savepoint.bytes:,} bytes"
    show_message(f"created savepoint {savepoint.name} of {savepoint.app} {after}")


@savepoints.command("list", examples=["millstream savepoints list", "millstream savepoints list --app orders --json"])
@app_option
@directory_option
@json_option
@pass_settings
def list_(settings: CommonOptions, app_id: str | None, directory: str | None, as_json: bool) -> None:
    """List the savepoints of an app, oldest first."""
    require_data_dir(settings)
    points = savepoints_of(_directory(settings, directory), settings.app_id(app_id))
    if as_json:
        show_json(points)
    elif points:
        rows = [[point.name, format_timestamp(point.at), point.batch, point.bytes] for point in points]
        show_table(["name", "created", "batch", "bytes"], rows)
    else:
        show_message("there are no savepoints")


@savepoints.command(
    examples=["millstream savepoints restore before-upgrade", "millstream savepoints restore daily --yes"]
)
@click.argument("name")
@app_option
@directory_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_settings
def restore(settings: CommonOptions, name: str, app_id: str | None, directory: str | None, yes: bool) -> None:
    """Restore the state of a stopped app from a savepoint.

    The app continues from there: it reads the records after the savepoint again, and writes their results again.
    """
    require_data_dir(settings)
    app = settings.app_id(app_id)
    if not yes and not click.confirm(f"Replace the state of {app} with savepoint {name}?", err=True):
        show_message("nothing was changed")
        return
    restored = restore_savepoint(settings.data_dir, app, name, _directory(settings, directory))
    show_message(f"restored {app} as of batch {restored.batch}, {format_timestamp(restored.at)}")


@savepoints.command(examples=["millstream savepoints delete daily", "millstream savepoints delete daily --app orders"])
@click.argument("name")
@app_option
@directory_option
@pass_settings
def delete(settings: CommonOptions, name: str, app_id: str | None, directory: str | None) -> None:
    """Delete a savepoint."""
    require_data_dir(settings)
    delete_savepoint(_directory(settings, directory), settings.app_id(app_id), name)
    show_message(f"deleted savepoint {name}")


def _app(settings: CommonOptions, app_id: str | None) -> str:
    require_data_dir(settings)
    app = settings.app_id(app_id)
    check_has_run(settings.data_dir, app)
    return app


def _directory(settings: CommonOptions, directory: str | None) -> Path:
    return settings.data_dir / "savepoints" if directory is None else Path(directory).absolute()
