"""What each task of an app has done in its recent batches, and where: skew between tasks and between hosts."""

from __future__ import annotations

from pathlib import Path

import msgspec

from millstream.batch.journal import Journal
from millstream.foundation.paths import journal_dir
from millstream.task.report import TaskReport
from millstream.views.status import check_has_run

RECENT_BATCHES = 200


class TaskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of a task over recent batches; ``host`` ran it last, and is empty for an app on one host."""

    stage: str
    partition: int
    host: str
    batches: int
    """In how many of them it had work."""
    records_in: int
    seconds: float


def recent_tasks(data_dir: Path, app: str) -> list[TaskStatus]:
    """Return the tasks that had work in the last ``RECENT_BATCHES`` batches, those that took the most time first."""
    check_has_run(data_dir, app)
    reports: dict[str, list[TaskReport]] = {}
    for batch in Journal(journal_dir(data_dir, app), readonly=True).history.batches(RECENT_BATCHES):
        for task in batch.tasks:
            reports.setdefault(task.name, []).append(task)
    tasks = [
        TaskStatus(
            stage=done[-1].stage,
            partition=done[-1].partition,
            host=done[-1].host,
            batches=len(done),
            records_in=sum(task.records_in for task in done),
            seconds=sum(task.seconds for task in done),
        )
        for done in reports.values()
    ]
    return sorted(tasks, key=lambda task: -task.seconds)
