"""The test driver: the same tasks and operators as on Spark, in this process, one record at a time."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from millstream.app import App
from millstream.batch.execute import run_here, task_names
from millstream.batch.plan import Progress, advanced
from millstream.batch.planner import BatchSize, Planner
from millstream.blocks import block_of, headers_of
from millstream.broker import Output, TopicConfig
from millstream.durations import Duration, milliseconds
from millstream.errors import UnknownTableError
from millstream.log import EmbeddedLog
from millstream.partitioning import partition_of
from millstream.places import state_dir
from millstream.plan.layout import Layout
from millstream.plan.sinks import Sink
from millstream.records import Headers, Record
from millstream.serdes import JSON, RAW, READABLE, Serde
from millstream.storage import close_under
from millstream.tables import TableReader, readers_of
from millstream.task.policy import Policies
from millstream.task.report import TaskReport
from millstream.task.worksite import Worksite

_MEMORY = Path("/dev/shm")  # noqa: S108  # a private directory is made in it


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

    def __init__(self, app: App, *, partitions: int = 1, caching: bool = False, wall_clock: int = 0) -> None:
        self.app = app
        self.wall_clock = wall_clock
        self.reports: list[TaskReport] = []
        self.dropped: Counter[str] = Counter()
        self._plan = app.plan
        self._directory = Path(tempfile.mkdtemp(prefix="millstream-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self._log = EmbeddedLog(self._directory, durability="os")
        topics = TopicConfig(partitions=partitions)
        for topic in dict.fromkeys((*self._plan.source_topics, *self._plan.sink_topics)):
            self._log.create_topic(topic, topics)
        config = app.config
        self._site = Worksite(
            app=app.id,
            layout=Layout.of(self._plan, dict.fromkeys(self._plan.source_topics, partitions)),
            broker=self._log,
            state_dir=state_dir(self._directory, app.id),
            policies=Policies.of(app.id, config),
            caching=caching,
            durable=False,
            new_topic=topics,
        )
        self._planner = Planner(self._log, self._plan.source_topics, BatchSize(config.max_batch_records, 1.0))
        self._progress = Progress()
        self._read: dict[str, list[int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget everything."""
        self._log.close()
        close_under(self._directory)
        shutil.rmtree(self._directory, ignore_errors=True)

    def topic(self, name: str) -> TestTopic:
        """Return a topic to pipe records into or to read them from."""
        return TestTopic(self, name)

    def table(self, name: str) -> TableReader:
        """Return a table of the app; ``driver.table("words")["a"]``."""
        tables = readers_of(self._site.layout, self._site.state_dir)
        if name not in tables:
            known = ", ".join(sorted(tables)) or "none"
            raise UnknownTableError(f"app {self.app.id!r} has no table {name!r}", hint=f"its tables: {known}")
        return tables[name]

    @property
    def topics(self) -> list[str]:
        """The topics that exist, also those that the app has made itself."""
        return self._log.topic_names()

    def advance_wall_clock(self, by: Duration) -> None:
        """Move the wall clock; it stands still otherwise."""
        self.wall_clock += milliseconds(by)
        self._settle()

    # What topics use

    def _append(self, topic: str, records: Sequence[tuple[Any, Any, int, Headers]], key: Serde, value: Serde) -> None:
        count = self._log.topic(topic).partitions
        for item_key, item, timestamp, headers in records:
            raw_key = None if item_key is None else key.encode(item_key)
            raw = None if item is None else value.encode(item)
            partition = 0 if raw_key is None else partition_of(raw_key, count)
            self._log.append([Output(topic, partition, block_of([raw_key], [raw], [timestamp], [headers]))])
            if topic in self._plan.source_topics:
                self._settle()

    def _settle(self) -> None:
        """Process everything there is, also what the app writes to its own inputs."""
        while (plan := self._planner.plan(self._progress)) is not None:
            reports = run_here(self._site, plan, self._progress.versions)
            self._progress = advanced(self._progress, plan, task_names(self._site.layout), reports)
            self.reports = reports
            for report in reports:
                self.dropped.update(report.dropped)

    def _unread(self, topic: str, key: Serde, value: Serde) -> Iterator[Record]:
        positions = self._read.setdefault(topic, [0] * self._log.topic(topic).partitions)
        for partition, offsets in enumerate(self._log.offsets(topic)):
            start, positions[partition] = positions[partition], offsets.end
            for chunk in self._log.read(topic, partition, start, offsets.end):
                heads = headers_of(chunk.block) or [()] * len(chunk.block)
                columns = (chunk.block.column(number).to_pylist() for number in range(3))
                for offset, raw_key, raw, timestamp, headers in zip(chunk.offsets, *columns, heads, strict=True):
                    yield Record(
                        topic,
                        partition,
                        offset,
                        None if raw_key is None else key.decode(raw_key),
                        None if raw is None else value.decode(raw),
                        timestamp,
                        headers,
                    )

    def _serdes_of(self, topic: str) -> tuple[Serde, Serde]:
        """Return how a topic is read: as a source declares it, or as the sink that writes it does."""
        for node in self._plan.nodes:
            declared = self._plan.declared[node]
            if topic in getattr(node, "topics", ()) or (isinstance(node, Sink) and node.topic == topic):
                return declared.key or READABLE, declared.value or JSON
        return READABLE, JSON


class TestTopic:
    """A topic of a test driver. What is read once is not read again."""

    __test__ = False

    def __init__(self, driver: TestDriver, name: str) -> None:
        self._driver = driver
        self.name = name

    def pipe(
        self,
        *values: Any,
        key: Any = None,
        timestamp: int | None = None,
        headers: Mapping[str, bytes] | Headers = (),
    ) -> None:
        """Append records and process each with all that follows from it; timestamps default to the wall clock."""
        pairs = tuple(headers.items()) if isinstance(headers, Mapping) else headers
        at = self._driver.wall_clock if timestamp is None else timestamp
        self._driver._append(self.name, [(key, value, at, pairs) for value in values], *self._serdes)

    def pipe_pairs(self, pairs: Sequence[tuple[Any, Any]], *, timestamp: int | None = None) -> None:
        """Append (key, value) pairs, one after the other."""
        for key, value in pairs:
            self.pipe(value, key=key, timestamp=timestamp)

    @property
    def _serdes(self) -> tuple[Serde, Serde]:
        return self._driver._serdes_of(self.name)

    def pipe_raw(self, value: bytes | None, *, key: bytes | None = None, timestamp: int = 0) -> None:
        """Append bytes as they are, also such as cannot be decoded."""
        self._driver._append(self.name, [(key, value, timestamp, ())], RAW, RAW)

    def read(self) -> list[Record]:
        """Return the records that were not read yet."""
        return list(self._driver._unread(self.name, *self._serdes))

    def read_raw(self) -> list[Record]:
        """Return the records that were not read yet with keys and values as bytes, also such as cannot be decoded."""
        return list(self._driver._unread(self.name, RAW, RAW))

    def read_key_values(self) -> list[tuple[Any, Any]]:
        """Return (key, value) of the records that were not read yet."""
        return [(record.key, record.value) for record in self.read()]

    def read_values(self) -> list[Any]:
        """Return the values of the records that were not read yet."""
        return [record.value for record in self.read()]
