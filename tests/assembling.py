"""Assemble apps for tests that run batches in this process, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from millstream import App
from millstream.batch.app_spec import AppSettings
from millstream.batch.assembly import Assembly, TaskSettings
from millstream.batch.execute import run_batch
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop, Execute, LoopOptions
from millstream.batch.planner import BatchSize
from millstream.broker import Broker
from millstream.plan.layout import Layout


def assemble(app: App, broker: Broker, *, partitions: Mapping[str, int] | None = None, **settings: Any) -> Assembly:
    """Lay an app out over the topics of a broker; ``settings`` replace those that follow from its config."""
    plan = app.plan
    if partitions is None:
        partitions = {topic: broker.topic(topic).partitions for topic in plan.source_topics}
    by_config = TaskSettings.of(AppSettings(id=app.id, config=app.config, data_dir=app.data_dir))
    return Assembly(msgspec.structs.replace(by_config, **settings), Layout.of(plan, partitions), broker)


def local_loop(
    assembly: Assembly, journal: Journal, execute: Execute | None = None, *, batch_records: int = 1000, **options: Any
) -> BatchLoop:
    """Return a loop that runs its batches in this process unless ``execute`` does something else."""
    planner = assembly.planner(BatchSize(batch_records, 1.0))
    execute = execute or partial(run_batch, assembly.environment())
    return assembly.loop(journal, planner, execute, LoopOptions(**options))
