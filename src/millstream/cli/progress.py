"""What a run has done so far, drawn live on a terminal or told line by line."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from millstream.batch.report import BatchReport
from millstream.foundation.text import format_count, printable
from millstream.task.report import TaskReport

Style = Literal["live", "lines", "quiet"]
_RATE_SECONDS = 10.0
_LINE_SECONDS = 1.0
_FAILED = ": error"
"""How a reason for a drop ends when a function or a serde raised."""


class Tally:
    """The sum of all batches of a run.

    Rows are known of tasks that have run: if the app ``has_past``, there can be more.
    """

    def __init__(
        self,
        app: str,
        *,
        has_past: bool = False,
        dead_letter_topic: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app = app
        self.is_started = False
        self._has_past = has_past
        self._dead_letter_topic = dead_letter_topic or f"{app}.dead-letters"
        self.batches = self.records_in = self.records_out = self.dead_letters = 0
        self.dropped: Counter[str] = Counter()
        self.lag: dict[str, int] = {}
        self.batch_seconds = 0.0
        self._clock = clock
        self._began = clock()
        self._first_batch = float("inf")
        self._recent: deque[tuple[float, int]] = deque()
        self._rows: dict[str, dict[int, int]] = {}

    def add(self, report: BatchReport) -> None:
        """Count a batch."""
        self._first_batch = min(self._first_batch, self._clock() - report.seconds)
        self.batches += 1
        self.records_in += report.records_in
        self.records_out += report.records_out
        self.batch_seconds = report.seconds
        self.lag = report.lag_by_topic
        self._recent.append((self._clock(), report.records_in))
        for task in report.tasks:
            self.dead_letters += task.dead_letters
            self.dropped.update(_without_letters(task))
            for table, rows in task.rows.items():
                self._rows[table] = {**self._rows.get(table, {}), task.task: rows}

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def rows(self) -> dict[str, int]:
        return {table: sum(by_task.values()) for table, by_task in list(self._rows.items())}

    @property
    def rate(self) -> float:
        """Records per second, over the last seconds."""
        since = self._clock() - _RATE_SECONDS
        records = sum(count for when, count in list(self._recent) if when >= since)
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        busy = self._clock() - self._first_batch  # Spark's start does not count
        return records / min(_RATE_SECONDS, max(0.001, busy)) if records else 0.0

    def facts(self) -> list[tuple[str, str]]:
        """Return what there is to show, each with its name."""
        if not self.batches:
            return [("", "waiting for records" if self.is_started else "starting Spark")]
        least = "at least " if self._has_past else ""
        told = [
            ("records", f"{self.records_in:,} in, {self.records_out:,} out, {self.rate:,.0f}/s"),
            ("batches", f"{self.batches:,}, the last one took {self.batch_seconds:.2f} s"),
            ("lag", _listed(self.lag) or "none"),
            ("rows", _listed(self.rows, least)),
            ("dropped", _listed(self.dropped)),
            ("dead letters", f"{self.dead_letters:,} {self._where_letters_are}" if self.dead_letters else ""),
        ]
        return [(name, fact) for name, fact in told if fact]

    def line(self) -> str:
        """Return all in one line."""
        return f"{self.app}: " + "; ".join(f"{name} {fact}".lstrip() for name, fact in self.facts())

    def summary(self) -> str:
        """Return the last word on a run."""
        batches, records = format_count(self.batches, "batch"), format_count(self.records_in, "record")
        total = f"{batches}, {records} in, {self.records_out:,} out"
        letters = format_count(self.dead_letters, "dead letter")
        problems = f", {letters} {self._where_letters_are}" if self.dead_letters else ""
        return f"{self.app} stopped after {self.seconds:.1f} s: {total}{problems}"

    @property
    def _where_letters_are(self) -> str:
        topic = printable(self._dead_letter_topic)
        return f"in {topic} (see: millstream consume {topic} --from-beginning -v)"


def _without_letters(task: TaskReport) -> dict[str, int]:
    """Return what a task dropped; what failed and all became dead letters is told there, not here too."""
    failed = {name: count for name, count in task.dropped.items() if name.endswith(_FAILED)}
    if sum(failed.values()) != task.dead_letters:
        return task.dropped  # some were skipped, and it is not known which
    return {name: count for name, count in task.dropped.items() if name not in failed}


def _listed(numbers: dict[str, int], before: str = "") -> str:
    return ", ".join(f"{printable(name)} {before}{number:,}" for name, number in sorted(numbers.items()))


class View(NamedTuple):
    """What a run calls: ``on_start`` once Spark is there, ``on_batch`` after each batch."""

    on_start: Callable[[], None]
    on_batch: Callable[[BatchReport], None]


@contextmanager
def shown(tally: Tally, style: Style) -> Iterator[View]:
    """Show a run; whatever ends it, the summary comes last, unless it was never started."""

    def start() -> None:
        tally.is_started = True
        if style == "lines" and not tally.batches:
            click.echo(tally.line())

    try:
        if style == "live":
            with _live(tally):
                yield View(start, tally.add)
        else:
            yield View(start, tally.add if style == "quiet" else _teller(tally))
    finally:
        if style != "quiet" and tally.is_started:
            click.echo(tally.summary())


def _live(tally: Tally) -> Live:
    def picture() -> Table:
        grid = Table.grid(padding=(0, 2))
        doing = "running" if tally.is_started else "starting"
        grid.add_row(Text(tally.app, style="bold"), Text(f"{doing} for {tally.seconds:.0f} s, Ctrl-C stops it"))
        for name, fact in tally.facts():
            grid.add_row(Text(name, style="dim"), Text(fact))
        return grid

    return Live(get_renderable=picture, console=Console(), refresh_per_second=4, transient=True)


def _teller(tally: Tally) -> Callable[[BatchReport], None]:
    """Return a function that tells about batches, but not about more than one per second."""
    last = float("-inf")

    def tell(report: BatchReport) -> None:
        nonlocal last
        tally.add(report)
        if time.monotonic() - last >= _LINE_SECONDS:
            last = time.monotonic()
            click.echo(tally.line())

    return tell
