"""``millstream savepoints``: copies of an app's state, made while it runs, and how to go back to one."""

from __future__ import annotations

from pathlib import Path

import click

from millstream.admin.savepoints import create_savepoint, delete_savepoint, restore_savepoint, savepoints_of
from millstream.cli.command import Group
from millstream.cli.connection import check_there
from millstream.cli.output import json_option, say, show_json, show_table
from millstream.cli.settings import Settings, pass_settings
from millstream.foundation.times import format_timestamp
from millstream.views.status import check_has_run

app_option = click.option("--app", "app_id", metavar="APP", help="The app; not needed if only one has run.")
place_option = click.option(
    "--in", "place", metavar="DIR", help="Where savepoints lie.  [default: savepoints in the data directory]"
)


@click.group(cls=Group)
def savepoints() -> None:
    """Copy the state of an app while it runs, and go back to such a copy.

    The copy is of one moment between two batches; the app waits for some milliseconds. Topics are not part of it.
    """


@savepoints.command(
    examples=[
        "millstream savepoints create before-upgrade",
        "millstream savepoints create daily --app orders --in /backup",
    ]
)
@click.argument("name")
@app_option
@place_option
@pass_settings
def create(settings: Settings, name: str, app_id: str | None, place: str | None) -> None:
    """Make a savepoint of an app, whether it runs or not."""
    app = _app(settings, app_id)
    made = create_savepoint(settings.data_dir, app, name, _place(settings, place))
    say(f"made savepoint {made.name} of {made.app} after batch {made.batch}, {made.bytes:,} bytes")


@savepoints.command("list", examples=["millstream savepoints list", "millstream savepoints list --app orders --json"])
@app_option
@place_option
@json_option
@pass_settings
def list_(settings: Settings, app_id: str | None, place: str | None, as_json: bool) -> None:
    """List the savepoints of an app, oldest first."""
    check_there(settings)
    found = savepoints_of(_place(settings, place), settings.app_id(app_id))
    if as_json:
        show_json(found)
    elif found:
        rows = [[point.name, format_timestamp(point.at), point.batch, point.bytes] for point in found]
        show_table(["name", "made", "batch", "bytes"], rows)
    else:
        say("there are no savepoints")


@savepoints.command(
    examples=["millstream savepoints restore before-upgrade", "millstream savepoints restore daily --yes"]
)
@click.argument("name")
@app_option
@place_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_settings
def restore(settings: Settings, name: str, app_id: str | None, place: str | None, yes: bool) -> None:
    """Put the state of an app that does not run back as it was in a savepoint.

    The app goes on from there: it reads again what came after the savepoint, and writes the results once more.
    """
    check_there(settings)
    app = settings.app_id(app_id)
    if not yes and not click.confirm(f"Replace the state of {app} by savepoint {name}?", err=True):
        say("nothing was changed")
        return
    restored = restore_savepoint(settings.data_dir, app, name, _place(settings, place))
    say(f"restored {app} as of batch {restored.batch}, {format_timestamp(restored.at)}")


@savepoints.command(examples=["millstream savepoints delete daily", "millstream savepoints delete daily --app orders"])
@click.argument("name")
@app_option
@place_option
@pass_settings
def delete(settings: Settings, name: str, app_id: str | None, place: str | None) -> None:
    """Delete a savepoint."""
    check_there(settings)
    delete_savepoint(_place(settings, place), settings.app_id(app_id), name)
    say(f"deleted savepoint {name}")


def _app(settings: Settings, app_id: str | None) -> str:
    check_there(settings)
    app = settings.app_id(app_id)
    check_has_run(settings.data_dir, app)
    return app


def _place(settings: Settings, place: str | None) -> Path:
    return settings.data_dir / "savepoints" if place is None else Path(place).absolute()
