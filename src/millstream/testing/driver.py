"""The test driver: the same tasks and operators as on Spark, in this process, one record at a time."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

from millstream.app import App
from millstream.batch.batch import Batch, Progress, advanced
from millstream.batch.execute import run_batch, task_names
from millstream.batch.idle import IdleInputs
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.timers import SharedTime, timed_tasks
from millstream.batch.topics import SourceTopics
from millstream.broker import Output, TopicConfig
from millstream.durations import Duration, milliseconds
from millstream.errors import UnknownTableError
from millstream.foundation.blocks import block_of, headers_of
from millstream.foundation.partitioning import partition_of
from millstream.foundation.paths import state_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.plan.sinks import Sink
from millstream.plan.sources import Source
from millstream.records import Record
from millstream.serdes import JSON, READABLE, Serde
from millstream.tables.opening import readers_of
from millstream.tables.rows import TableReader
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies
from millstream.task.report import TaskReport
from millstream.testing.bench import scratch_directory
from millstream.testing.filling import fill
from millstream.testing.topic import Piped, TestTopic
from millstream.timestamps import not_whole

_FIGURES = ("records_in", "records_out", "dead_letters")


class TestDriver:
    """Runs an app record by record, with caching off and one partition per topic unless told otherwise.

    >>> app = App("doc")
    >>> app.stream("lines", value=str).group_by(lambda line: line).count(name="seen").to_stream().to("out")
    >>> with TestDriver(app) as driver:
    ...     driver.topic("lines").pipe("a", "a")
    ...     driver.topic("out").read_key_values(), driver.table("seen")["a"]
    ([('a', 1), ('a', 2)], 2)
    """

    __test__ = False  # not a test case, whatever its name makes pytest think

    def __init__(
        self,
        app: App,
        *,
        partitions: int = 1,
        caching: bool = False,
        wall_clock: int = 0,
        one_stream_time: bool = False,
    ) -> None:
        """Start the app; with ``one_stream_time`` all stages share their stream time, as in Kafka Streams' driver."""
        self.app = app
        self.wall_clock = wall_clock
        self.reports: list[TaskReport] = []
        self.dropped: Counter[str] = Counter()
        self._metrics = dict.fromkeys(_FIGURES, 0)
        self._plan = app.plan
        self._directory = scratch_directory()
        self._log = EmbeddedLog(self._directory, durability="os")
        self._new_topic = topics = TopicConfig(partitions=partitions)
        for topic in dict.fromkeys((*self._plan.source_topics, *self._plan.sink_topics)):
            self._log.create_topic(topic, topics)
        config = app.config
        self._site = TaskEnvironment(
            app=app.id,
            layout=Layout.of(self._plan, dict.fromkeys(self._plan.source_topics, partitions), otherwise=partitions),
            broker=self._log,
            state_dir=state_dir(self._directory, app.id),
            policies=Policies.of(app.id, config),
            caching=caching,
            durable=False,
            new_topic=topics,
        )
        timed = timed_tasks(self._site.layout)
        self._planner = Planner(
            self._log,
            SourceTopics(
                self._site.layout,
                self._log,
                dead_letters=self._site.policies.dead_letter_topic,
                look_seconds=0,
            ),
            BatchSize(config.max_batch_records, 1.0),
            timed=timed,
            whole=self._plan.global_tables,
            idle=IdleInputs(self._site.layout),
            clock=lambda: self.wall_clock,
        )
        self._shared = SharedTime(timed) if one_stream_time else None
        self._progress = Progress()
        self._read: dict[str, list[int]] = {}
        try:
            self._settle()  # processors may have something to do before the first record
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget everything."""
        self._log.close()
        close_environments(self._directory)
        shutil.rmtree(self._directory, ignore_errors=True)

    def topic(self, name: str, *, start: int | None = None, advance: Duration | None = None) -> TestTopic:
        """Return a topic to pipe records into or to read them from.

        With ``start`` and ``advance`` records without a timestamp get ``start``, and each further one ``advance`` more.
        """
        return TestTopic(self, name, start=start, advance=advance)

    def table(self, name: str) -> TableReader:
        """Return a table of the app or a store of a processor; ``driver.table("words")["a"]``."""
        tables = self.tables
        if name not in tables:
            known = ", ".join(sorted(tables)) or "none"
            raise UnknownTableError(f"app {self.app.id!r} has no table {name!r}", hint=f"its tables: {known}")
        return tables[name]

    def fill(self, table: str, rows: Mapping[Any, Any], *, timestamp: int = 0) -> None:
        """Put rows into a table or a key-value store of a processor, as if the app had run before."""
        fill(self._site, table, rows, timestamp)

    @property
    def tables(self) -> dict[str, TableReader]:
        """All tables of the app and stores of its processors, by name."""
        return readers_of(self._site.layout, self._site.state_dir)

    @property
    def metrics(self) -> dict[str, int]:
        """What all steps so far add up to; ``dropped`` tells the reasons of what was dropped."""
        return {**self._metrics, "dropped": self.dropped.total()}

    @property
    def topics(self) -> list[str]:
        """The topics that exist, also those that the app has made itself."""
        return self._log.topic_names()

    def advance_wall_clock(self, by: Duration) -> None:
        """Move the wall clock; it stands still otherwise."""
        self.wall_clock += milliseconds(by)
        self._settle()

    # What topics use

    def _append(self, topic: str, record: Piped, key: Serde, value: Serde) -> None:
        item_key, item, timestamp, headers = record
        if type(timestamp) is not int:
            raise not_whole(timestamp)
        if topic in self._plan.stamped_topics:
            timestamp = self.wall_clock
        if topic not in self.topics and self._is_read(topic):
            self._log.create_topic(topic, self._new_topic)
        raw_key = None if item_key is None else key.encode(item_key)
        raw = None if item is None else value.encode(item)
        partition = 0 if raw_key is None else partition_of(raw_key, self._log.topic(topic).partitions)
        self._log.append([Output(topic, partition, block_of([raw_key], [raw], [timestamp], [headers]))])
        if self._is_read(topic):
            self._settle()

    def _is_read(self, topic: str) -> bool:
        return any(source.reads(topic) for source in self._plan.sources)

    def _settle(self) -> None:
        """Process everything there is, also what the app writes to its own inputs."""
        while (plan := self._next_plan()) is not None:
            reports = run_batch(self._site, plan, self._progress.versions, shared_time=self._shared)
            self._progress = advanced(self._progress, plan, task_names(self._site.layout), reports)
            self.reports = reports
            for report in reports:
                self.dropped.update(report.dropped)
                for figure in _FIGURES:
                    self._metrics[figure] += getattr(report, figure)

    def _next_plan(self) -> Batch | None:
        if self._shared is not None and not self._shared.is_known:
            return self._planner.batch(self._progress)
        return self._planner.plan(self._progress)

    def _count_unread(self, topic: str) -> int:
        positions = self._positions(topic)
        return sum(offsets.end - at for offsets, at in zip(self._log.offsets(topic), positions, strict=True))

    def _positions(self, topic: str) -> list[int]:
        return self._read.setdefault(topic, [0] * self._log.topic(topic).partitions)

    def _take(self, topic: str, key: Serde, value: Serde, most: int | None = None) -> list[Record]:
        """Return records that were not read yet, by partition."""
        positions = self._positions(topic)
        found: list[Record] = []
        for partition, offsets in enumerate(self._log.offsets(topic)):
            stop = offsets.end if most is None else min(offsets.end, positions[partition] + most - len(found))
            start, positions[partition] = positions[partition], stop
            for chunk in self._log.read(topic, partition, start, stop):
                heads = headers_of(chunk.block) or [()] * len(chunk.block)
                columns = (chunk.block.column(number).to_pylist() for number in range(3))
                for offset, raw_key, raw, timestamp, headers in zip(chunk.offsets, *columns, heads, strict=True):
                    item_key = None if raw_key is None else key.decode(raw_key)
                    item = None if raw is None else value.decode(raw)
                    found.append(Record(topic, partition, int(offset), item_key, item, timestamp, headers))
        return found

    def _serdes_of(self, topic: str) -> tuple[Serde, Serde]:
        """Return how a topic is read: as a source declares it, or as the sink that writes it does."""
        for node in self._plan.nodes:
            declared = self._plan.declared[node]
            if (isinstance(node, Source) and node.reads(topic)) or (isinstance(node, Sink) and node.topic == topic):
                return declared.key or READABLE, declared.value or JSON
        return READABLE, JSON
