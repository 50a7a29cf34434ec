"""The loop of a sink: each batch of its topics, with an id that always means the same records.

It is a batch loop with its own journal: the ranges of a batch are durable before the sink writes it, and the batch is
marked as done afterwards. Numbers belong to a lineage; a reset or a restored savepoint starts a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from millstream.batch.app_spec import AppSettings, AppSpec
from millstream.batch.assembly import topic_loop
from millstream.batch.batch import Batch
from millstream.batch.connector_status import sink_problem, stored_status
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop, Execute, LoopOptions
from millstream.batch.planner import BatchSize, Planner, records_in
from millstream.broker import Broker, SupportsChangelogs, TopicConfig
from millstream.connect.clock import GrowingClock
from millstream.connect.connector import Connector, Counters
from millstream.connect.protocols import (
    ConnectorContext,
    RecordsRejectedError,
    Rejected,
    Sink,
    SinkBatch,
    SinkWriter,
)
from millstream.connect.rejections import Rejection, RejectionNote, SinkPolicies
from millstream.connect.topic_journals import follow_lineage, leave, take_over
from millstream.errors import DamagedError, DeliveryError, MillstreamError, SerdeError
from millstream.foundation.paths import connector_file, delivery_dir
from millstream.foundation.record_decoding import RecordDecoder
from millstream.plan.sinks import Sink as SinkNode
from millstream.plan.topology import SinkStep
from millstream.records import Record, TopicPartition
from millstream.serdes import JSON, READABLE, Serde
from millstream.state.task import StateVersion
from millstream.task.policy import Policies
from millstream.task.report import TaskReport
from millstream.task.task_input import Range

_CLOCK = b"clock"
Transform: TypeAlias = Callable[[Record[Any, Any]], Record[Any, Any] | None]
"""Returns the record to write instead of another, or None to write none."""


@dataclass(frozen=True, kw_only=True)
class SinkInput:
    """What a sink reads."""

    topics: Sequence[str]
    key: Serde = READABLE
    value: Serde = JSON
    transform: Transform | None = None
    is_owned: bool = False
    """Whether only this sink reads the topics, so that records which are written can be deleted."""


class BatchTarget(Execute, Protocol):
    """Hands batches to a target."""

    def close(self) -> None: ...


class SinkLoop:
    """The work of a sink: a batch loop over topics, whose batches go to the target that ``open_target`` returns."""

    def __init__(
        self,
        app: AppSettings,
        broker: Broker,
        name: str,
        topics: Sequence[str],
        feed: str,
        open_target: Callable[[Journal], BatchTarget],
    ) -> None:
        """Read topics; ``feed`` is the name of the journal, and of the topic by which an app feeds the sink."""
        self.journal = Journal(delivery_dir(app.data_dir, app.id, feed), durable=app.is_durable)
        if not isinstance(broker, SupportsChangelogs):  # there the journal is a topic
            _check_not_old(app, name, self.journal)
        self._app = app
        self._broker = broker
        self._name = name
        self._topics = topics
        self._feed = feed
        self._open_target = open_target
        self._clock = GrowingClock(connector_file(app.data_dir, app.id, name, "clock"))
        self._target: BatchTarget | None = None

    def loop(self, options: LoopOptions) -> BatchLoop:
        """Return a loop that begins with a batch that was planned before a crash, on this host or another one."""
        if self._target is None:
            take_over(self._app, self._broker, self._feed, self.journal)
            if self.journal.changelog is not None:
                follow_lineage(self._app, self._broker, self._feed, self.journal)
                self._clock.raise_to(int(self.journal.note(_CLOCK) or 0))
                self._clock.on_reserve = lambda time: self.journal.set_note(_CLOCK, str(time).encode())
            self._target = self._open_target(self.journal)
        group = f"{self._app.id}.{self._name}"
        return topic_loop(
            group, self._topics, self._broker, self.journal, self._app.config, self._target, options, self._clock
        )

    def count_waiting(self) -> int:
        """Return how many records wait to be written."""
        return records_in(Planner(self._broker, self._topics, BatchSize(1, 1.0)).backlog(self.journal.read()[0]))

    def close(self) -> None:
        """Close the target, and let another process take the journal over."""
        target, self._target = self._target, None
        if target is not None:
            target.close()
        leave(self.journal)


def _check_not_old(app: AppSettings, name: str, journal: Journal) -> None:
    """Refuse a journal that is new, foreign or old: its next batches would write records again, or skip some."""
    status = stored_status(app.data_dir, app.id, name)
    problem = sink_problem(status, journal.stored_lineage(), journal.current_batch() - 1)
    if problem is not None:
        status_file = connector_file(app.data_dir, app.id, name, "status")
        raise DamagedError(
            f"{str(journal.path)!r}, the journal of sink {name!r}, {problem}",
            hint=f"restore the latest one; to start over, empty the target and delete it and {str(status_file)!r}",
            path=str(journal.path),
        )


class SinkExecute:
    """Hands batches to a sink, which it opens when there is a batch."""

    def __init__(
        self,
        broker: Broker,
        sink: Sink,
        context: ConnectorContext,
        lineage: str,
        source: SinkInput,
        policies: SinkPolicies,
        rejected: RejectionNote,
        counters: Counters,
    ) -> None:
        self._broker = broker
        self._sink = sink
        self._context = context
        self._lineage = lineage
        self._input = source
        self._decoder = RecordDecoder(source.key, source.value)
        self._policies = policies
        self._rejected = rejected
        self._counters = counters
        self._writer: SinkWriter | None = None
        self._topics: dict[str, str] = {}
        """The topic of a record by the name that the transform has given it."""

    def __call__(self, batch: Batch, _versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        if self._input.is_owned:
            delete_read(self._broker, batch)
        refused = self._rejected.read(batch.number)
        left_out = {rejection.position for rejection in refused}
        undecodable: list[Rejection] = []
        records = [
            record
            for range_ in batch.ranges
            for record in self._read(range_, undecodable)
            if self._position(record) not in left_out
        ]
        self._policies.check([*undecodable, *refused])
        returned = self._write(batch, records, refused)
        rejections = [*undecodable, *refused, *returned]
        self._policies.check(returned)
        self._policies.apply(batch.number, rejections)
        self._counters.records += len(records) - len(returned)
        self._counters.rejected += len(rejections)
        return []

    def _write(self, batch: Batch, records: list[Record[Any, Any]], refused: list[Rejection]) -> list[Rejection]:
        """Write the records that the target accepts; return the rejections that it returns.

        What it refuses before it writes is durable in ``refused`` before the other records are written.
        """
        while True:
            try:
                return [self._rejection(rejected) for rejected in self._call(batch, records)]
            except RecordsRejectedError as error:
                new = [self._rejection(rejected) for rejected in error.rejected]
            self._policies.check(new)
            positions = {rejection.position for rejection in new}
            kept = [record for record in records if self._position(record) not in positions]
            if len(kept) == len(records):
                raise DeliveryError(
                    f"sink {self._context.name!r} has rejected records that are not in batch {batch.number}",
                    hint="a sink rejects records of the batch only",
                )
            refused += new
            self._rejected.write(batch.number, refused)
            records[:] = kept

    def _call(self, batch: Batch, records: Sequence[Record[Any, Any]]) -> Sequence[Rejected]:
        try:
            if self._writer is None:
                self._writer = self._sink.open(self._context)
            return self._writer.write(
                SinkBatch(lineage=self._lineage, number=batch.number, wall_time=batch.wall_time, records=records)
            )
        except RecordsRejectedError:
            raise
        except MillstreamError:
            self.close()
            raise
        except Exception as error:
            self.close()
            name = self._context.name
            raise DeliveryError(
                f"sink {name!r} failed on batch {batch.number}: {type(error).__name__}: {error}",
                hint="it is called again with the same batch, by this run and after the next start",
                node=name,
            ) from error

    def _read(self, range_: Range, rejections: list[Rejection]) -> Iterator[Record[Any, Any]]:
        """Yield the decoded records of a range; add those that cannot be decoded to the rejections."""
        partition, transform = TopicPartition(range_.topic, range_.partition), self._input.transform
        for chunk in self._broker.read(range_.topic, range_.partition, range_.start, range_.stop):
            row, rows = 0, len(chunk.offsets)
            while row < rows:
                records, error = self._decoder.records(partition, chunk.block.slice(row), chunk.offsets[row:])
                for record in records:
                    changed = record if transform is None else transform(record)
                    if changed is not None:
                        self._topics[changed.topic] = record.topic
                        yield changed
                row += len(records)
                if error is not None:
                    rejections.append(_undecodable(partition, int(chunk.offsets[row]), error))
                    row += 1

    def _position(self, record: Record[Any, Any]) -> tuple[str, int, int]:
        return self._topics.get(record.topic, record.topic), record.partition, record.offset

    def _rejection(self, rejected: Rejected) -> Rejection:
        topic, partition, offset = self._position(rejected.record)
        return Rejection(topic=topic, partition=partition, offset=offset, error=rejected.error)

    def close(self) -> None:
        """Close the writer; the next batch opens the sink again."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _undecodable(partition: TopicPartition, offset: int, error: SerdeError) -> Rejection:
    return Rejection(
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
        error=error.message,
        is_decode_error=True,
    )


def delete_read(broker: Broker, batch: Batch) -> None:
    """Delete the records before a batch, which are written already."""
    for range_ in batch.ranges:
        broker.delete_before(range_.topic, range_.partition, range_.start)


def sink_connector(app: AppSettings, broker: Broker, name: str, sink: Sink, source: SinkInput) -> Connector:
    """Return a sink that reads topics of a broker."""
    connector = Connector(app, name, "sink", type(sink).__name__, sink.guarantee)
    feed, config = f"{app.id}.sink.{name}", app.config

    def open_target(journal: Journal) -> SinkExecute:
        lineage = journal.lineage()
        policies = SinkPolicies(
            broker,
            Policies.of(app.id, config),
            name,
            f"{lineage}@{feed}.0",
            TopicConfig(partitions=config.partitions) if config.create_topics else None,
        )
        rejected = RejectionNote(journal)
        return SinkExecute(broker, sink, connector.context, lineage, source, policies, rejected, connector.counters)

    return connector.attach(SinkLoop(app, broker, name, source.topics, feed, open_target))


def sinks_of(app: AppSpec, broker: Broker) -> list[Connector]:
    """Return the sinks of an app."""
    connectors: list[Connector] = []
    for node in app.plan.nodes:
        step = app.deliveries.get(node.topic) if isinstance(node, SinkNode) and isinstance(node.topic, str) else None
        if isinstance(node, SinkNode) and isinstance(step, SinkStep):
            declared = app.plan.declared[node]
            topic = f"{app.config.output_prefix}{node.topic}"
            source = SinkInput(
                topics=[topic], key=declared.key or READABLE, value=declared.value or JSON, is_owned=True
            )
            connectors.append(sink_connector(app, broker, step.name, step.sink, source))
    return connectors
