"""``millstream top``: watch all apps of a data directory live in the terminal."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable

import click
import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from millstream.cli.command import Command
from millstream.cli.connection import require_data_dir
from millstream.cli.output import show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.paths import app_names
from millstream.foundation.text import printable
from millstream.views.status import AppStatus, status_of

_COLUMNS = ("app", "state", "batch", "records", "rec/s", "lag", "ms/batch", "plan", "run", "publish", "done", "dead")
_LEFT = ("app", "state")


@click.command(cls=Command, examples=["millstream top", "millstream top orders payments --every 0.5"])
@click.argument("app_ids", metavar="[APP]...", nargs=-1)
@click.option(
    "--every", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between updates."
)
@click.option("--times", type=click.IntRange(min=1), metavar="N", help="Stop after N updates.")
@pass_settings
def top(settings: CommonOptions, app_ids: tuple[str, ...], every: float, times: int | None) -> None:
    """Watch apps live: state, batches, records per second, lag, and the time of each phase of a batch.

    Without APP, all apps of the data directory are shown. Ctrl-C stops it. If the output is not a terminal, the status
    is printed once, or as often as --times says.
    """
    require_data_dir(settings)

    def read() -> list[AppStatus]:
        return [status_of(settings.data_dir, app) for app in app_ids or app_names(settings.data_dir)]

    if sys.stdout.isatty():
        _live(read, every, times)
        return
    for number in range(times or 1):
        if number:
            time.sleep(every)
        show_table(_COLUMNS, map(_cells, read()))


def _live(read: Callable[[], list[AppStatus]], every: float, times: int | None) -> None:
    with Live(_table(read()), console=Console(), auto_refresh=False, screen=times is None) as live:
        for number in itertools.count(1):
            live.refresh()
            if number == times:
                return
            time.sleep(every)
            live.update(_table(read()))


def _table(statuses: list[AppStatus]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column.upper(), justify="left" if column in _LEFT else "right", no_wrap=True)
    for status in statuses:
        table.add_row(*(Text(printable(str(cell))) for cell in _cells(status)), style="" if status.process else "dim")
    return table


def _cells(status: AppStatus) -> list[str | int]:
    durations = (status.seconds, *msgspec.structs.astuple(status.phases))
    return [
        status.app,
        "stopped" if status.process is None else "running",
        status.batch,
        status.totals.records_in,
        round(status.rate),
        sum(status.lag.values()),
        *(f"{seconds * 1000:.1f}" for seconds in durations),
        status.totals.dead_letters,
    ]
