"""Run the tasks of a batch: by level, letters of one level being the arrivals of the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from millstream.batch.plan import BatchPlan
from millstream.plan.layout import Layout
from millstream.state.task import Version
from millstream.task.outbox import Letter
from millstream.task.report import TaskReport
from millstream.task.runner import run_task
from millstream.task.work import Arrival, Work
from millstream.task.worksite import Worksite


def task_names(layout: Layout) -> list[str]:
    """Return the stable name of each task, which does not change when other stages come or go."""
    return [f"{layout.plan.stages[stage].name}/{partition}" for stage, partition in layout.tasks]


def work_of(layout: Layout, plan: BatchPlan, task: int, version: Version, arrivals: Iterable[Arrival] = ()) -> Work:
    """Return what a batch asks of a task."""
    stage, partition = layout.tasks[task]
    topics = layout.plan.stages[stage].topics
    return Work(
        task=task,
        batch=plan.number,
        wall_time=plan.wall_time,
        expected=version,
        ranges=tuple(one for one in plan.ranges if one.partition == partition and one.topic in topics),
        arrivals=tuple(arrivals),
    )


def delivered(layout: Layout, sender: int, letters: Iterable[Letter]) -> Iterable[tuple[int, Arrival]]:
    """Turn a task's letters into arrivals at the tasks that they are for."""
    stages = {edge.name: number for edge, number in layout.reading_stage.items()}
    for letter in letters:
        if letter.edge not in stages:
            continue  # served again by a task that ran it before its reader was taken out of the topology
        yield layout.first_task[stages[letter.edge]] + letter.partition, Arrival(letter.edge, sender, letter.data)


def run_here(site: Worksite, plan: BatchPlan, versions: Mapping[str, Version]) -> list[TaskReport]:
    """Run a whole batch in this process, level by level."""
    names = task_names(site.layout)
    arrivals: dict[int, list[Arrival]] = defaultdict(list)
    reports: list[TaskReport] = []
    for level in range(site.layout.plan.levels):
        for task in site.layout.tasks_on(level):
            work = work_of(site.layout, plan, task, versions.get(names[task], Version()), arrivals.pop(task, ()))
            report, letters = run_task(site, work)
            reports.append(report)
            for receiver, arrival in delivered(site.layout, task, letters):
                arrivals[receiver].append(arrival)
    return reports
