"""Run a topology in this process without Spark and without a trace: its state is in a scratch directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast
from uuid import uuid4

import msgspec

from millstream.batch.assembly import Assembly, TaskSettings
from millstream.batch.batch import Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.batch.planner import BatchSize, Planner
from millstream.broker import Broker
from millstream.config import Config
from millstream.errors import DefinitionError
from millstream.foundation.paths import state_dir
from millstream.foundation.storage import close_environments
from millstream.plan.layout import Layout
from millstream.plan.sinks import SINKS
from millstream.plan.sources import TableSource
from millstream.plan.topology import Plan
from millstream.queries.metered import MeteredBroker
from millstream.task.policy import Policies

_FIRST_RECORDS, _MAX_RECORDS = 64, 10_000
_BATCH_BYTES = 32 << 20
"""A batch is held in memory: the first ones are small, and the next ones as large as the size of records allows."""
_MEANT = (": no_row", ": null_key", ": null_value")
"""Records that a join or a group leaves out by definition; others could not be read, or were too late."""
_CONFIG = Config(on_error="skip", on_decode_error="skip")


class TemporaryRun:
    """Runs the batches of a plan that has no sinks; it commits nothing."""

    def __init__(self, plan: Plan, broker: Broker, *, on_read: Callable[[int], None] | None = None) -> None:
        """``on_read`` is called with the bytes of records as they are read; what it raises ends the step."""
        if any(isinstance(node, SINKS) for node in plan.nodes):
            raise DefinitionError("a temporary run writes no topics", hint="run an app")
        self._meter = MeteredBroker(broker, on_read)
        self._broker = cast("Broker", self._meter)
        self._size = BatchSize(_FIRST_RECORDS, 1.0)
        self._topics = {topic: broker.topic(topic).partitions for topic in plan.source_topics}
        self._tables = {topic for node in plan.sources if isinstance(node, TableSource) for topic in node.topics}
        self._directory = Path(tempfile.mkdtemp(prefix="millstream-query-"))
        self.records = 0
        self.skipped = 0
        name = f"query-{uuid4().hex[:12]}"
        settings = TaskSettings(
            app=name,
            state_dir=str(state_dir(self._directory, name)),
            policies=Policies.of(name, _CONFIG),
            caching=False,
            durable=False,
        )
        try:
            self._assembly = Assembly(settings, Layout.of(plan, self._topics), self._broker)
            self._environment = self._assembly.environment()
            self._progress = Progress()
            self._planner = self._new_planner(None)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Delete the state."""
        close_environments(self._directory)
        shutil.rmtree(self._directory, ignore_errors=True)

    def ends(self) -> dict[str, int]:
        """Return the current end of each partition that is read."""
        return {
            f"{topic}/{partition}": offsets.end
            for topic in self._topics
            for partition, offsets in enumerate(self._broker.offsets(topic))
        }

    def skip_to(self, ends: Mapping[str, int]) -> None:
        """Read streams from these ends on; tables are read from their beginning all the same."""
        positions = {name: end for name, end in ends.items() if name.rpartition("/")[0] not in self._tables}
        self._progress = msgspec.structs.replace(self._progress, positions=positions)

    def stop_at(self, ends: Mapping[str, int] | None) -> None:
        """Read up to these ends, or with None everything."""
        self._planner = self._new_planner(ends)

    def step(self) -> bool:
        """Run the next batch; False if there is nothing to read."""
        batch = self._planner.plan(self._progress)
        if batch is None:
            return False
        before = self._meter.bytes
        reports = run_batch(self._environment, batch, self._progress.versions)
        self._progress = progress_after(self._progress, batch, task_names(self._assembly.layout), reports)
        self.records += batch.records
        self._adapt(batch.records, self._meter.bytes - before)
        dropped = [(reason, count) for report in reports for reason, count in report.dropped.items()]
        self.skipped += sum(count for reason, count in dropped if not reason.endswith(_MEANT))
        return True

    def wait(self, timeout: float) -> None:
        """Wait until there is something to read, at most for ``timeout`` seconds."""
        self._broker.wait(self._planner.positions(self._progress), timeout)

    def _new_planner(self, ends: Mapping[str, int] | None) -> Planner:
        stops = None if ends is None else (lambda: ends)
        return self._assembly.planner(self._size, stops=stops)

    def _adapt(self, records: int, read: int) -> None:
        """Make the next batch as large as its bytes may be, growing step by step."""
        fitting = _BATCH_BYTES * records // max(1, read)
        self._size.records = max(1, min(4 * self._size.records, fitting, _MAX_RECORDS))
