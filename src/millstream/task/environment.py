"""What a process needs to run tasks: the layout, the broker, the place of the state, the policies."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from millstream.broker import Broker, TopicConfig
from millstream.errors import TopicExistsError, UnknownTopicError
from millstream.foundation.names import producer_prefix
from millstream.plan.layout import Layout
from millstream.plan.stages import Stage
from millstream.state.checkpoint import Checkpoint
from millstream.state.copies import CopyMark, TableCopy
from millstream.state.task import TaskState
from millstream.task.global_tables import bring_up, copy_of, report_of
from millstream.task.policy import Policies
from millstream.task.report import TaskReport
from millstream.task.sampling import Sampling

_DEAD_LETTER_BYTES = 32 << 20


@dataclass
class TaskEnvironment:
    """One app in one process."""

    app: str
    layout: Layout
    broker: Broker
    state_dir: Path
    policies: Policies
    lineage: str = ""
    """Which history of the app this is; a reset begins another one."""
    caching: bool = True
    durable: bool = True
    new_topic: TopicConfig | None = None
    """How topics that a record names first are created; None: they are not."""
    checkpoint: Checkpoint | None = None
    """Where state is shipped, so that other hosts can go on from it."""
    sampling: Sampling = field(default_factory=Sampling)
    """Which batches are measured step by step."""
    _topics: dict[str, TopicConfig] = field(default_factory=dict)
    _states: dict[int, TaskState] = field(default_factory=dict)

    def stage(self, task: int) -> tuple[Stage, int]:
        """Return the stage of a task and its partition."""
        number, partition = self.layout.tasks[task]
        return self.layout.plan.stages[number], partition

    def state(self, task: int) -> TaskState:
        """Open the state of a task, which then stays open for its next batches."""
        known = self._states.get(task)
        if known is None or not known.is_open:
            stage, partition = self.stage(task)
            path = self.state_dir / stage.name / str(partition)
            known = self._states[task] = TaskState(path, stage.store_names, sync=self.durable)
        return known

    def refresh(self, offsets: Mapping[str, tuple[int, ...]], batch: int) -> TaskReport | None:
        """Bring the copies of global tables to the offsets of a batch; return what the batch did to them, if it did."""
        marks: dict[str, CopyMark] = {}
        for topic, node in self.layout.plan.global_tables.items():
            copy = self.global_table(topic)
            marks[node.name or ""] = bring_up(node, copy, offsets.get(topic, ()), batch, self.broker, self.policies)
        return report_of(marks, batch)

    def global_table(self, topic: str) -> TableCopy:
        """Return this host's copy of the global table of a topic."""
        return copy_of(self.layout.plan.global_tables[topic], self.state_dir, sync=self.durable)

    def producer(self, task: int) -> str:
        """Return the name under which a task publishes.

        The lineage stands before it, because batches are counted anew after a reset: without it their output would be
        taken for something that was published before.
        """
        stage, partition = self.stage(task)
        again = f".{stage.round}" if stage.round else ""
        return f"{self.lineage}@{producer_prefix(self.app, stage.name)}{partition}{again}"

    def topic(self, topic: str) -> TopicConfig:
        """Return the settings of an output topic, creating it if that is allowed."""
        if topic not in self._topics:
            try:
                self._topics[topic] = self.broker.topic(topic).config
            except UnknownTopicError:
                if self.new_topic is None:
                    raise
                self._topics[topic] = self._created(topic, self.new_topic)
        return self._topics[topic]

    def _created(self, topic: str, config: TopicConfig) -> TopicConfig:
        if topic == self.policies.dead_letter_topic:  # the largest record must still fit with its error beside it
            config = msgspec.structs.replace(config, max_record_bytes=_DEAD_LETTER_BYTES)
        with contextlib.suppress(TopicExistsError):  # another task was first
            self.broker.create_topic(topic, config)
        return self.broker.topic(topic).config

    def topic_partitions(self, topic: str) -> int:
        """Return the number of partitions of an output topic."""
        return self.topic(topic).partitions

    def edge_partitions(self, edge: str) -> int:
        """Return the number of tasks that read an edge."""
        return next(
            self.layout.partitions[number] for node, number in self.layout.reading_stage.items() if node.name == edge
        )
