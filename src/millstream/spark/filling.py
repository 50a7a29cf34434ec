"""Fill new tables from the past while the rest of the app goes on.

Two loops run beside each other: that of the app without the new tables, and that of the fill, which follows the
positions of the app. When the fill is close, the app stops between two batches, the fill reads up to exactly its
positions, and the tables become part of the app.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from millstream.admin.filling import expired, merges_of, open_fill, remove_fill
from millstream.admin.upgrade import Filled
from millstream.batch.activity import Activity
from millstream.batch.app_spec import AppSpec
from millstream.batch.assembly import Assembly, TaskSettings, batch_size
from millstream.batch.fill import Fill, FillProgress, fill_progress
from millstream.batch.lease import Lease
from millstream.batch.logs import log_event
from millstream.batch.loop import BatchLoop, LoopOptions, Until
from millstream.batch.report import BatchReport
from millstream.batch.supervisor import Supervisor
from millstream.batch.trigger import Trigger
from millstream.errors import StateError
from millstream.foundation.paths import fill_dir
from millstream.plan.layout import Layout
from millstream.spark.deployment import Deployment
from millstream.spark.engine import SparkEngine

_log = logging.getLogger(__name__)
_CLOSE_SECONDS = 2.0
_MAX_PASSES = 8
_REPORT_SECONDS = 1.0


class Filling:
    """One fill of an app; ``deployment`` runs the app without the new tables until they are filled."""

    def __init__(
        self, whole: AppSpec, fill: Fill, deployment: Deployment, lease: Lease, on_fill: Callable[[FillProgress], None]
    ) -> None:
        self._whole = whole
        self._fill = fill
        self._deployment = deployment
        self._on_fill = on_fill
        self._stopping = threading.Event()
        """The run has to end; the next one continues."""
        self._pausing = threading.Event()
        """The app has to end its loop, because the fill is close or has failed."""
        self._error: BaseException | None = None
        self._next_report = 0.0
        self._stops: dict[str, int] = {}
        config = msgspec.structs.replace(whole.config, small_batch_records=0)
        self._spec = dataclasses.replace(whole, plan=fill.computed.of(whole.plan), part=fill.computed, config=config)
        self._layout = self._computed_layout()
        positions = deployment.journal.read()[0].positions
        self._journal = open_fill(whole.data_dir, whole.id, fill, positions, durable=whole.is_durable)
        directory = fill_dir(whole.data_dir, whole.id)
        settings = msgspec.structs.replace(
            TaskSettings.of(self._spec, self._journal.lineage()),
            app=f"{whole.id}.fill",
            state_dir=str(directory / "state"),
        )
        self._assembly = Assembly(settings, self._layout, deployment.broker)
        self._activity = Activity()
        self._engine = SparkEngine(self._spec, self._assembly, lease, Trigger(), self._journal, self._activity)
        self.expired = expired(deployment.broker, self._spec.plan.source_topics)
        for topic, count in self.expired.items():
            facts = {"app": whole.id, "topic": topic, "records": count, "tables": ", ".join(fill.tables)}
            log_event(_log, logging.WARNING, "filled without records that retention has deleted", facts)

    def _computed_layout(self) -> Layout:
        """Lay the fill out with as many tasks as the app has for the same stores."""
        whole = self._deployment.layout_of(self._whole)
        tasks = {
            store: count
            for stage, count in zip(whole.plan.stages, whole.partitions, strict=True)
            for store in stage.store_names
        }
        before = {stage.name: tasks[stage.store_names[0]] for stage in self._spec.plan.stages if stage.store_names}
        topics = {topic: self._deployment.broker.topic(topic).partitions for topic in self._spec.plan.source_topics}
        return Layout.of(self._spec.plan, topics, otherwise=self._whole.config.partitions, before=before)

    def stop(self) -> None:
        """End both loops after their current batches."""
        self._stopping.set()
        self._pausing.set()

    def run(self, until: Until, options: LoopOptions) -> None:
        """Fill the tables and make them part of the app; returns early if the run is stopped."""
        thread = threading.Thread(target=self._follow, name="millstream-fill", daemon=True)
        thread.start()
        try:
            self._run_app(until, options)
        except BaseException:
            self.stop()
            raise
        finally:
            thread.join()
        if self._error is not None:
            raise self._error
        if not self._stopping.is_set():
            self._fill_up_to_app()
        if not self._stopping.is_set():
            self._adopt()

    def _run_app(self, until: Until, options: LoopOptions) -> None:
        """Run the app without the new tables; without a resident task, which could take the only slot of the fill."""
        deployment = self._deployment
        options = dataclasses.replace(options, stopping=self._pausing)
        supervisor = Supervisor(
            self._whole.id,
            deployment.journal,
            lambda: deployment.loop(options),
            stopping=self._pausing,
            activity=options.activity,
            lay_out_again=deployment.lay_out,
        )
        supervisor.run(until)

    def _follow(self) -> None:
        """Fill up to the positions of the app, again and again, until the fill is close to them."""
        try:
            for _ in range(_MAX_PASSES):
                began = time.monotonic()
                self._fill_up_to_app()
                if self._stopping.is_set() or time.monotonic() - began < _CLOSE_SECONDS:
                    break
        except BaseException as error:
            self._error = error
        finally:
            self._pausing.set()

    def _fill_up_to_app(self) -> None:
        """Fill up to the current positions of the app; topics that it has not read yet up to their current ends."""
        broker = self._deployment.broker
        ends = {
            f"{topic}/{partition}": offsets.end
            for topic in self._assembly.layout.plan.source_topics
            for partition, offsets in enumerate(broker.offsets(topic))
        }
        read = {name.rpartition("/")[0] for name in self._deployment.journal.read()[0].positions}
        unread = {name: end for name, end in ends.items() if name.rpartition("/")[0] not in read}
        self._stops = {**unread, **self._deployment.journal.read()[0].positions}
        options = LoopOptions(stopping=self._stopping, activity=self._activity, on_batch=self._report)
        supervisor = Supervisor(
            f"{self._whole.id}.fill",
            self._journal,
            lambda: self._loop(options),
            stopping=self._stopping,
            activity=self._activity,
        )
        supervisor.run("caught-up")

    def _loop(self, options: LoopOptions) -> BatchLoop:
        planner = self._assembly.planner(batch_size(self._spec.config), stops=lambda: self._stops)
        return self._assembly.loop(self._journal, planner, self._engine.connect().execute, options)

    def _report(self, _report: BatchReport) -> None:
        if time.monotonic() >= self._next_report:
            self._next_report = time.monotonic() + _REPORT_SECONDS
            progress = fill_progress(self._whole.data_dir, self._whole.id, self._deployment.broker)
            if progress is not None:
                self._on_fill(progress)

    def _adopt(self) -> None:
        """Make the tables part of the app, in one commit of its journal."""
        whole, deployment = self._whole, self._deployment
        progress, planned = deployment.journal.read()
        filled = self._journal.read()[0].positions
        behind = {name: offset for name, offset in self._stops.items() if filled.get(name, offset) != offset}
        if planned is not None or behind:
            raise StateError(
                f"tables {', '.join(self._fill.tables)} were filled to other positions than those of the app: {behind}",
                hint="start the app again: the fill continues",
            )
        data_dir: Path = whole.data_dir
        merges = merges_of(self._fill, self._layout, deployment.layout_of(whole), data_dir, whole.id)
        self._journal.close()
        new = {name: offset for name, offset in filled.items() if name not in progress.positions}
        deployment.spec = whole
        deployment.lay_out(filled=Filled(tables=self._fill.filled, merges=merges, positions=new))
        remove_fill(data_dir, whole.id)
        group = f"{whole.id}.fill"
        if group in deployment.broker.group_names():
            deployment.broker.delete_group(group)
        done = sum(filled.values())
        self._on_fill(FillProgress(tables=self._fill.tables, done=done, total=done))
