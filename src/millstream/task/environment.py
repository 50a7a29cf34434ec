"""What a process needs to run tasks: the layout, the broker, the state directory, the error policies."""

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
from millstream.state.copies import CopyVersion, TableCopy
from millstream.state.task import TaskState
from millstream.task.changelog import OnTaskRestore, ignore_restore
from millstream.task.global_tables import advance_copy, global_tables_report, open_copy
from millstream.task.policy import Policies
from millstream.task.processing_log import RETENTION_BYTES, RETENTION_MS
from millstream.task.report import TaskReport
from millstream.task.sampling import Sampling
from millstream.task.task_changelog import TaskChangelogs

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
    """Identifies the history of the app; a reset starts a new one."""
    caching: bool = True
    durable: bool = True
    new_topic: TopicConfig | None = None
    """Settings for output topics that do not exist yet; None: do not create them."""
    checkpoint: Checkpoint | None = None
    """The location to which state changes are uploaded, so that other hosts can continue from them."""
    changelogs: TaskChangelogs | None = None
    """The topics to which state changes are written together with the output; None: state is on this host only."""
    at_least_once: bool = False
    """With changelogs: publish the output of small batches before their state and progress are committed."""
    on_restore: OnTaskRestore = ignore_restore
    """Called while a task restores its state from the checkpoint before it runs."""
    sampling: Sampling = field(default_factory=Sampling)
    """Decides which batches are measured step by step."""
    _topics: dict[str, TopicConfig] = field(default_factory=dict)
    _states: dict[int, TaskState] = field(default_factory=dict)

    def stage(self, task: int) -> tuple[Stage, int]:
        """Return the stage of a task and its partition."""
        number, partition = self.layout.tasks[task]
        return self.layout.plan.stages[number], partition

    def state(self, task: int) -> TaskState:
        """Return the state of a task; it stays open for the next batches."""
        state = self._states.get(task)
        if state is None or not state.is_open:
            stage, partition = self.stage(task)
            path = self.state_dir / stage.name / str(partition)
            state = self._states[task] = TaskState(path, stage.store_names, sync=self.durable)
        return state

    def refresh_global_tables(self, offsets: Mapping[str, tuple[int, ...]], batch: int) -> TaskReport | None:
        """Advance the copies of global tables to the offsets of a batch; return a report if the batch changed them."""
        versions: dict[str, CopyVersion] = {}
        for topic, node in self.layout.plan.global_tables.items():
            copy = self.global_table(topic)
            versions[node.name or ""] = advance_copy(
                node, copy, offsets.get(topic, ()), batch, self.broker, self.policies
            )
        return global_tables_report(versions, batch)

    def global_table(self, topic: str) -> TableCopy:
        """Return this host's copy of the global table of a topic."""
        return open_copy(self.layout.plan.global_tables[topic], self.state_dir, sync=self.durable)

    def producer(self, task: int) -> str:
        """Return the producer name under which a task publishes.

        It starts with the lineage because batch numbers restart after a reset: without the lineage, the output of new
        batches would be taken for duplicates of output that was published before.
        """
        stage, partition = self.stage(task)
        round_suffix = f".{stage.round}" if stage.round else ""
        return f"{self.lineage}@{producer_prefix(self.app, stage.name)}{partition}{round_suffix}"

    def topic(self, topic: str) -> TopicConfig:
        """Return the settings of an output topic; create it if allowed."""
        if topic not in self._topics:
            try:
                self._topics[topic] = self.broker.topic(topic).config
            except UnknownTopicError:
                if self.new_topic is None:
                    raise
                self._topics[topic] = self._create_topic(topic, self.new_topic)
        return self._topics[topic]

    def _create_topic(self, topic: str, config: TopicConfig) -> TopicConfig:
        if topic == self.policies.dead_letter_topic:  # the largest record must fit together with its error headers
            config = msgspec.structs.replace(config, max_record_bytes=_DEAD_LETTER_BYTES)
        elif topic == self.policies.processing_log:
            config = msgspec.structs.replace(config, retention_ms=RETENTION_MS, retention_bytes=RETENTION_BYTES)
        with contextlib.suppress(TopicExistsError):  # another task created it first
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
