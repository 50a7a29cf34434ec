"""Runs an app to its end in this process, as Spark would, and leaves the same traces in the data directory."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from itertools import count

from millstream import App
from millstream.admin.upgrade import upgrade
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.write_behind import PatientJournal, WriteBehind
from millstream.broker import TopicConfig
from millstream.foundation.paths import journal_dir, state_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.changes import StageChange
from millstream.plan.layout import Layout
from millstream.tables.opening import catalog_of
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies
from millstream.task.sampling import Sampling


def run_to_end(
    app: App,
    *,
    reset: Collection[str] = (),
    measured: bool = False,
    behind: bool = False,
    durable: bool = False,
) -> list[StageChange]:
    """Process everything that is there and return what became of the state.

    All steps are ``measured``, or as it comes; state is written at once or ``behind``, as a resident task does. Only
    ``durable`` state outlives a power cut, as it does by default on Spark.
    """
    with EmbeddedLog(app.data_dir) as log:
        plan = app.plan
        layout = Layout.of(plan, {topic: log.topic(topic).partitions for topic in plan.source_topics})
        journal = Journal(journal_dir(app.data_dir, app.id))
        changes = upgrade(journal, state_dir(app.data_dir, app.id), catalog_of(layout), reset)
        size = BatchSize(min(1000, app.config.max_batch_records), 1.0)
        site = TaskEnvironment(
            app=app.id,
            layout=layout,
            broker=log,
            state_dir=state_dir(app.data_dir, app.id),
            policies=Policies.of(app.id, app.config),
            caching=app.config.caching,
            lineage=journal.lineage(),
            durable=durable,
            new_topic=TopicConfig(partitions=2),
            sampling=Sampling(count(step=1000).__next__) if measured else Sampling(),
        )
        late = WriteBehind(site, PatientJournal(journal_dir(app.data_dir, app.id))) if behind else None
        BatchLoop(
            app=app.id,
            broker=log,
            journal=late.journal if late else journal,
            planner=Planner(log, plan.source_topics, size),
            size=size,
            task_names=task_names(layout),
            execute=late or partial(run_batch, site),
        ).run("caught-up")
        if late:
            late.close()
    close_environments(app.data_dir)
    return changes
