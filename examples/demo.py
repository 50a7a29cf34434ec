"""The demo: word count and taxi rides on generated data, live in the terminal, until Ctrl-C or for some seconds.

./dev demo [--seconds 45] [--rate 4000] [--data-dir DIRECTORY]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples import demo_data, taxi_rides, word_count
from millstream import App, MillstreamError
from millstream.batch.report import BatchReport
from millstream.broker import TopicConfig
from millstream.cli.progress import Tally
from millstream.errors import TopicExistsError
from millstream.spark.run import stop_spark

APPS = (word_count.app, taxi_rides.app)
_SHOWN = {"word-count": "words", "taxi-rides": "trips_per_vendor"}
_TICKS_PER_SECOND = 10


class Show:
    """What the screen shows: for each app its figures and the fullest rows of its table."""

    def __init__(self) -> None:
        self.tallies = {app.id: Tally(app.id) for app in APPS}
        self.rows: dict[str, list[tuple[Any, Any]]] = {app.id: [] for app in APPS}

    def batch(self, app: App, report: BatchReport) -> None:
        """Take note of a batch and look into the table, as any other process could."""
        self.tallies[app.id].add(report)
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
        return Group(*parts, Text("Ctrl-C drains and stops", style="dim"))


def feed(rate: int, stop: threading.Event) -> None:
    """Send lines and rides at a steady rate until told to stop."""
    seed = int.from_bytes(os.urandom(4), "big")
    lines, rides = demo_data.lines(seed), taxi_rides.made_up(seed)
    share = max(1, rate // _TICKS_PER_SECOND // 2)
    with word_count.app.producer(value=str) as text, taxi_rides.app.producer() as objects:
        while not stop.wait(1 / _TICKS_PER_SECOND):
            for _ in range(share):
                text.send("lines", next(lines))
                objects.send("rides", next(rides))


def create_topics() -> None:
    """Make the input topics, so that there is something to send to before the apps are up."""
    broker = word_count.app.broker
    for topic in ("lines", "rides"):
        try:
            broker.create_topic(topic, TopicConfig(partitions=4))
        except TopicExistsError:
            continue
    broker.close()


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
    """Run both apps on fresh data for some time."""
    show, stop = Show(), threading.Event()
    create_topics()
    console.print(f"starting Spark; log and state are in {APPS[0].data_dir}")
    runs = [app.start(on_batch=partial(show.batch, app)) for app in APPS]
    feeding = threading.Thread(target=feed, args=(rate, stop), daemon=True)
    feeding.start()
    with stopped_by_signals(stop):
        if console.is_terminal:
            with Live(get_renderable=show.picture, console=console, refresh_per_second=4):
                stop.wait(seconds)
        else:
            _tell(show, stop, seconds, console)
        stop.set()
        feeding.join()
        console.print("draining …")
        for one in runs:
            one.stop()
        for app, one in zip(APPS, runs, strict=True):
            one.wait()
            app.start("caught-up", on_batch=partial(show.batch, app)).wait()
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
        f"tables get words stream --app word-count{where}",
        f"tables scan trips_per_vendor --app taxi-rides{where}",
        f"consume rides.high_amount --from-beginning --max 5{where}",
        f"topics list{where}",
        f"groups describe word-count{where}",
        "describe examples/taxi_rides.py",
        f"run examples/word_count.py{where}",
    ):
        console.print(f"  .venv/bin/millstream {command}", highlight=False, soft_wrap=True)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=45, help="how long to run (default: 45)")
    parser.add_argument("--rate", type=int, default=4_000, help="records per second to send (default: 4000)")
    parser.add_argument("--data-dir", type=Path, help="where log and state go (default: ./millstream-data)")
    arguments = parser.parse_args()
    if arguments.data_dir is not None:
        for app in APPS:
            app.data_dir = arguments.data_dir.absolute()
    console = Console()
    try:
        farewell(run(arguments.seconds, arguments.rate, console), console)
    except MillstreamError as error:
        sys.exit(f"error: {error}")
    finally:
        stop_spark()


if __name__ == "__main__":
    main()
