"""The progress of a run, shown live on a terminal or line by line."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal, NamedTuple, Self

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from millstream.batch.report import BatchReport
from millstream.cli.output import hidden_by
from millstream.foundation.text import format_count, printable
from millstream.task.report import TaskReport

Style = Literal["live", "lines", "quiet"]
_RATE_SECONDS = 10.0
_LINE_SECONDS = 1.0
_MAX_COUNTS = 3  # of topics, tables or reasons; all of them are in `millstream status`
_FAILED = ": error"
"""The end of the reason for a dropped record if a function or a serde raised."""


class RunTotals:
    """The totals of all batches of a run.

    Rows are counted only for tasks of this run: if the app ``has_past``, there can be more.
    """

    def __init__(
        self,
        app: str,
        *,
        has_past: bool = False,
        dead_letter_topic: str = "",
        activity: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with nothing; ``activity`` returns what the run does before its first batch, if that takes long."""
        self.app = app
        self._activity = activity
        self.is_started = False
        self.waiting_records = 0
        """The number of records that were waiting when the run started."""
        self.obstacle: Callable[[], str] = lambda: ""
        """Returns what keeps the run from making progress, if anything does."""
        self._has_past = has_past
        self._dead_letter_topic = dead_letter_topic or f"{app}.dead-letters"
        self.batches = self.records_in = self.records_out = self.dead_letters = 0
        self.dropped: Counter[str] = Counter()
        self.lag: dict[str, int] = {}
        self.batch_seconds = 0.0
        self._clock = clock
        self._started = clock()
        self._first_batch = float("inf")
        self._recent: deque[tuple[float, int]] = deque()
        self._rows: dict[str, dict[int, int]] = {}

    def add(self, report: BatchReport) -> None:
        """Add a batch."""
        self._first_batch = min(self._first_batch, self._clock() - report.seconds)
        self.batches += 1
        self.records_in += report.records_in
        self.records_out += report.records_out
        self.batch_seconds = report.seconds
        self.lag = report.lag_by_topic
        self._recent.append((self._clock(), report.records_in))
        for task in report.tasks:
            self.dead_letters += task.dead_letters
            self.dropped.update(_without_dead_letters(task))
            for table, rows in task.rows.items():
                self._rows[table] = {**self._rows.get(table, {}), task.task: rows}

    @property
    def seconds(self) -> float:
        return self._clock() - self._started

    @property
    def rows(self) -> dict[str, int]:
        return {table: sum(by_task.values()) for table, by_task in list(self._rows.items())}

    @property
    def rate(self) -> float:
        """Records per second, over the last ten seconds."""
        since = self._clock() - _RATE_SECONDS
        records = sum(count for time, count in list(self._recent) if time >= since)
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        elapsed = self._clock() - self._first_batch  # without the start of Spark
        return records / min(_RATE_SECONDS, max(0.001, elapsed)) if records else 0.0

    def details(self) -> list[tuple[str, str]]:
        """Return the totals as names and texts."""
        obstacle = printable(self.obstacle())
        if not self.batches:
            return [("", obstacle or self._first_activity)]
        least = "at least " if self._has_past else ""
        items = [
            ("state", obstacle),
            ("records", f"{self.records_in:,} in, {self.records_out:,} out, {self.rate:,.0f}/s"),
            ("batches", f"{self.batches:,}, the last in {self.batch_seconds:.2f} s"),
            ("lag", _counts(self.lag) or "none"),
            ("rows", _counts(self.rows, least)),
            ("dropped", _counts(self.dropped)),
            (
                "dead letters",
                f"{self.dead_letters:,} in {printable(self._dead_letter_topic)}" * bool(self.dead_letters),
            ),
        ]
        return [(name, text) for name, text in items if text]

    @property
    def _first_activity(self) -> str:
        """What happens before the first batch is done."""
        if not self.is_started:
            return self.start_step() or "starting Spark"
        if self.waiting_records:
            return f"running the first batch; {format_count(self.waiting_records, 'record')} waiting"
        return "waiting for records"

    def start_step(self) -> str:
        """Return what the run does before it has started, if that takes long."""
        return "" if self.is_started else self._activity()

    def line(self) -> str:
        """Return all totals in one line."""
        return f"{self.app}: " + "; ".join(f"{name} {text}".lstrip() for name, text in self.details())

    def summary(self) -> str:
        """Return the summary of a finished run."""
        batches, records = format_count(self.batches, "batch"), format_count(self.records_in, "record")
        total = f"{batches}, {records} in, {self.records_out:,} out"
        letters = format_count(self.dead_letters, "dead letter")
        problems = f", {letters} {self._dead_letter_hint}" if self.dead_letters else ""
        return f"{self.app} stopped after {self.seconds:.1f} s: {total}{problems}"

    @property
    def _dead_letter_hint(self) -> str:
        topic = printable(self._dead_letter_topic)
        return f"in {topic} (see: millstream consume {topic} --from-beginning -v)"


def _without_dead_letters(task: TaskReport) -> dict[str, int]:
    """Return the dropped records of a task, without failures that are all counted as dead letters."""
    failed = {name: count for name, count in task.dropped.items() if name.endswith(_FAILED)}
    if sum(failed.values()) != task.dead_letters:
        return task.dropped  # some were skipped, and it is unknown which
    return {name: count for name, count in task.dropped.items() if name not in failed}


def _counts(counts: dict[str, int], prefix: str = "") -> str:
    """Return the largest counts as text, in the order of their names."""
    largest = sorted(counts, key=lambda name: -counts[name])[:_MAX_COUNTS]
    text = ", ".join(f"{printable(name)} {prefix}{counts[name]:,}" for name in sorted(largest))
    return text if len(largest) == len(counts) else f"{text} and {len(counts) - len(largest)} more"


class Callbacks(NamedTuple):
    """The callbacks of a run: ``on_start`` once Spark has started, ``on_batch`` after each batch."""

    on_start: Callable[[], None]
    on_batch: Callable[[BatchReport], None]


@contextmanager
def show_progress(totals: RunTotals, style: Style) -> Iterator[Callbacks]:
    """Show the progress of a run, and at the end its summary, unless it was never started."""

    def on_start() -> None:
        totals.is_started = True
        if style == "lines" and not totals.batches:
            click.echo(totals.line())

    try:
        if style == "live":
            with _Display(totals) as display, hidden_by(display.hidden):
                yield Callbacks(on_start, totals.add)
        else:
            with nullcontext() if style == "quiet" else _start_lines(totals):
                yield Callbacks(on_start, totals.add if style == "quiet" else _line_printer(totals))
    finally:
        if style != "quiet" and totals.is_started:
            click.echo(totals.summary())


def _live(totals: RunTotals) -> Live:
    def render() -> Table:
        grid = Table.grid(padding=(0, 2))
        state = "running" if totals.is_started else "starting"
        grid.add_row(Text(totals.app, style="bold"), Text(f"{state} for {totals.seconds:.0f} s, Ctrl-C stops it"))
        for name, text in totals.details():
            grid.add_row(Text(name, style="dim"), Text(text))
        return grid

    return Live(get_renderable=render, console=Console(), refresh_per_second=4, transient=True)


class _Display:
    """A live display that can be taken off the terminal for a moment: what is printed meanwhile stays above it."""

    def __init__(self, totals: RunTotals) -> None:
        self._totals = totals
        self._lock = threading.Lock()
        self._live = _live(totals)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide it during a block."""
        with self._lock:
            self._live.stop()
            try:
                yield
            finally:
                self._live = _live(self._totals)  # one that starts again would erase the lines where it was before
                self._live.start(refresh=True)


@contextmanager
def _start_lines(totals: RunTotals) -> Iterator[None]:
    """Print a line per second while the start takes long."""
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(_LINE_SECONDS) and not totals.is_started:
            if totals.start_step():
                click.echo(totals.line())

    thread = threading.Thread(target=report, name="millstream-start", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _line_printer(totals: RunTotals) -> Callable[[BatchReport], None]:
    """Return a callback that prints the totals after a batch, at most once per second."""
    last = float("-inf")

    def on_batch(report: BatchReport) -> None:
        nonlocal last
        totals.add(report)
        if time.monotonic() - last >= _LINE_SECONDS:
            last = time.monotonic()
            click.echo(totals.line())

    return on_batch
