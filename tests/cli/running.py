"""Runs an app in this process until it has caught up, with the same data directory as after a run on Spark."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from itertools import count

from tests.assembling import assemble, local_loop

from millstream import App
from millstream.admin.upgrade import upgrade
from millstream.batch.execute import run_batch
from millstream.batch.journal import Journal
from millstream.batch.write_behind import DeferredJournal, WriteBehind
from millstream.broker import TopicConfig
from millstream.foundation.paths import journal_dir, state_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.changes import StageChange
from millstream.tables.opening import catalog_of
from millstream.task.sampling import Sampling


def run_to_end(
    app: App,
    *,
    reset: Collection[str] = (),
    measured: bool = False,
    behind: bool = False,
    durable: bool = False,
) -> list[StageChange]:
    """Process all records, and return what the topology changed in the state of each stage.

    With ``measured``, every batch is sampled. With ``behind``, state is written behind, as a resident task does. Only
    ``durable`` state survives a power failure, which is the default on Spark.
    """
    with EmbeddedLog(app.data_dir) as log:
        journal = Journal(journal_dir(app.data_dir, app.id))
        new_topic = TopicConfig(partitions=2)
        assembly = assemble(app, log, lineage=journal.lineage(), durable=durable, new_topic=new_topic)
        catalog = {**catalog_of(assembly.layout), "sql": app._spec().sql}
        changes = upgrade(journal, state_dir(app.data_dir, app.id), catalog, reset)
        env = assembly.environment()
        if measured:
            env.sampling = Sampling(count(step=1000).__next__)
        late = WriteBehind(env, DeferredJournal(journal_dir(app.data_dir, app.id))) if behind else None
        execute = late or partial(run_batch, env)
        batch_records = min(1000, app.config.max_batch_records)
        local_loop(assembly, late.journal if late else journal, execute, batch_records=batch_records).run("caught-up")
        if late:
            late.close()
    close_environments(app.data_dir)
    return changes
