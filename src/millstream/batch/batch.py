"""A batch before it runs, and the progress of an app after it."""

from __future__ import annotations

import msgspec

from millstream.errors import StateError
from millstream.records import TopicPartition
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport
from millstream.task.task_input import Range


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The ranges that batch ``number`` reads, and its wall-clock time; a batch never changes once it is durable."""

    number: int
    wall_time: int
    ranges: tuple[Range, ...]
    timers: tuple[str, ...] = ()
    """The tasks that have a timer due."""
    ticks: dict[str, int] = {}
    """The tasks whose inputs are idle, with the stream time to advance to."""
    watches: bool = False
    """Whether progress records when each partition last had records."""
    global_tables: dict[str, tuple[int, ...]] = {}
    """By topic of a global table, the offsets up to which every task sees it, by partition."""

    @property
    def records(self) -> int:
        """The most records that the ranges can hold."""
        return sum(range_.stop - range_.start for range_ in self.ranges)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an app: the last batch done, the position of each input, and the version of each task."""

    done: int = 0
    positions: dict[str, int] = {}
    versions: dict[str, StateVersion] = {}
    timers: dict[str, dict[str, int]] = {}
    """By task and step, the wall-clock time at which its next timer is due."""
    seen: dict[str, int] = {}
    """By partition, the wall-clock time of the last batch with records of it; only if a source may be idle."""
    ticks: dict[str, int] = {}
    """By task, the stream time to which it last advanced without records."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return the next offset to read, or None if the partition was never read."""
        return self.positions.get(f"{topic}/{partition}")


def progress_after(progress: Progress, batch: Batch, names: list[str], reports: list[TaskReport]) -> Progress:
    """Return the progress after a batch; ``names`` has the stable name of each task by its number."""
    positions = {f"{range_.topic}/{range_.partition}": range_.stop for range_ in batch.ranges}
    # sorted, so that the last round of a task counts
    ran = sorted((report for report in reports if report.commit), key=lambda report: (report.version, report.round))
    versions = {names[report.task]: StateVersion(batch=report.version, commit=report.commit) for report in ran}
    return Progress(
        done=batch.number,
        positions={**progress.positions, **positions},
        versions={**progress.versions, **versions},
        seen={**progress.seen, **dict.fromkeys(positions, batch.wall_time)} if batch.watches else progress.seen,
        ticks={**progress.ticks, **batch.ticks},
        timers={**progress.timers, **{names[report.task]: report.timers for report in ran if report.timers}},
    )


def check_ran(batch: Batch, names: list[str], reports: list[TaskReport]) -> None:
    """Refuse to mark a batch as done if no task has read one of its ranges; a loop without tasks reads them itself."""
    read = sum(report.ranges for report in reports)
    planned = sum(range_.topic not in batch.global_tables for range_ in batch.ranges)
    if names and read < planned and not any(report.replayed for report in reports):
        raise StateError(
            f"batch {batch.number} has {planned} ranges, but its tasks have read {read}",
            hint="the batch is not marked as done; please report this as a bug",
            batch=batch.number,
        )


def offsets_of(progress: Progress) -> dict[TopicPartition, int]:
    """Return the positions as the offsets of a consumer group."""
    return {
        TopicPartition(topic, int(partition)): offset
        for (topic, _, partition), offset in (
            (name.rpartition("/"), offset) for name, offset in progress.positions.items()
        )
    }
