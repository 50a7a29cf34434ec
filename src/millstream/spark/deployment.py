"""The parts of a run that depend on the topology and on the partitions of its topics: layout, state and engine."""

from __future__ import annotations

import logging
from collections.abc import Collection

from millstream.admin.changelogs import bind_changelogs, has_changelogs, restore_states
from millstream.admin.checkpoints import fill_checkpoint, restore_from_checkpoint
from millstream.admin.inputs import bind_inputs
from millstream.admin.upgrade import Filled, upgrade
from millstream.batch.activity import Activity
from millstream.batch.app_spec import AppSpec
from millstream.batch.assembly import Assembly, TaskSettings, batch_size
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.logs import log_event
from millstream.batch.loop import BatchLoop, LoopOptions
from millstream.batch.pausing import forget_removed
from millstream.batch.planner import records_in
from millstream.batch.restoring import Restoring
from millstream.batch.topics import lay_out, read_topics
from millstream.batch.trigger import Trigger
from millstream.broker import Broker
from millstream.foundation.paths import state_dir
from millstream.plan.changes import StageChange, is_unchanged
from millstream.plan.layout import Layout
from millstream.spark.engine import SparkEngine
from millstream.spark.settings import is_local, master_of
from millstream.tables.opening import catalog_of
from millstream.task.policy import Policies

_log = logging.getLogger(__name__)


class Deployment:
    """An app that is laid out over the current partitions of its topics, and the engine for its tasks."""

    def __init__(
        self, spec: AppSpec, broker: Broker, journal: Journal, lease: Lease, trigger: Trigger, activity: Activity
    ) -> None:
        self.spec = spec
        self.broker = broker
        self.journal = journal
        self._lease = lease
        self._trigger = trigger
        self._activity = activity
        self.engine: SparkEngine | None = None

    def lay_out(self, reset: Collection[str] = (), filled: Filled | None = None) -> None:
        """Lay the app out over the current partitions of its topics; raises an error if its state does not fit them."""
        spec, broker, journal = self.spec, self.broker, self.journal
        layout = self.layout_of(spec)
        bind_inputs(spec.id, journal, broker, read_topics(spec, broker))
        self._restore_states()
        self._report_pauses()
        self.changes = _upgrade(spec, broker, layout, journal, reset, filled)
        topics = bind_changelogs(spec, journal, broker, layout) if has_changelogs(spec, broker) else None
        if topics is None and spec.config.checkpoint is not None:
            fill_checkpoint(spec.id, state_dir(spec.data_dir, spec.id), journal, spec.config.checkpoint)
        self.assembly = Assembly(TaskSettings.of(spec, journal.lineage(), topics), layout, broker)
        backlog = self.assembly.planner(batch_size(spec.config)).backlog(journal.read()[0])
        self.waiting_records = records_in(backlog)
        self.close()
        self.engine = SparkEngine(spec, self.assembly, self._lease, self._trigger, journal, self._activity)

    def _restore_states(self) -> None:
        """Bring the state on this host up to date, if the tasks run here; on a cluster, tasks do that themselves."""
        spec, journal = self.spec, self.journal
        directory, restoring = state_dir(spec.data_dir, spec.id), Restoring(self._activity)
        if not is_local(master_of(spec.config.master)):
            return
        if has_changelogs(spec, self.broker):
            restore_states(spec.id, directory, journal, self.broker, restoring, spec.config.checkpoint)
        elif spec.config.checkpoint is not None:
            restore_from_checkpoint(spec.id, directory, journal, spec.config.checkpoint, restoring)
        self._activity.set("starting", "idle")

    def _report_pauses(self) -> None:
        """Log what stays paused, which would look like an app that has stopped working."""
        queries = (self.spec.sql or {}).get("queries", ())
        topics = {query["name"]: tuple(query["topics"]) for query in queries}
        pauses = forget_removed(state_dir(self.spec.data_dir, self.spec.id), topics)
        if pauses.is_app_paused:
            log_event(_log, logging.WARNING, "the app is paused; RESUME ALL continues it", {"app": self.spec.id})
        for name, query in pauses.queries.items():
            log_event(_log, logging.WARNING, f"a query is {query.kind}", {"app": self.spec.id, "query": name})

    def layout_of(self, spec: AppSpec) -> Layout:
        """Return the layout of a part of the app or of all of it."""
        return lay_out(spec, self.broker, self.journal.catalog().get("partitions", {}))

    def describe_jobs(self) -> str:
        """Describe what the engine is running."""
        return "" if self.engine is None else self.engine.describe_jobs()

    def cancel(self) -> None:
        """Cancel the jobs of the engine."""
        if self.engine is not None:
            self.engine.cancel()

    def close(self) -> None:
        """Leave the cores of a cluster to others."""
        if self.engine is not None:
            self.engine.close()

    def loop(self, options: LoopOptions) -> BatchLoop:
        """Return the loop of the next attempt."""
        assert self.engine is not None
        return self.assembly.engine_loop(self.journal, self.spec.config, self.engine, options)


def _upgrade(
    app: AppSpec, broker: Broker, layout: Layout, journal: Journal, reset: Collection[str], filled: Filled | None
) -> list[StageChange]:
    """Adapt the state to the topology, and return what has changed in each stage."""
    policies = Policies.of(app.id, app.config)
    broker_url = None if app.broker_url is None else broker.url  # it refers to secrets, but does not contain them
    catalog = {**catalog_of(layout), "dead_letter_topic": policies.dead_letter_topic, "broker": broker_url}
    catalog["sql"] = app.sql
    changes = upgrade(journal, state_dir(app.data_dir, app.id), catalog, reset, filled)
    if filled is not None:
        log_event(_log, logging.WARNING, "filled from the past", {"app": app.id, "tables": ", ".join(filled.tables)})
    for change in [] if is_unchanged(changes) or filled is not None else changes:
        log_event(_log, logging.WARNING, "topology changed", {"app": app.id, "stage": str(change)})
    return changes
