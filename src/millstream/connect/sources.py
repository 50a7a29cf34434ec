"""The loop of a source: read, commit position and records together, publish, acknowledge.

An intake is durable in the journal before it is published, and published before the source learns that it may forget
it. A process that dies in between publishes the stored records again; each partition takes them once.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from millstream.batch.app_spec import AppSettings, AppSpec
from millstream.batch.connector_status import lost_intakes
from millstream.batch.logs import log_event
from millstream.batch.loop import LoopOptions, Until
from millstream.batch.topics import create_missing_topics
from millstream.broker import Broker, Output, SupportsChangelogs, TopicConfig, TopicInfo
from millstream.connect.connector import Connector
from millstream.connect.control import finish_snapshot_request, read_control
from millstream.connect.protocols import Intake, Source, SourceReader, SupportsCatchingUp, SupportsSnapshot
from millstream.connect.source_journal import SOURCE, SourceJournal, SourceProgress
from millstream.connect.source_rejections import RefusedRecord, SourcePolicies, Transformed, split_rejected
from millstream.connect.topic_journals import leave, take_over
from millstream.errors import DamagedError, MillstreamError, TargetUnavailableError
from millstream.foundation.blocks import Block, slices_of, take_rows, to_buffer
from millstream.foundation.partitioning import partitions_of_slices
from millstream.foundation.paths import connector_file, source_dir
from millstream.task.outbox import topic_outputs
from millstream.task.policy import Policies

_log = logging.getLogger("millstream.connect")
_READ_SECONDS = 0.5  # how long a reader waits before the loop looks whether to stop
_CAUGHT_UP_SECONDS, _LOOK_SECONDS = 1.0, 0.05

IntakeTransform: TypeAlias = Callable[[Mapping[str, Block]], Transformed]


class SourceWork:
    """Reads a source and writes its records to topics."""

    def __init__(
        self,
        app: AppSettings,
        broker: Broker,
        source: Source,
        connector: Connector,
        transform: IntakeTransform | None = None,
        topics: Mapping[str, TopicConfig] | None = None,
    ) -> None:
        path = source_dir(app.data_dir, app.id, connector.name)
        is_new = not (path / "data.mdb").exists()
        if is_new and not isinstance(broker, SupportsChangelogs):  # there the journal is a topic
            _check_not_lost(app, connector.name, path)
        self.journal = SourceJournal(path, durable=app.is_durable)
        if not is_new and not isinstance(broker, SupportsChangelogs) and self.journal.read().sequence == 0:
            _check_not_lost(app, connector.name, path)  # another file is in its place
        self._app = app
        self._broker = broker
        self._source = source
        self._connector = connector
        self._transform = transform
        self._topics = source.topics() if topics is None else topics
        self._name = f"{app.id}.source.{connector.name}"
        self._policies = SourcePolicies(Policies.of(app.id, app.config), connector.name)
        self._reader: SourceReader | None = None
        self._snapshots: set[str] = set()
        """Tables that the open reader was asked to read again, and whose requests are not removed yet."""

    def loop(self, options: LoopOptions) -> SourceLoop:
        """Return a loop that reads on from the stored position."""
        return SourceLoop(self, options)

    def count_waiting(self) -> int | None:
        return self._connector.counters.waiting

    def open(self) -> None:
        """Create missing topics, publish what may not be published, and open the source at its position."""
        self.create_topics(self._topics)
        if self.journal.changelog is None:
            take_over(self._app, self._broker, self._name, self.journal, SOURCE)
        progress = self.journal.read()
        self._publish(progress, topic_outputs(self.journal.outbox()))  # which may be published
        with self._translated():
            self._reader = self._source.open(progress.position, self._connector.context)
            if progress.position is not None:
                self._reader.committed(progress.position)
        self._snapshots.clear()

    def step(self, seconds: float) -> bool:
        """Take in what the source has, or return False after that many seconds without anything."""
        reader, counters = self._reader, self._connector.counters
        assert reader is not None
        self._request_snapshots(reader)
        with self._translated():
            intake = reader.read(seconds)
        if intake is None:
            counters.event_time = None  # it is not behind
            return False
        self._commit(intake)
        with self._translated():
            reader.committed(intake.position)
        for table in self._snapshots:
            finish_snapshot_request(self._app.data_dir, self._app.id, self._connector.name, table)
        self._snapshots.clear()
        counters.event_time, counters.waiting = intake.event_time, intake.waiting
        return True

    @property
    def catch_up_seconds(self) -> float:
        """How long nothing has to arrive before the source may have caught up; short if it knows that itself."""
        reader: object = self._reader
        return _LOOK_SECONDS if isinstance(reader, SupportsCatchingUp) else _CAUGHT_UP_SECONDS

    def has_caught_up(self) -> bool:
        """Return whether the source has been read to where it was when it was opened."""
        with self._translated():
            return not isinstance(self._reader, SupportsCatchingUp) or self._reader.has_caught_up()

    def _publish(self, progress: SourceProgress, outputs: list[Output]) -> None:
        """Append the records of an intake that the journal has; partitions that have them skip them."""
        if outputs:
            self._broker.append_once(f"{self.journal.lineage()}@{self._name}.0", progress.sequence, outputs)

    def _commit(self, intake: Intake) -> None:
        given = Transformed(intake.records, ()) if self._transform is None else self._transform(intake.records)
        before = self.journal.read()
        outputs: list[Output] = []
        rejected = list(given.rejected)
        for topic, all_rows in given.records.items():
            rejected += self._add(outputs, topic, all_rows, before.sequence)
        if rejected:
            self._reject(outputs, rejected, before.sequence)
        count = sum(len(block) for block in given.records.values()) + len(given.rejected)
        progress = SourceProgress(
            sequence=before.sequence + 1, position=intake.position, records=before.records + count
        )
        if self.journal.changelog is None:
            outputs = [msgspec.structs.replace(output, data=to_buffer(output.block)) for output in outputs]
            self.journal.commit(progress, outputs)
            self._publish(progress, outputs)
        else:
            self.journal.publish(progress, outputs)
        self._connector.counters.records += count
        self._connector.counters.rejected += len(rejected)

    def _add(self, outputs: list[Output], topic: str, block: Block, sequence: int) -> list[RefusedRecord]:
        """Add the records of a topic to the outputs of an intake, and return those that the topic would refuse."""
        if not len(block):
            return []
        info = self._topic(topic)
        kept, partitions, rejected = split_rejected(info, block, partitions_of(info, block, sequence))
        outputs += [Output(topic, partition, rows) for partition, rows in by_partition(kept, partitions)]
        return rejected

    def _reject(self, outputs: list[Output], rejected: Sequence[RefusedRecord], sequence: int) -> None:
        """Apply the error policies; dead letters become part of the intake."""
        policies, failure = self._policies, self._policies.failure(rejected)
        if failure is not None:
            record, error = failure
            if policies.writes_on_fail:
                limit = self._topic(policies.topic).config.max_record_bytes
                producer = f"{self.journal.lineage()}@{self._name}.failed.{sequence}"
                self._broker.append_once(producer, 1, [Output(policies.topic, 0, policies.block_of([record], limit))])
            raise error
        letters = policies.letters(rejected, self._topic(policies.topic).config.max_record_bytes)
        if letters is not None:
            self._add(outputs, policies.topic, letters, sequence)

    def _request_snapshots(self, reader: SourceReader) -> None:
        for table in read_control(self._app.data_dir, self._app.id, self._connector.name).snapshots:
            if table not in self._snapshots:
                if not isinstance(reader, SupportsSnapshot):
                    facts = {
                        "connector": self._connector.name,
                        "table": table,
                        "reason": "it cannot read a table again",
                    }
                    log_event(_log, logging.WARNING, "snapshot refused", facts)
                    finish_snapshot_request(self._app.data_dir, self._app.id, self._connector.name, table)
                    continue
                with self._translated():
                    reader.snapshot(table)
                self._snapshots.add(table)

    def _topic(self, name: str) -> TopicInfo:
        self.create_topics({name: TopicConfig(partitions=self._app.config.partitions)})
        return self._broker.topic(name)

    def create_topics(self, topics: Mapping[str, TopicConfig]) -> None:
        """Create topics that do not exist, if that is allowed."""
        if self._app.config.create_topics:
            create_missing_topics(self._broker, topics)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn exceptions of the source that are not errors of Millstream into an outage, which is tried again."""
        try:
            yield
        except MillstreamError:
            raise
        except Exception as error:
            raise TargetUnavailableError(
                f"source {self._connector.name!r} failed: {type(error).__name__}: {error}",
                hint="it is opened again at its last position",
                connector=self._connector.name,
            ) from error

    def close_reader(self) -> None:
        """Close the reader; the next loop opens the source again."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with contextlib.suppress(Exception):  # a broken connection; nothing is lost by it
                reader.close()

    def close(self) -> None:
        """Close the reader, and let another process take the journal over."""
        self.close_reader()
        leave(self.journal)


class SourceLoop:
    """One attempt to read a source."""

    def __init__(self, work: SourceWork, options: LoopOptions) -> None:
        self._work = work
        self._options = options

    def run(self, until: Until) -> None:
        """Read until stopped, or until the source has nothing more."""
        options, work = self._options, self._work
        work.close_reader()
        options.activity.set("opening the source", "working")
        work.open()
        seconds = _READ_SECONDS if until == "stopped" else work.catch_up_seconds
        while not (options.stopping.is_set() or options.is_over()):
            if not work.step(seconds) and until == "caught-up" and work.has_caught_up():
                return


def _check_not_lost(app: AppSettings, name: str, path: Path) -> None:
    """Refuse to read a source from its beginning, which would repeat records, because its journal has disappeared."""
    intakes = lost_intakes(app.data_dir, app.id, name)
    if intakes > 0:
        status = connector_file(app.data_dir, app.id, name, "status")
        raise DamagedError(
            f"{str(path)!r}, the journal of source {name!r} with {intakes:,} intakes, is lost",
            hint=f"restore it from a backup, or read the source again, which repeats records: delete {str(status)!r}",
            path=str(path),
        )


def partitions_of(topic: TopicInfo, block: Block, spread: int) -> Any:
    """Return the partition of each record by its key; those without a key go to one, the next time to another."""
    count, keys = topic.partitions, block.column(0)
    if count == 1:
        return np.zeros(len(block), np.int64)
    partitions: Any = partitions_of_slices(*slices_of(keys), count)
    if keys.null_count:
        partitions[np.array(keys.is_null().to_pylist(), bool)] = spread % count
    return partitions


def by_partition(block: Block, partitions: Any) -> Iterator[tuple[int, Block]]:
    """Split records by their partition."""
    for partition in np.unique(partitions).tolist():
        rows = np.flatnonzero(partitions == partition)
        yield partition, block if len(rows) == len(block) else take_rows(block, rows)


def source_connector(
    app: AppSettings,
    broker: Broker,
    name: str,
    source: Source,
    transform: IntakeTransform | None = None,
    topics: Mapping[str, TopicConfig] | None = None,
) -> Connector:
    """Return a source that fills topics of a broker; ``topics`` are those of its transform instead of its own."""
    connector = Connector(app, name, "source", type(source).__name__, source.guarantee)
    return connector.attach(SourceWork(app, broker, source, connector, transform, topics))


def sources_of(app: AppSpec, broker: Broker) -> list[Connector]:
    """Return the sources of an app."""
    return [source_connector(app, broker, name, source) for name, source in app.sources.items()]
