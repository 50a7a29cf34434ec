"""The demo: taxi rides, stock market and click stream together, on data made up as of now, with a dashboard.

./dev demo [--seconds 45] [--rate 2000] [--data-dir DIRECTORY]

Some records are late and a few are poisoned, so that there is something to see on every page.
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
from millstream.cli.progress import Tally
from millstream.errors import TopicExistsError
from millstream.serve.alert_rules import AlertBook, Rule
from millstream.serve.server import WebServer
from millstream.spark.run import stop_spark

APPS = (taxi_rides.app, stock_market.app, click_stream.app)
_SHOWN = {"taxi-rides": "trips_per_vendor", "click-stream": "clicks_per_city"}
_TICKS_PER_SECOND = 10
_SECONDS = 45.0
ALERTS = (
    Rule(name="late-trades", app="stock-market", what="late", limit=0),
    Rule(name="rides-wait", app="taxi-rides", what="lag", limit=20_000),
    Rule(name="busy-rome", app="click-stream", what="table", table="clicks_per_city", key="Rome", limit=500),
)


class Show:
    """What the screen shows: for each app its figures and the fullest rows of its table."""

    def __init__(self) -> None:
        self.url = ""
        self.tallies = {app.id: Tally(app.id) for app in APPS}
        self.rows: dict[str, list[tuple[Any, Any]]] = {app.id: [] for app in APPS}

    def batch(self, app: App, report: BatchReport) -> None:
        """Take note of a batch and look into the table, as any other process could."""
        self.tallies[app.id].add(report)
        if app.id in _SHOWN:
            table = app.tables[_SHOWN[app.id]]
            self.rows[app.id] = sorted(table.items(), key=lambda row: -row[1])[:6]

    def picture(self) -> Group:
        """Draw everything."""
        parts: list[Any] = []
        for app in APPS:
            tally = self.tallies[app.id]
            grid = Table.grid(padding=(0, 2))
            grid.add_row(Text(app.id, style="bold cyan"), Text("" if tally.batches else "waiting for its first batch"))
            for name, fact in tally.facts():
                grid.add_row(Text(name, style="dim"), Text(fact))
            if self.rows[app.id]:
                top = "  ".join(f"{key} {count:,}" for key, count in self.rows[app.id])
                grid.add_row(Text(_SHOWN[app.id], style="dim"), Text(top, style="green"))
            parts += [grid, Text()]
        return Group(
            Text(f"dashboard: {self.url}\n", style="bold"), *parts, Text("Ctrl-C drains and stops", style="dim")
        )


def feed(rate: int, stop: threading.Event) -> None:
    """Send records at a steady rate until told to stop."""
    records = demo_data.records(int.from_bytes(os.urandom(4), "big"))
    with APPS[0].producer(key=bytes, value=bytes) as producer:
        while not stop.wait(1 / _TICKS_PER_SECOND):
            for sent in islice(records, max(1, rate // _TICKS_PER_SECOND)):
                producer.send(sent.topic, sent.value, key=sent.key, timestamp=sent.timestamp)


def audit(stop: threading.Event) -> None:
    """Read what one app writes, as another program would in a group of its own, and rather slowly."""
    with click_stream.app.consumer("audit", topics=["activity"], auto_offset_reset="earliest") as consumer:
        while not stop.wait(0.5):
            consumer.poll("100 ms", 20)


def prepare() -> None:
    """Make the input topics, so that there is something to send to before the apps are up, and watch some figures."""
    broker = APPS[0].broker
    for topic in demo_data.TOPICS:
        with suppress(TopicExistsError):
            broker.create_topic(topic, TopicConfig(partitions=4))
    broker.close()
    for rule in ALERTS:
        AlertBook(APPS[0].data_dir).put(rule)


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the demo in peace."""
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(seconds: float, rate: int, console: Console) -> Show:
    """Run all apps on fresh data for some time."""
    show, stop = Show(), threading.Event()
    prepare()
    console.print(f"starting Spark; log and state are in {APPS[0].data_dir}")
    runs = [app.start(on_batch=partial(show.batch, app)) for app in APPS]
    server = WebServer(APPS[0].data_dir, APPS[0].broker_url)
    show.url = server.url
    console.print(f"dashboard: {server.url}", highlight=False, soft_wrap=True)
    working = [threading.Thread(target=feed, args=(rate, stop)), threading.Thread(target=audit, args=(stop,))]
    for thread in working:
        thread.start()
    with stopped_by_signals(stop):
        if console.is_terminal:
            with Live(get_renderable=show.picture, console=console, refresh_per_second=4):
                stop.wait(seconds)
        else:
            _tell(show, stop, seconds, console)
        stop.set()
        for thread in working:
            thread.join()
        console.print("draining …")
        for one in runs:
            one.stop()
        for app, one in zip(APPS, runs, strict=True):
            one.wait()
            app.start("caught-up", on_batch=partial(show.batch, app)).wait()
        server.close()
    return show


def _tell(show: Show, stop: threading.Event, seconds: float, console: Console) -> None:
    """Tell in lines what a terminal would show."""
    for _ in range(max(1, int(seconds / 5))):
        if stop.wait(min(5.0, seconds)):
            return
        for tally in show.tallies.values():
            console.print(tally.line(), highlight=False, soft_wrap=True)


def farewell(show: Show, console: Console) -> None:
    """Say what was done and what to try next."""
    for tally in show.tallies.values():
        console.print(tally.summary(), highlight=False, soft_wrap=True)
    where = "" if APPS[0].data_dir == Path("millstream-data").absolute() else f" --data-dir {APPS[0].data_dir}"
    console.print("\ntry next:", style="bold")
    for command in (
        f"ui{where}",
        f"tables scan trips_per_vendor --app taxi-rides{where}",
        f"tables scan clicks_per_city --app click-stream{where}",
        f"consume rides.high_amount --from-beginning --max 5{where}",
        f"dlq list --app taxi-rides{where}",
        f"groups describe audit{where}",
        "describe examples/taxi_rides.py",
    ):
        console.print(f"  .venv/bin/millstream {command}", highlight=False, soft_wrap=True)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--seconds", type=float, help="how long to run (default: on a terminal until Ctrl-C, else 45)")
    parser.add_argument("--rate", type=int, default=2_000, help="records per second to send (default: 2000)")
    parser.add_argument("--data-dir", type=Path, help="where log and state go (default: ./millstream-data)")
    arguments = parser.parse_args()
    if arguments.data_dir is not None:
        for app in APPS:
            app.data_dir = arguments.data_dir.absolute()
    console = Console()
    try:
        for_ever = 1e9 if console.is_terminal else _SECONDS
        farewell(run(arguments.seconds or for_ever, arguments.rate, console), console)
    except MillstreamError as error:
        sys.exit(f"error: {error}")
    finally:
        stop_spark()


if __name__ == "__main__":
    main()
