"""The demo: taxi rides, stock market and click stream together, on generated live data, with a dashboard.

./dev demo [--seconds 45] [--rate 2000] [--data-dir DIRECTORY]

Some records are late and a few are malformed, so that every page of the dashboard shows something.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples import click_stream, demo_data, stock_market, taxi_rides
from millstream import App, MillstreamError
from millstream.batch.report import BatchReport
from millstream.broker import TopicConfig
from millstream.cli.progress import RunTotals
from millstream.errors import TopicExistsError
from millstream.operations.rules import Rule, RuleStore
from millstream.serve.process import WebProcess
from millstream.spark.run import stop_spark

APPS = (taxi_rides.app, stock_market.app, click_stream.app)
_DISPLAYED_TABLES = {"taxi-rides": "trips_per_vendor", "click-stream": "clicks_per_city"}
_TICKS_PER_SECOND = 10
_DEFAULT_SECONDS = 45.0
ALERTS = (
    Rule(name="late-trades", app="stock-market", what="late", limit=0),
    Rule(name="rides-wait", app="taxi-rides", what="lag", limit=20_000),
    Rule(name="busy-rome", app="click-stream", what="table", table="clicks_per_city", key="Rome", limit=500),
)


class Screen:
    """The content of the terminal: for each app its metrics and the rows of its table with the highest counts."""

    def __init__(self) -> None:
        self.url = ""
        self.totals = {app.id: RunTotals(app.id) for app in APPS}
        self.rows: dict[str, list[tuple[Any, Any]]] = {app.id: [] for app in APPS}

    def add_batch(self, app: App, report: BatchReport) -> None:
        """Add the metrics of a batch and read the table, as any other process could."""
        self.totals[app.id].add(report)
        if app.id in _DISPLAYED_TABLES:
            table = app.tables[_DISPLAYED_TABLES[app.id]]
            self.rows[app.id] = sorted(table.items(), key=lambda row: -row[1])[:6]

    def render(self) -> Group:
        """Return the current content."""
        parts: list[Any] = []
        for app in APPS:
            totals = self.totals[app.id]
            grid = Table.grid(padding=(0, 2))
            grid.add_row(Text(app.id, style="bold cyan"), Text("" if totals.batches else "waiting for the first batch"))
            for name, text in totals.details() if totals.batches else ():
                grid.add_row(Text(name, style="dim"), Text(text))
            if self.rows[app.id]:
                top = "  ".join(f"{key} {count:,}" for key, count in self.rows[app.id])
                grid.add_row(Text(_DISPLAYED_TABLES[app.id], style="dim"), Text(top, style="green"))
            parts += [grid, Text()]
        return Group(
            Text(f"dashboard: {self.url}\n", style="bold"), *parts, Text("Ctrl-C drains and stops", style="dim")
        )


def feed(rate: int, stop: threading.Event) -> None:
    """Send records at a steady rate until ``stop`` is set."""
    records = demo_data.records(int.from_bytes(os.urandom(4), "big"))
    with APPS[0].producer(key=bytes, value=bytes) as producer:
        while not stop.wait(1 / _TICKS_PER_SECOND):
            for record in islice(records, max(1, rate // _TICKS_PER_SECOND)):
                producer.send(record.topic, record.value, key=record.key, timestamp=record.timestamp)


def audit(stop: threading.Event) -> None:
    """Read the output of one app slowly and in a separate group, as another program would."""
    with click_stream.app.consumer("audit", topics=["activity"], auto_offset_reset="earliest") as consumer:
        while not stop.wait(0.5):
            consumer.poll("100 ms", 20)


def prepare() -> None:
    """Create the input topics, so that records can be sent before the apps are up, and the alert rules."""
    broker = APPS[0].broker
    for topic in demo_data.TOPICS:
        with suppress(TopicExistsError):
            broker.create_topic(topic, TopicConfig(partitions=4))
    broker.close()
    for rule in ALERTS:
        RuleStore(APPS[0].data_dir).put(rule)


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Stop the demo gracefully on Ctrl-C and SIGTERM."""
    previous = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def run(seconds: float, rate: int, console: Console) -> Screen:
    """Run all apps on generated data for the given time."""
    screen, stop = Screen(), threading.Event()
    prepare()
    server = WebProcess(APPS[0].data_dir, APPS[0].broker_url)
    screen.url = server.login_url
    console.print(f"dashboard: {server.login_url}", highlight=False, soft_wrap=True)
    console.print(f"starting Spark; log and state are in {APPS[0].data_dir}", highlight=False, soft_wrap=True)
    runs = [app.start(on_batch=partial(screen.add_batch, app)) for app in APPS]
    threads = [threading.Thread(target=feed, args=(rate, stop)), threading.Thread(target=audit, args=(stop,))]
    for thread in threads:
        thread.start()
    with stopped_by_signals(stop):
        if console.is_terminal:
            with Live(get_renderable=screen.render, console=console, refresh_per_second=4):
                stop.wait(seconds)
        else:
            _print_progress(screen, stop, seconds, console)
        stop.set()
        for thread in threads:
            thread.join()
        console.print("draining …")
        for app_run in runs:
            app_run.stop()
        for app, app_run in zip(APPS, runs, strict=True):
            app_run.wait()
            app.start("caught-up", on_batch=partial(screen.add_batch, app)).wait()
        server.close()
    return screen


def _print_progress(screen: Screen, stop: threading.Event, seconds: float, console: Console) -> None:
    """Print the metrics as lines where the output is not a terminal."""
    for _ in range(max(1, int(seconds / 5))):
        if stop.wait(min(5.0, seconds)):
            return
        for totals in screen.totals.values():
            line = totals.line() if totals.batches else f"{totals.app}: waiting for the first batch"
            console.print(line, highlight=False, soft_wrap=True)


def print_summary(screen: Screen, console: Console) -> None:
    """Print the totals and what to try next."""
    for totals in screen.totals.values():
        console.print(totals.summary(), highlight=False, soft_wrap=True)
    option = "" if APPS[0].data_dir == Path("millstream-data").absolute() else f" --data-dir {APPS[0].data_dir}"
    console.print("\nnext, try:", style="bold")
    for command in (
        f"ui{option}",
        f"tables scan trips_per_vendor --app taxi-rides{option}",
        f"tables scan clicks_per_city --app click-stream{option}",
        f"consume rides.high_amount --from-beginning --max 5{option}",
        f"dlq list --app taxi-rides{option}",
        f"groups describe audit{option}",
        "describe examples/taxi_rides.py",
    ):
        console.print(f"  .venv/bin/millstream {command}", highlight=False, soft_wrap=True)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--seconds", type=float, help="how long to run (default: on a terminal until Ctrl-C, else 45)")
    parser.add_argument("--rate", type=int, default=2_000, help="records per second to send (default: 2000)")
    parser.add_argument("--data-dir", type=Path, help="directory of the log and the state (default: ./millstream-data)")
    arguments = parser.parse_args()
    if arguments.data_dir is not None:
        for app in APPS:
            app.data_dir = arguments.data_dir.absolute()
    console = Console()
    try:
        default_seconds = 1e9 if console.is_terminal else _DEFAULT_SECONDS
        print_summary(run(arguments.seconds or default_seconds, arguments.rate, console), console)
    except MillstreamError as error:
        sys.exit(f"error: {error}")
    finally:
        stop_spark()


if __name__ == "__main__":
    main()
