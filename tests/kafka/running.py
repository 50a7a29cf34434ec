"""Runs an app to its end in this process, on any broker, without Spark."""

from __future__ import annotations

from functools import partial

from millstream import App
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop
from millstream.batch.planner import BatchSize, Planner
from millstream.broker import Broker
from millstream.foundation.paths import journal_dir, state_dir
from millstream.foundation.storage import close_environments
from millstream.plan.layout import Layout
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies


def run_to_end(app: App, broker: Broker) -> None:
    """Process everything that is there, with the same loop and tasks as on Spark."""
    plan = app.plan
    layout = Layout.of(plan, {topic: broker.topic(topic).partitions for topic in plan.source_topics})
    journal = Journal(journal_dir(app.data_dir, app.id))
    size = BatchSize(1000, 1.0)
    site = TaskEnvironment(
        app=app.id,
        layout=layout,
        broker=broker,
        state_dir=state_dir(app.data_dir, app.id),
        policies=Policies.of(app.id, app.config),
        lineage=journal.lineage(),
    )
    try:
        BatchLoop(
            app=app.id,
            broker=broker,
            journal=journal,
            planner=Planner(broker, plan.source_topics, size),
            size=size,
            task_names=task_names(layout),
            execute=partial(run_batch, site),
        ).run("caught-up")
    finally:
        close_environments(app.data_dir)
