"""What is known of a batch that is done, and sums over many of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from millstream.batch.batch import Batch
from millstream.task.report import TaskReport
from millstream.task.task_input import Range


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a batch went, in seconds.

    The commit that makes a plan durable also notes the batch before as done; it is counted as planning.
    """

    plan: float = 0.0
    """Choosing the ranges and making them durable."""
    run: float = 0.0
    """The tasks, with all that it takes to start them, without publishing."""
    publish: float = 0.0
    """Appending the outboxes, of the slowest task."""
    done: float = 0.0
    """Working out how far the app is now, and telling the broker."""


class BatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that is done."""

    plan: Batch
    tasks: list[TaskReport]
    seconds: float
    ended_at: int = 0
    """Wall time in milliseconds."""
    phases: Phases = Phases()
    lag: dict[str, int] = {}
    """Records left to read as of the end of the batch, by ``topic/partition``; what has none is left out."""

    @property
    def records_in(self) -> int:
        return self.plan.records

    @property
    def records_out(self) -> int:
        return sum(task.records_out for task in self.tasks)

    @property
    def dead_letters(self) -> int:
        return sum(task.dead_letters for task in self.tasks)

    @property
    def dropped(self) -> dict[str, int]:
        """What was dropped, by node and reason."""
        return added({}, *(task.dropped for task in self.tasks))

    @property
    def late(self) -> int:
        return sum(task.late for task in self.tasks)

    @property
    def lag_by_topic(self) -> dict[str, int]:
        return added({}, *({name.rpartition("/")[0]: count} for name, count in self.lag.items()))


class StageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the tasks of a stage; ``seconds`` are of its tasks together."""

    records_in: int = 0
    records_out: int = 0
    late: int = 0
    dead_letters: int = 0
    seconds: float = 0.0

    def plus(self, task: TaskReport) -> StageTotals:
        """Return the sums with one more report."""
        return StageTotals(
            records_in=self.records_in + task.records_in,
            records_out=self.records_out + task.records_out,
            late=self.late + task.late,
            dead_letters=self.dead_letters + task.dead_letters,
            seconds=self.seconds + task.seconds,
        )


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over batches."""

    since: int = 0
    """Wall time in milliseconds at which the counting began."""
    batches: int = 0
    records_in: int = 0
    records_out: int = 0
    late: int = 0
    dead_letters: int = 0
    dropped: dict[str, int] = {}
    phases: Phases = Phases()
    stages: dict[str, StageTotals] = {}
    lag: int = 0
    """Of the last batch."""

    def plus(self, report: BatchReport) -> Totals:
        """Return the sums with one more batch."""
        ours, theirs = self.phases, report.phases
        stages = dict(self.stages)
        for task in report.tasks:
            if task.stage:
                stages[task.stage] = stages.get(task.stage, StageTotals()).plus(task)
        return Totals(
            since=self.since or report.ended_at,
            batches=self.batches + 1,
            records_in=self.records_in + report.records_in,
            records_out=self.records_out + report.records_out,
            late=self.late + report.late,
            dead_letters=self.dead_letters + report.dead_letters,
            dropped=added(self.dropped, report.dropped),
            phases=Phases(
                plan=ours.plan + theirs.plan,
                run=ours.run + theirs.run,
                publish=ours.publish + theirs.publish,
                done=ours.done + theirs.done,
            ),
            stages=stages,
            lag=sum(report.lag.values()),
        )


def lag_of(backlog: Iterable[Range]) -> dict[str, int]:
    """Return how many records are left to read, by ``topic/partition``."""
    return {f"{one.topic}/{one.partition}": one.stop - one.start for one in backlog}


def added(first: Mapping[str, int], *others: Mapping[str, int]) -> dict[str, int]:
    """Return the sum of counts by name.

    >>> added({"a": 1}, {"a": 2, "b": 3})
    {'a': 3, 'b': 3}
    """
    sums = dict(first)
    for other in others:
        for name, count in other.items():
            sums[name] = sums.get(name, 0) + count
    return sums
