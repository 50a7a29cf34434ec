"""The report of a batch, and sums over many reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from millstream.batch.batch import Batch
from millstream.batch.latency import MAX_LATENCY_MS, LatencyHistogram
from millstream.task.report import TaskReport
from millstream.task.task_input import Range


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """How the time of a batch was spent, in seconds.

    The commit that makes a batch durable also marks the batch before as done; it counts as planning.
    """

    plan: float = 0.0
    """Choosing the ranges and making them durable."""
    run: float = 0.0
    """Starting and running the tasks, without publishing."""
    publish: float = 0.0
    """Appending the outbox, in the slowest task."""
    done: float = 0.0
    """Computing the new progress and committing its offsets to the broker."""


class BatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a batch that is done."""

    plan: Batch
    tasks: list[TaskReport]
    seconds: float
    ended_at: int = 0
    """Wall-clock time in milliseconds."""
    phases: Phases = Phases()
    lag: dict[str, int] = {}
    """Records left to read at the end of the batch, by ``topic/partition``; partitions without any are left out."""

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
        """Dropped records by node and reason."""
        return added({}, *(task.dropped for task in self.tasks))

    @property
    def value_errors(self) -> dict[str, int]:
        """Errors in expressions of SQL, whose values are null: by node and column."""
        return added({}, *(task.value_errors for task in self.tasks))

    @property
    def error_samples(self) -> dict[str, str]:
        """For some of these nodes and columns the last error."""
        return {where: text for task in self.tasks for where, text in task.error_samples.items()}

    @property
    def late(self) -> int:
        return sum(task.late for task in self.tasks)

    @property
    def latency(self) -> int | None:
        """Milliseconds from the timestamp of the record that waited longest to the end of the batch.

        None if no topic was read, or if the timestamp cannot be the time of sending.
        """
        oldest = min((task.oldest for task in self.tasks if task.oldest is not None), default=None)
        if oldest is None or not 0 <= self.ended_at - oldest < MAX_LATENCY_MS:
            return None
        return self.ended_at - oldest

    @property
    def lag_by_topic(self) -> dict[str, int]:
        return added({}, *({name.rpartition("/")[0]: count} for name, count in self.lag.items()))


class StageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the tasks of a stage."""

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
    """Wall-clock time of the first batch in milliseconds."""
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
    latency: LatencyHistogram = LatencyHistogram()
    state_bytes: dict[str, int] = {}
    """The size of the stores of each task after its last batch."""

    def plus(self, report: BatchReport) -> Totals:
        """Return the sums with one more batch."""
        sums, phases, latency = self.phases, report.phases, report.latency
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
                plan=sums.plan + phases.plan,
                run=sums.run + phases.run,
                publish=sums.publish + phases.publish,
                done=sums.done + phases.done,
            ),
            stages=stages,
            lag=sum(report.lag.values()),
            latency=self.latency if latency is None else self.latency.plus(latency),
            state_bytes={
                **self.state_bytes,
                **{task.name: sum(task.bytes.values()) for task in report.tasks if task.bytes},
            },
        )


def lag_of(backlog: Iterable[Range]) -> dict[str, int]:
    """Return how many records are left to read, by ``topic/partition``."""
    return {f"{range_.topic}/{range_.partition}": range_.stop - range_.start for range_ in backlog}


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
