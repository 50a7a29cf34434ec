"""``millstream run``: run an app on Spark."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from millstream.app import App
from millstream.batch.activity import HeartbeatFile
from millstream.batch.loop import Until
from millstream.batch.restoring import is_restore
from millstream.batch.trigger import Trigger, TriggerMode
from millstream.cli.command import TARGET, Command
from millstream.cli.logs import LogFormat, log_to_stderr
from millstream.cli.output import show_changes, show_message
from millstream.cli.progress import RunTotals, Style, show_progress
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.cli.ui import host_option, show_server, token_option, web_option
from millstream.errors import MillstreamError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.names import check_name
from millstream.foundation.paths import activity_file, app_names, lock_file
from millstream.foundation.storage import make_private_directory, translate_storage_errors
from millstream.foundation.text import format_count
from millstream.plan.changes import is_unchanged
from millstream.serve.address import WebAddress, bind
from millstream.serve.process import WebProcess
from millstream.task.policy import Policies

if TYPE_CHECKING:
    from millstream.spark.run import SparkRun

_TAKEOVER_PAUSE_SECONDS = 2.0


@click.command(
    cls=Command,
    examples=[
        "millstream run word_count.py",
        "millstream run shop.streams:orders --until caught-up --master spark://head:7077",
        "millstream run word_count.py --fill lengths --no-progress --no-web >> word_count.log",
    ],
)
@click.argument(TARGET)
@click.option(
    "--until",
    type=click.Choice(["stopped", "caught-up"]),
    default="stopped",
    show_default=True,
    help="When to stop: on a signal, or when all records are processed.",
)
@click.option(
    "--trigger",
    type=click.Choice(["auto", "realtime"]),
    default="auto",
    show_default=True,
    help="auto: a resident task runs small batches if Spark has a spare slot; realtime: always.",
)
@click.option(
    "--master", metavar="URL", help="The Spark master, for example spark://head:7077.  [env: MILLSTREAM_MASTER]"
)
@click.option("--every", metavar="DURATION", help='Minimum interval between batches, for example "10 s".')
@click.option("--no-progress", is_flag=True, help="Print progress as lines, at most one per second.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.option(
    "--reset",
    multiple=True,
    metavar="STAGE",
    help="Start a stage with empty state; `millstream describe` lists the stages. Can be repeated.",
)
@click.option(
    "--fill",
    multiple=True,
    metavar="TABLE",
    help="Fill a new table from the beginning of its topics while the rest goes on; can be repeated.",
)
@click.option("--as", "name", metavar="NAME", help="Run under another id, with its own state.")
@click.option("--log", type=click.Choice(["text", "json"]), help="Log to standard error, one line per batch.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Serve metrics for Prometheus.")
@click.option("--standby", is_flag=True, help="Wait, with a warm copy, until no other run is alive; then take over.")
@web_option
@host_option
@token_option
@click.option("--no-web", is_flag=True, help="Do not serve the dashboard; this is the default with --until caught-up.")
@pass_settings
def run(
    settings: CommonOptions,
    /,
    until: Until,
    trigger: TriggerMode,
    master: str | None,
    every: str | None,
    no_progress: bool,
    quiet: bool,
    reset: tuple[str, ...],
    fill: tuple[str, ...],
    name: str | None,
    log: LogFormat | None,
    metrics_port: int | None,
    address: WebAddress | None,
    hosts: tuple[str, ...],
    no_token: bool,
    no_web: bool,
    standby: bool,
    target: str | None = None,
) -> None:
    """Run an app on Spark and show its progress.

    TARGET is a file of Python or SQL, or a module, with ":NAME" if it defines several apps. Missing topics are
    created. Ctrl-C or SIGTERM stops the run after the current batch, with exit code 0; a second Ctrl-C interrupts
    it. However a run ends, the next one continues exactly where it stopped.
    """
    app = settings.load(target)
    app.id = app.id if name is None else check_name("app", name)
    _check_options(trigger, every, address, no_token=no_token)
    _replace_settings(app, metrics_port=metrics_port, master=master)
    if log is not None:
        log_to_stderr(log)
    style: Style = "quiet" if quiet else "lines" if no_progress or not sys.stdout.isatty() else "live"
    if _is_free(app) and style != "quiet":
        show_message(f"starting Spark for {app.id} on {app.broker_url or app.data_dir}")
    start = partial(app.start, until, trigger=trigger, every=every, reset=reset, fill=fill)
    is_served = not no_web and (address is not None or until == "stopped")
    serve = partial(WebProcess, app.data_dir, app.broker_url, address, hosts=hosts, requires_token=not no_token)
    web = partial(_served, app, address, serve, quiet=style == "quiet") if is_served else nullcontext
    if not standby:
        _run(app, start, style, fill, web)
    else:
        _run_when_needed(app, partial(_run, app, start, style, fill, web), quiet=style == "quiet")


def _run(
    app: App,
    start: Callable[..., SparkRun],
    style: Style,
    fill: tuple[str, ...],
    web: Callable[[], AbstractContextManager[None]],
    on_started: Callable[[], None] = lambda: None,
) -> None:
    """Start a run, show its progress and wait for its end."""
    totals = RunTotals(
        app.id,
        has_past=app.id in app_names(app.data_dir),
        dead_letter_topic=Policies.of(app.id, app.config).dead_letter_topic,
        activity=partial(_restoring, HeartbeatFile(activity_file(app.data_dir, app.id))),
    )
    with show_progress(totals, style) as callbacks:
        on_fill = None if style == "quiet" else lambda progress: show_message(str(progress))
        running = start(on_batch=callbacks.on_batch, on_fill=on_fill)
        on_started()
        _show_expired(running.expired, fill)
        if not is_unchanged(running.changes):
            show_changes(running.changes)
        totals.waiting_records, totals.obstacle = running.waiting_records, lambda: running.obstacle
        callbacks.on_start()
        if running.metrics_url is not None and style != "quiet":
            show_message(f"metrics for Prometheus: {running.metrics_url}")
        with web():
            running.wait(handle_signals=True)


def _check_options(trigger: TriggerMode, every: str | None, address: WebAddress | None, *, no_token: bool) -> None:
    """Report invalid options before Spark starts."""
    Trigger.of(trigger, every)
    if address is not None:
        address.check_access(requires_token=not no_token)
        bind(address).close()


def _replace_settings(app: App, **options: Any) -> None:
    """Replace the settings of an app by the options that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    app.config = msgspec.structs.replace(app.config, **given)


def _restoring(heartbeats: HeartbeatFile) -> str:
    """Return how far this process has restored state; empty if it does something else."""
    heartbeat = heartbeats.read()
    is_restoring = heartbeat is not None and heartbeat.process == os.getpid() and is_restore(heartbeat.doing.what)
    return heartbeat.doing.what if heartbeat is not None and is_restoring else ""


def _run_when_needed(app: App, run: Callable[..., None], *, quiet: bool) -> None:
    """Stand by for another run, and run when there is none; stand by again if an outage prevents the start.

    The brokers that this host reaches may show no run because they were cut off too, and accept no other run either.
    """
    while _stand_by(app, quiet=quiet):
        has_started = threading.Event()
        try:
            run(on_started=has_started.set)
            return
        except MillstreamError as error:
            if has_started.is_set() or not error.retryable:
                raise
            show_message(f"cannot take over {app.id}: {error.message}; standing by again")
            time.sleep(_TAKEOVER_PAUSE_SECONDS)


def _stand_by(app: App, *, quiet: bool) -> bool:
    """Wait for the end of another run; False if the wait was stopped."""
    if not quiet:
        show_message(f"standing by for {app.id}: this run starts when no other run is alive")
    has_to_run = app.stand_by()
    if has_to_run and not quiet:
        show_message(f"no run of {app.id} is alive: taking over")
    return has_to_run


def _show_expired(expired: dict[str, int], tables: tuple[str, ...]) -> None:
    """Say which records a fill cannot contain."""
    for topic, count in expired.items():
        records, names = format_count(count, "record"), ", ".join(tables) or "the tables"
        show_message(f"{records} of topic {topic!r} were deleted by retention: {names} will be filled without them")


@contextmanager
def _served(app: App, address: WebAddress | None, serve: Callable[[], WebProcess], *, quiet: bool) -> Iterator[None]:
    """Serve the dashboard during a run; if it cannot be served, the run stops only if an address was given."""
    try:
        server = serve()
    except MillstreamError as error:
        if address is not None:
            app.stop()
            raise
        show_message(f"no dashboard: {error.message}")
        yield
        return
    try:
        if not quiet:
            show_server(server, address)
        yield
    finally:
        server.close()


def _is_free(app: App) -> bool:
    """Whether no other run of the app is active; raises errors that can be detected before Spark starts."""
    assert app.plan.nodes, "an empty topology has been rejected"
    with translate_storage_errors(app.data_dir):
        make_private_directory(app.data_dir)
    return not FileLock(lock_file(app.data_dir, app.id)).is_held()
