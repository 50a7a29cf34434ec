"""``millstream connect``: run sources and sinks from a file, and see and steer those that run."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import click
import msgspec

from millstream.batch.app_spec import AppSettings
from millstream.batch.connector_status import connector_apps, connector_statuses, current_state
from millstream.cli.command import CommandGroup
from millstream.cli.connection import connected
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.config import Config
from millstream.connect.connect_file import ConnectFile, read_connect_file
from millstream.connect.control import pause as pause_connector
from millstream.connect.control import request_snapshot
from millstream.connect.control import restart as restart_connector
from millstream.connect.kinds import KINDS, settings_of
from millstream.connect.positions import connector_status, positions, set_position
from millstream.connect.worker import check_connectors, run_connect_file
from millstream.errors import DefinitionError, MillstreamError
from millstream.foundation.text import format_count

file_argument = click.argument("file", type=click.Path(path_type=Path))
name_argument = click.argument("name", metavar="NAME")
app_option = click.option(
    "--app", "app_id", metavar="APP", help="The app, or the name of the connect file; needed if several have this NAME."
)


@click.group(cls=CommandGroup)
def connect() -> None:
    """Read from other systems into topics, and write topics to other systems, without an app.

    `run` and `check` take a TOML file with sources and sinks; `kinds` lists what it can contain. The other commands
    show and steer all sources and sinks of the data directory by NAME, also those of apps.
    """


@connect.command(
    "run", examples=["millstream connect run shop.toml", "millstream connect run shop.toml --until caught-up"]
)
@file_argument
@click.option(
    "--until",
    type=click.Choice(["stopped", "caught-up"]),
    default="stopped",
    show_default=True,
    help="When to stop: on a signal, or when everything is read and written.",
)
@pass_settings
def run(settings: CommonOptions, file: Path, until: Any) -> None:
    """Run the sources and sinks of a file until Ctrl-C, each in a thread.

    A source or sink whose system is down tries again; one that has failed waits for: millstream connect restart NAME.
    """
    content = read_connect_file(file)
    stopping = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    count = format_count(len(content.sources) + len(content.sinks), "connector")
    try:
        run_connect_file(
            content,
            content.settings(
                _data_dir(settings, content), settings.given_broker or content.broker or settings.broker_url
            ),
            until,
            stopping,
            lambda: show_message(f"{content.name}: {count} running"),
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@connect.command("check", examples=["millstream connect check shop.toml"])
@file_argument
@click.pass_context
def check(ctx: click.Context, file: Path) -> None:
    """Check a file, connect to its systems without changing anything, and say what is missing.

    Connections, rights and the shape of tables are checked. A class of your own without check() is only named.
    """
    problems = check_connectors(read_connect_file(file))
    for name, missing in problems.items():
        text = "valid, but not checked: its class has no check()" if missing is None else "; ".join(missing)
        click.echo(f"{name}: {text or 'ok'}")
    if any(problems.values()):
        ctx.exit(1)


@connect.command("status", examples=["millstream connect status", "millstream connect status --app shop --json"])
@click.option("--app", "app_id", metavar="APP", help="Only those of this app, or of the connect file of this name.")
@json_option
@pass_settings
def status(settings: CommonOptions, app_id: str | None, as_json: bool) -> None:
    """Show all sources and sinks: state, guarantee, what waits, failures."""
    apps = connector_apps(settings.data_dir) if app_id is None else [app_id]
    listed = [(app, item) for app in apps for item in connector_statuses(settings.data_dir, app)]
    if as_json:
        show_json([{"app": app, **msgspec.to_builtins(item)} for app, item in listed])
        return
    header = ["app", "name", "direction", "system", "guarantee", "state", "batch", "waiting", "records", "rejected"]
    show_table(
        header,
        [
            [
                app,
                *(getattr(item, field) for field in header[1:5]),
                current_state(item),
                item.batch,
                item.waiting,
                item.records,
                item.rejected,
            ]
            for app, item in listed
        ],
    )
    for app, item in listed:
        if item.failure is not None:
            click.echo(f"{app} {item.name}: attempt {item.failure.attempts} failed: {item.failure.message}")


@connect.command("pause", examples=["millstream connect pause search"])
@name_argument
@app_option
@pass_settings
def pause(settings: CommonOptions, name: str, app_id: str | None) -> None:
    """Pause a source or sink; it stays paused when it is started again."""
    app = _app_of(settings, name, app_id)
    pause_connector(settings.data_dir, app, name)
    show_message(f"{name} pauses after its current batch")


@connect.command("resume", examples=["millstream connect resume search"])
@name_argument
@app_option
@pass_settings
def resume(settings: CommonOptions, name: str, app_id: str | None) -> None:
    """Resume a source or sink that is paused."""
    app = _app_of(settings, name, app_id)
    pause_connector(settings.data_dir, app, name, paused=False)
    show_message(f"{name} resumes")


@connect.command("restart", examples=["millstream connect restart search"])
@name_argument
@app_option
@pass_settings
def restart(settings: CommonOptions, name: str, app_id: str | None) -> None:
    """Close the connection of a source or sink and continue with a new one, also if it has failed."""
    app = _app_of(settings, name, app_id)
    restart_connector(settings.data_dir, app, name)
    show_message(f"{name} restarts")


@connect.command("snapshot", examples=["millstream connect snapshot shop public.orders"])
@name_argument
@click.argument("table", metavar="TABLE")
@app_option
@pass_settings
def snapshot(settings: CommonOptions, name: str, table: str, app_id: str | None) -> None:
    """Let a source read a table again while it goes on with the changes."""
    app = _app_of(settings, name, app_id)
    if connector_status(settings.data_dir, app, name).direction != "source":
        raise DefinitionError(f"{name!r} is a sink", hint="only a source can read a table again")
    request_snapshot(settings.data_dir, app, name, table)
    show_message(f"{name} reads {table} again")


@connect.command(
    "positions",
    examples=["millstream connect positions search", "millstream connect positions search --set orders/0=17 --execute"],
)
@name_argument
@click.option("--set", "position", metavar="POSITION", help="A new position; for a sink TOPIC/PARTITION=OFFSET.")
@click.option("--discard-batch", is_flag=True, help="Give up a batch of a sink that is not finished.")
@click.option("--execute", is_flag=True, help="Make the change instead of showing it.")
@app_option
@json_option
@pass_settings
def positions_(
    settings: CommonOptions,
    name: str,
    position: str | None,
    discard_batch: bool,
    execute: bool,
    app_id: str | None,
    as_json: bool,
) -> None:
    """Show how far a source or sink has read, or set it while nothing runs.

    Records between the old and the new position are skipped or written again. While a batch of a sink is not finished,
    for example because its target refuses it, setting a position needs --discard-batch: records of that batch that are
    after the new position are written again. Without --execute nothing is changed.
    """
    app = _app_of(settings, name, app_id)
    before = positions(settings.data_dir, app, name)
    if position is not None and execute:
        given = AppSettings(id=app, config=Config(), data_dir=settings.data_dir, broker_url=settings.broker_url)
        with connected(settings) as broker:
            set_position(given, broker, name, position, discard_batch=discard_batch)
    now = positions(settings.data_dir, app, name)
    if as_json:
        show_json({"executed": execute and position is not None, "before": before, "now": now})
    else:
        show_table(["position", "value"], list(now.items()))
    if position is not None:
        show_message("done" if execute else f"{position} was not set; add --execute to make the change")


@connect.command("kinds", examples=["millstream connect kinds"])
def kinds() -> None:
    """List the kinds of sources and sinks, with their guarantees and settings."""
    rows = []
    for name, kind in KINDS.items():
        try:
            loaded = kind.load()
            guarantee = getattr(loaded, "guarantee", "by its settings")
            listed = ", ".join(settings_of(loaded))
        except MillstreamError:
            guarantee, listed = "?", f"install millstream[{kind.extra}]"
        rows.append([name, kind.direction, guarantee, kind.extra or "", listed])
    show_table(["kind", "direction", "guarantee", "extra", "settings"], rows)


def _data_dir(settings: CommonOptions, file: ConnectFile) -> Path:
    is_given = settings.given_data_dir is not None or file.data_dir is None
    return settings.data_dir if is_given else Path(file.data_dir or "").absolute()


def _app_of(settings: CommonOptions, name: str, app_id: str | None) -> str:
    """Return the app that has a source or sink of this name."""
    apps = connector_apps(settings.data_dir) if app_id is None else [app_id]
    having = [app for app in apps if any(item.name == name for item in connector_statuses(settings.data_dir, app))]
    if len(having) != 1:
        problem = "no source or sink" if not having else f"{', '.join(having)} have a source or sink"
        raise DefinitionError(f"there is {problem} {name!r}", hint="see: millstream connect status; choose with --app")
    return having[0]
