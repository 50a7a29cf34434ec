"""What a batch is before it runs, and how far an app is after it."""

from __future__ import annotations

import msgspec

from millstream.errors import StateError
from millstream.records import TopicPartition
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport
from millstream.task.task_input import Range


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Batch ``number`` reads these ranges, at that wall time; once durable it is never changed."""

    number: int
    wall_time: int
    ranges: tuple[Range, ...]
    timers: tuple[str, ...] = ()
    """The tasks that have a timer due."""
    ticks: dict[str, int] = {}
    """The tasks whose inputs are idle, and the time that has come for them."""
    watches: bool = False
    """Whether it has to be remembered when records came."""
    global_tables: dict[str, tuple[int, ...]] = {}
    """For the topic of each global table the offsets up to which every task sees it, by partition."""

    @property
    def records(self) -> int:
        """The most records that the ranges can hold."""
        return sum(one.stop - one.start for one in self.ranges)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an app has come: the last batch done, where each input goes on, and the version of each task."""

    done: int = 0
    positions: dict[str, int] = {}
    versions: dict[str, StateVersion] = {}
    timers: dict[str, dict[str, int]] = {}
    """By task and step, when the wall clock has to call it next."""
    seen: dict[str, int] = {}
    """By partition, the wall time of the last batch with records of it; only if a source may be idle."""
    ticks: dict[str, int] = {}
    """By task, to when its time has last moved on by itself."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return the next offset to read, or None if the partition was never read."""
        return self.positions.get(f"{topic}/{partition}")


def advanced(progress: Progress, plan: Batch, names: list[str], reports: list[TaskReport]) -> Progress:
    """Return the progress after a batch; ``names`` has the stable name of each task by its number."""
    positions = {f"{one.topic}/{one.partition}": one.stop for one in plan.ranges}
    ran = sorted((one for one in reports if one.commit), key=lambda one: (one.version, one.round))
    versions = {
        names[one.task]: StateVersion(batch=one.version, commit=one.commit) for one in ran
    }  # the last round counts
    return Progress(
        done=plan.number,
        positions={**progress.positions, **positions},
        versions={**progress.versions, **versions},
        seen={**progress.seen, **dict.fromkeys(positions, plan.wall_time)} if plan.watches else progress.seen,
        ticks={**progress.ticks, **plan.ticks},
        timers={**progress.timers, **{names[one.task]: one.timers for one in ran if one.timers}},
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
    """Return the positions in the form in which a broker stores a group's offsets."""
    return {
        TopicPartition(topic, int(partition)): offset
        for (topic, _, partition), offset in ((name.rpartition("/"), at) for name, at in progress.positions.items())
    }
