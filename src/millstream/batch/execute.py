"""Run the tasks of a batch: by level, letters of one level being the arrivals of the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from millstream.batch.batch import Batch
from millstream.batch.timers import SharedTime
from millstream.plan.layout import Layout
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.outbox import OutboxBlock
from millstream.task.report import TaskReport
from millstream.task.runner import run_task
from millstream.task.task_input import ShuffleInput, TaskInput

RunTask = Callable[[TaskEnvironment, TaskInput], tuple[TaskReport, list[OutboxBlock]]]
"""Runs a task, and returns what it has for other stages."""


def task_names(layout: Layout) -> list[str]:
    """Return the stable name of each task, which does not change when other stages come or go."""
    return [f"{layout.plan.stages[stage].name}/{partition}" for stage, partition in layout.tasks]


def work_of(
    layout: Layout, plan: Batch, task: int, version: StateVersion, arrivals: Iterable[ShuffleInput] = ()
) -> TaskInput:
    """Return what a batch asks of a task."""
    number, partition = layout.tasks[task]
    stage = layout.plan.stages[number]
    return TaskInput(
        task=task,
        batch=plan.number,
        wall_time=plan.wall_time,
        expected=version,
        ranges=tuple(one for one in plan.ranges if one.partition == partition and stage.reads(one.topic)),
        shuffle_inputs=tuple(arrivals),
        has_timer=stage.round == 0 and f"{stage.name}/{partition}" in plan.timers,
        tick=plan.ticks.get(f"{stage.name}/{partition}", -1) if stage.round == 0 else -1,
        global_tables=plan.global_tables,
    )


def delivered(layout: Layout, sender: int, letters: Iterable[OutboxBlock]) -> Iterable[tuple[int, ShuffleInput]]:
    """Turn a task's letters into arrivals at the tasks that they are for."""
    stages = {edge.name: number for edge, number in layout.reading_stage.items()}
    for letter in letters:
        if letter.edge not in stages:
            continue  # served again by a task that ran it before its reader was taken out of the topology
        yield layout.first_task[stages[letter.edge]] + letter.partition, ShuffleInput(letter.edge, sender, letter.data)


def refresh_global_tables(site: TaskEnvironment, plan: Batch) -> list[TaskReport]:
    """Bring this host's copies of global tables to where a batch wants them; return what the batch did to them."""
    report = site.refresh_global_tables(plan.global_tables, plan.number) if plan.global_tables else None
    return [] if report is None else [report]


def run_here(
    site: TaskEnvironment,
    plan: Batch,
    versions: Mapping[str, StateVersion],
    shared: SharedTime | None = None,
    run: RunTask = run_task,
) -> list[TaskReport]:
    """Run a whole batch in this process, level by level; with ``shared`` all tasks have one stream time."""
    names = task_names(site.layout)
    arrivals: dict[int, list[ShuffleInput]] = defaultdict(list)
    reports = refresh_global_tables(site, plan)
    for level in range(site.layout.plan.levels):
        for task in site.layout.tasks_on(level):
            work = work_of(site.layout, plan, task, versions.get(names[task], StateVersion()), arrivals.pop(task, ()))
            if shared is not None:
                work = shared.tell(names[task], work)
            report, letters = run(site, work)
            if shared is not None:
                shared.hear(names[task], report.stream_time)
            reports.append(report)
            for receiver, arrival in delivered(site.layout, task, letters):
                arrivals[receiver].append(arrival)
    return reports
