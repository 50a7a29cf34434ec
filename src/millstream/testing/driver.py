"""The test driver: the same tasks and operators as on Spark, in this process, one record at a time."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from millstream.app import App
from millstream.batch.assembly import Assembly, TaskSettings
from millstream.batch.batch import Batch, Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.batch.planner import BatchSize
from millstream.batch.timers import SharedTime
from millstream.broker import Output, TopicConfig
from millstream.connect.protocols import SinkBatch
from millstream.durations import Duration, milliseconds
from millstream.errors import UnknownTableError
from millstream.foundation.blocks import block_of, headers_of
from millstream.foundation.headers import TIMESTAMP_LIMIT, check_timestamp
from millstream.foundation.partitioning import partition_of
from millstream.foundation.paths import state_dir
from millstream.foundation.storage import close_environments
from millstream.foundation.type_variables import Key, Value
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.plan.sinks import Sink
from millstream.plan.sources import Source
from millstream.records import Record
from millstream.serdes import JSON, READABLE, Serde, SerdeLike, route_encoder
from millstream.tables.opening import readers_of
from millstream.tables.rows import TableReader
from millstream.task.policy import Policies
from millstream.task.report import TaskReport
from millstream.testing.bench import scratch_directory
from millstream.testing.connected import TestSink, TestSource
from millstream.testing.filling import fill
from millstream.testing.kafka_order import KafkaOrder
from millstream.testing.topic import Piped, TestTopic

_METRICS = ("records_in", "records_out", "dead_letters")


class TestDriver:
    """Runs an app record by record, by default without caching and with one partition per topic.

    >>> app = App("doc")
    >>> app.stream("lines", value=str).group_by(lambda line: line).count(name="seen").to_stream().to("out")
    >>> with TestDriver(app) as driver:
    ...     driver.topic("lines").pipe("a", "a")
    ...     driver.topic("out").read_key_values(), driver.table("seen")["a"]
    ([('a', 1), ('a', 2)], 2)
    """

    __test__ = False  # pytest would take it for a test case

    def __init__(
        self,
        app: App,
        *,
        partitions: int = 1,
        caching: bool = False,
        wall_clock: int = 0,
        one_stream_time: bool = False,
    ) -> None:
        """Start the app; with ``one_stream_time`` all stages are one task, as in Kafka Streams' driver.

        They then share one stream time and, on one partition and without caching, the order of their records.
        """
        self.app = app
        self.wall_clock = wall_clock
        self.reports: list[TaskReport] = []
        self.dropped: Counter[str] = Counter()
        self._metrics = dict.fromkeys(_METRICS, 0)
        self._plan = app.plan
        self._directory = scratch_directory()
        self._log = EmbeddedLog(self._directory, durability="os")
        self._new_topic = topics = TopicConfig(partitions=partitions)
        for topic in dict.fromkeys((*self._plan.source_topics, *self._plan.sink_topics)):
            self._log.create_topic(topic, topics)
        settings = TaskSettings(
            app=app.id,
            state_dir=str(state_dir(self._directory, app.id)),
            policies=Policies.of(app.id, app.config),
            caching=caching,
            durable=False,
            new_topic=topics,
        )
        layout = Layout.of(self._plan, dict.fromkeys(self._plan.source_topics, partitions), otherwise=partitions)
        self._assembly = Assembly(settings, layout, self._log)
        self._shared_time = SharedTime(layout) if one_stream_time else None
        self._order: KafkaOrder | None = None
        if self._shared_time is not None and not caching and KafkaOrder.matters(layout):
            self._order = KafkaOrder(layout, self._log, self._shared_time)
        self._progress = Progress()
        self._read: dict[str, list[int]] = {}
        self._sink_batches: dict[str, list[SinkBatch]] = {}
        self._is_holding = False
        self._start()
        try:
            self._settle()  # processors may have work before the first record
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        """Create the task environment and the planner, with new objects for everything that lives in memory."""
        self._environment = self._assembly.environment()
        size = BatchSize(self.app.config.max_batch_records, 1.0)
        self._planner = self._assembly.planner(size, clock=lambda: self.wall_clock, refresh_seconds=0)

    def close(self) -> None:
        """Delete all topics and state."""
        self._log.close()
        close_environments(self._directory)
        shutil.rmtree(self._directory, ignore_errors=True)

    def topic(
        self,
        name: str,
        *,
        key: SerdeLike[Key] = None,
        value: SerdeLike[Value] = None,
        start: int | None = None,
        advance: Duration | None = None,
    ) -> TestTopic[Key, Value]:
        """Return a topic to pipe records into or to read them from.

        By default its serdes are those that the app declares for it. With ``start`` and ``advance`` records without a
        timestamp get the time ``start``, and each further one is ``advance`` later.
        """
        return TestTopic(self, name, key=key, value=value, start=start, advance=advance)

    def sink(self, name: str) -> TestSink:
        """Return what the app sends to a sink: ``driver.sink("cache").batches``; the sink itself is not called."""
        return TestSink(self, name)

    def source(self, name: str) -> TestSource:
        """Return a source to change rows of: ``driver.source("shop").insert("orders", row, key=7)``."""
        return TestSource(self, name)

    def table(self, name: str) -> TableReader:
        """Return a table of the app or a store of a processor: ``driver.table("words")["a"]``."""
        tables = self.tables
        if name not in tables:
            names = ", ".join(sorted(tables)) or "none"
            raise UnknownTableError(f"app {self.app.id!r} has no table {name!r}", hint=f"its tables: {names}")
        return tables[name]

    def fill(self, table: str, rows: Mapping[Any, Any], *, timestamp: int = 0) -> None:
        """Write rows to a table or a key-value store of a processor, as if the app had run before."""
        fill(self._environment, table, rows, timestamp)

    @property
    def tables(self) -> dict[str, TableReader]:
        """All tables of the app and stores of its processors, by name."""
        return readers_of(self._environment.layout, self._environment.state_dir)

    @property
    def metrics(self) -> dict[str, int]:
        """Totals of all batches so far; the attribute ``dropped`` counts dropped records by reason."""
        return {**self._metrics, "dropped": self.dropped.total()}

    @property
    def broker(self) -> EmbeddedLog:
        """The log that the app reads and writes; what else writes to it is processed with the next piped record."""
        return self._log

    @property
    def topics(self) -> list[str]:
        """The existing topics, including those that the app created."""
        return self._log.topic_names()

    def advance_wall_clock(self, by: Duration) -> None:
        """Advance the wall clock, which otherwise stands still."""
        self.wall_clock += milliseconds(by)
        self._settle()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Process the records that are piped inside the block when it ends, as one batch."""
        self._is_holding = True
        try:
            yield
        finally:
            self._is_holding = False
        self._settle()

    # For TestTopic

    def _append(self, topic: str, record: Piped, key: Serde, value: Serde) -> None:
        item_key, item, timestamp, headers = record
        if type(timestamp) is not int or timestamp >= TIMESTAMP_LIMIT:  # negative ones test on_invalid=
            check_timestamp(timestamp)
        if topic in self._plan.stamped_topics:
            timestamp = self.wall_clock
        if topic not in self.topics and self._is_read(topic):
            self._log.create_topic(topic, self._new_topic)
        raw_key = None if item_key is None else key.encode(item_key)
        raw = None if item is None else value.encode(item)
        route = b"" if item_key is None else route_encoder(key)(item_key)
        partition = 0 if item_key is None else partition_of(route, len(self._log.offsets(topic)))
        self._log.append([Output(topic, partition, block_of([raw_key], [raw], [timestamp], [headers]))])
        if self._is_read(topic):
            self._settle()

    def _is_read(self, topic: str) -> bool:
        return any(source.reads(topic) for source in self._plan.sources)

    def _settle(self) -> None:
        """Process all records, including those that the app writes to its own inputs."""
        while not self._is_holding and (plan := self._next_plan()) is not None:
            reports = self._execute(plan)
            self._progress = progress_after(self._progress, plan, task_names(self._environment.layout), reports)
            self.reports = reports
            for report in reports:
                self.dropped.update(report.dropped)
                for metric in _METRICS:
                    self._metrics[metric] += getattr(report, metric)

    def _execute(self, batch: Batch) -> list[TaskReport]:
        if self._order is not None:
            return self._order.run(self._environment, batch, self._progress)
        return run_batch(self._environment, batch, self._progress.versions, shared_time=self._shared_time)

    def _next_plan(self) -> Batch | None:
        if self._order is not None:
            return self._order.plan(self._planner, self._progress)
        if self._shared_time is not None and not self._shared_time.is_known:
            return self._planner.batch(self._progress)
        return self._planner.plan(self._progress)

    def _count_unread(self, topic: str) -> int:
        positions = self._positions(topic)
        return sum(offsets.end - start for offsets, start in zip(self._log.offsets(topic), positions, strict=True))

    def _positions(self, topic: str) -> list[int]:
        if topic not in self._read:
            self._read[topic] = [0] * len(self._log.offsets(topic))
        return self._read[topic]

    def _take(self, topic: str, key: Serde, value: Serde, max_records: int | None = None) -> list[Record]:
        """Return unread records, by partition."""
        positions = self._positions(topic)
        records: list[Record] = []
        for partition, offsets in enumerate(self._log.offsets(topic)):
            stop = offsets.end
            if max_records is not None:
                stop = min(stop, positions[partition] + max_records - len(records))
            start, positions[partition] = positions[partition], stop
            if start == stop:
                continue
            for chunk in self._log.read(topic, partition, start, stop):
                heads = headers_of(chunk.block) or [()] * len(chunk.block)
                columns = (chunk.block.column(number).to_pylist() for number in range(3))
                for offset, raw_key, raw, timestamp, headers in zip(chunk.offsets, *columns, heads, strict=True):
                    item_key = None if raw_key is None else key.decode(raw_key)
                    item = None if raw is None else value.decode(raw)
                    records.append(Record(topic, partition, int(offset), item_key, item, timestamp, headers))
        return records

    def _serdes_of(self, topic: str) -> tuple[Serde, Serde]:
        """Return the serdes of a topic: those of the source that reads it or of the sink that writes it."""
        for node in self._plan.nodes:
            declared = self._plan.declared[node]
            if (isinstance(node, Source) and node.reads(topic)) or (isinstance(node, Sink) and node.topic == topic):
                return declared.key or READABLE, declared.value or JSON
        return READABLE, JSON
