"""Run the tasks of a batch level by level; what one level sends is the shuffle input of the levels after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from millstream.batch.batch import Batch
from millstream.batch.timers import SharedTime
from millstream.foundation.paths import profile_dir
from millstream.plan.layout import Layout
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.outbox import OutboxBlock
from millstream.task.profiler import profiled
from millstream.task.report import TaskReport
from millstream.task.runner import TASK_COMMITTER, Committer, run_task
from millstream.task.task_changelog import TaskChangelogs
from millstream.task.task_input import ShuffleInput, TaskInput

ShuffleInputs = dict[int, list[ShuffleInput]]
"""Shuffle data by the task that receives it."""


class TaskOutput(NamedTuple):
    """The report of a task, and what it sends to tasks of other stages."""

    report: TaskReport
    sent: list[tuple[int, ShuffleInput]]


def task_names(layout: Layout) -> list[str]:
    """Return the stable name of each task, which does not change when other stages are added or removed."""
    return [f"{layout.plan.stages[stage].name}/{partition}" for stage, partition in layout.tasks]


def run_batch(
    env: TaskEnvironment,
    batch: Batch,
    versions: Mapping[str, StateVersion],
    *,
    committer: Committer = TASK_COMMITTER,
    shared_time: SharedTime | None = None,
) -> list[TaskReport]:
    """Run all tasks of a batch in this process; with ``shared_time`` they have one stream time."""
    inputs: ShuffleInputs = defaultdict(list)
    with profiled(profile_dir(env.state_dir)):
        reports = _refresh_global_tables(env, batch)
        for level in range(env.layout.plan.levels):
            tasks = env.layout.tasks_on(level)
            for report, sent in _run_tasks(env, batch, versions, tasks, inputs, committer, shared_time):
                reports.append(report)
                for receiver, data in sent:
                    inputs[receiver].append(data)
    return reports


def run_tasks(
    env: TaskEnvironment,
    batch: Batch,
    versions: Mapping[str, StateVersion],
    tasks: Iterable[int],
    inputs: ShuffleInputs,
    *,
    is_first: bool,
    shared_time: SharedTime | None = None,
) -> Iterator[TaskOutput]:
    """Run some tasks of a level and take their data out of ``inputs``; the first part also reports global tables."""
    with profiled(profile_dir(env.state_dir)):
        refreshed = _refresh_global_tables(env, batch)
        if is_first:
            yield from (TaskOutput(report, []) for report in refreshed)
        yield from _run_tasks(env, batch, versions, tasks, inputs, TASK_COMMITTER, shared_time)


def restore_tasks(
    env: TaskEnvironment, batch: Batch, versions: Mapping[str, StateVersion], tasks: Iterable[int]
) -> int:
    """Restore the states of tasks that this host lacks, as they were before a batch; return their number."""
    if env.changelogs is not None:
        return _restore_from_changelogs(env, env.changelogs, versions, tasks)
    checkpoint, names = env.checkpoint, task_names(env.layout)
    if checkpoint is None:
        return 0
    named = [(task, names[task]) for task in tasks if names[task] in versions]
    return sum(
        bool(checkpoint.of_task(name).restore(env.state(task), versions[name], batch.number)) for task, name in named
    )


def _restore_from_changelogs(
    env: TaskEnvironment, changelogs: TaskChangelogs, versions: Mapping[str, StateVersion], tasks: Iterable[int]
) -> int:
    names = task_names(env.layout)
    restored = 0
    for task in tasks:
        state, version = env.state(task), versions.get(names[task])
        if version is not None and state.read_version().commit != version.commit:
            stage, partition = env.stage(task)
            changelogs.of_task(stage.name, partition).restore(state)
            restored += 1
    return restored


def _refresh_global_tables(env: TaskEnvironment, batch: Batch) -> list[TaskReport]:
    """Advance this host's copies of global tables to the offsets of a batch; report what the batch changed."""
    report = env.refresh_global_tables(batch.global_tables, batch.number) if batch.global_tables else None
    return [] if report is None else [report]


def _run_tasks(
    env: TaskEnvironment,
    batch: Batch,
    versions: Mapping[str, StateVersion],
    tasks: Iterable[int],
    inputs: ShuffleInputs,
    committer: Committer,
    shared_time: SharedTime | None,
) -> Iterator[TaskOutput]:
    names = task_names(env.layout)
    for task in tasks:
        version = versions.get(names[task], StateVersion())
        task_input = task_input_of(env.layout, batch, task, version, inputs.pop(task, ()))
        if shared_time is not None:
            task_input = shared_time.applied_to(task_input)
        report, blocks = run_task(env, task_input, committer)
        if shared_time is not None:
            shared_time.observe(task, report.stream_time)
        yield TaskOutput(report, list(shuffle_inputs_of(env.layout, task, blocks)))


def task_input_of(
    layout: Layout, batch: Batch, task: int, version: StateVersion, shuffle_inputs: Iterable[ShuffleInput] = ()
) -> TaskInput:
    """Return the input of a task in a batch."""
    number, partition = layout.tasks[task]
    stage = layout.plan.stages[number]
    name = f"{stage.name}/{partition}"
    return TaskInput(
        task=task,
        batch=batch.number,
        wall_time=batch.wall_time,
        expected=version,
        ranges=tuple(part for part in batch.ranges if part.partition == partition and stage.reads(part.topic)),
        shuffle_inputs=tuple(shuffle_inputs),
        has_timer=name in batch.timers,
        tick=batch.ticks.get(name, -1) if stage.round == 0 else -1,
        global_tables=batch.global_tables,
    )


def shuffle_inputs_of(layout: Layout, sender: int, blocks: Iterable[OutboxBlock]) -> Iterator[tuple[int, ShuffleInput]]:
    """Yield the blocks of a task for other stages, each with the task that receives it."""
    stages = {edge.name: number for edge, number in layout.reading_stage.items()}
    for block in blocks:
        if block.edge not in stages:
            continue  # from a stored outbox: the reader was removed from the topology since
        yield layout.first_task[stages[block.edge]] + block.partition, ShuffleInput(block.edge, sender, block.data)
