"""The app: where a topology is written, run, read and fed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from millstream.batch.pace import Pace, Trigger
from millstream.config import Config
from millstream.dsl.global_table import GlobalTable
from millstream.dsl.handle import Handle
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.loading import check_not_loading, importable_app
from millstream.foundation.names import check_name
from millstream.foundation.paths import DEFAULT_DATA_DIR
from millstream.plan.describe import Format, describe
from millstream.plan.histories import checked_history
from millstream.plan.sources import GlobalTableSource, Source, StreamSource, TableSource
from millstream.plan.topology import Draft, Plan, SparkDelivery
from millstream.serdes import JSON, READABLE, SerdeLike, serde_for
from millstream.timestamps import OnInvalid, TimestampLike, checked_on_invalid, timestamp_source

if TYPE_CHECKING:
    from millstream.batch.loop import Until
    from millstream.batch.report import BatchReport
    from millstream.broker import Broker
    from millstream.consumer import Consumer
    from millstream.producer import Producer
    from millstream.spark.run import SparkRun
    from millstream.spark.session import DataFrame, DataFrameReader, SparkSession
    from millstream.tables.rows import TableReader


H = TypeVar("H", bound=Handle)


class App:
    """A topology with a name; its state and its output belong to that name.

    >>> app = App("shout")
    >>> app.stream("words", value=str).map_values(str.upper).to("loud")
    >>> print(app.describe())
    stage words (level 0) reads topic words
      map_values       words.map_values ← words
      sink             words.sink ← words.map_values → topic loud
    <BLANKLINE>
    """

    __millstream_app__ = True

    def __init__(
        self,
        id: str,
        *,
        broker: str | None = None,
        data_dir: str | Path | None = None,
        config: Config | None = None,
    ) -> None:
        self.id = check_name("app", id)
        self.broker_url = broker or os.environ.get("MILLSTREAM_BROKER") or None
        self.data_dir = Path(data_dir or os.environ.get("MILLSTREAM_DATA_DIR") or DEFAULT_DATA_DIR).absolute()
        self.config = config or Config()
        self.defined_in: str = sys._getframe(1).f_globals.get("__name__", "__main__")
        self._draft = Draft(self.id)
        self._sources: dict[frozenset[str], Handle] = {}
        self._run: SparkRun | None = None

    def __repr__(self) -> str:
        return f"<App {self.id}>"

    # Writing the topology

    def stream(
        self,
        *topics: str,
        pattern: str | None = None,
        key: SerdeLike = None,
        value: SerdeLike = None,
        timestamp: TimestampLike = None,
        on_invalid: OnInvalid = "fail",
        idle_after: Duration | None = None,
        name: str | None = None,
    ) -> Stream:
        """Read one topic, or several as one stream, or all topics whose whole name matches ``pattern``.

        ``timestamp`` computes event time from a record, as a datetime or in milliseconds; by default it is the
        record's own, ``"append"`` is the log's and ``"wall_clock"`` that of processing. ``on_invalid`` says what
        becomes of a record without a valid time: the app fails, or the record is skipped, or it gets the latest time
        of its partition. Without a record for ``idle_after`` time follows the wall clock, so much behind it. Asking for
        the same topics again gives the same stream. Topics that match a pattern and come later join the next batch.
        """
        if bool(topics) is (pattern is not None):
            raise DefinitionError(
                "stream() wants topics or a pattern" if not topics else "stream() takes topics or a pattern, not both",
                hint='for example app.stream("rides") or app.stream(pattern="rides-.*")',
            )
        node = StreamSource(
            topics=topics, pattern=pattern, name=name, **_source_settings(key, value, timestamp, on_invalid, idle_after)
        )
        return self._source(node, Stream)

    def table(
        self,
        topic: str,
        *,
        key: SerdeLike = None,
        value: SerdeLike = None,
        timestamp: TimestampLike = None,
        on_invalid: OnInvalid = "fail",
        idle_after: Duration | None = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Read a topic as a table: the newest record of a key is its row, a null value deletes it.

        Records without key are dropped and counted. The last record by offset wins, whatever its timestamp. With
        ``history`` the last one by timestamp wins, and streams are joined with the row that was valid at their time;
        records older than the history are dropped and counted.

        >>> app = App("doc")
        >>> prices = app.table("prices", value=int, history="5 min")
        >>> app.stream("sales", value=str).join(prices, lambda sale, price: f"{sale} for {price}").to("out")
        >>> from millstream.testing import TestDriver
        >>> with TestDriver(app) as driver:
        ...     driver.topic("prices").pipe(10, key="pen", timestamp=0)
        ...     driver.topic("prices").pipe(12, key="pen", timestamp=60_000)
        ...     driver.topic("sales").pipe("ann", key="pen", timestamp=30_000)
        ...     driver.topic("out").read_values()
        ['ann for 10']
        """
        node = TableSource(
            topics=(topic,),
            name=name,
            named=name is not None,
            history=checked_history("table", history),
            **_source_settings(key, value, timestamp, on_invalid, idle_after),
        )
        return self._source(node, Table)

    def global_table(
        self, topic: str, *, key: SerdeLike = None, value: SerdeLike = None, name: str | None = None
    ) -> GlobalTable:
        """Read a topic as a table of which every task sees all rows, so that streams can look up any key.

        It is read to its end before each batch; its time has nothing to do with that of streams. The last record by
        offset wins, a null value deletes the row, records without key are dropped and counted.

        >>> app = App("doc")
        >>> rates = app.global_table("rates", value=float)
        >>> sales = app.stream("sales", value=str)
        >>> sales.join(rates, lambda sale, rate: f"{sale} at {rate}", key=lambda sale: sale[-3:]).to("out")
        >>> outputs(app, rates=[("EUR", 1.1)], sales=["9 EUR", "9 CHF"])
        [(None, '9 EUR at 1.1')]
        """
        node = GlobalTableSource(topics=(topic,), name=name, **_source_settings(key, value))
        return self._source(node, GlobalTable)

    def _source(self, node: Source, kind: type[H]) -> H:
        topics = frozenset(node.topics or (f"pattern {node.pattern}",))
        known = self._sources.get(topics)
        if isinstance(known, Table) and kind is Table:
            raise DefinitionError(
                f"topic {node.topics[0]!r} is read as a table twice", hint="keep the first table and use it twice"
            )
        if isinstance(known, kind):
            _check_same(known, node)
            return known
        handle = kind(self._draft, node)
        self._sources[topics] = handle
        return handle

    @property
    def plan(self) -> Plan:
        """The plan of what was written so far."""
        return Plan.of(self._draft)

    @property
    def deliveries(self) -> dict[str, SparkDelivery]:
        """What ``to_spark`` steps do with their topics."""
        return self._draft.deliveries

    def describe(self, format: Format = "text") -> str:
        """Return the plan with its stages as ``"text"``, ``"json"`` or ``"mermaid"``."""
        return describe(self.plan, format)

    # Running

    def run(
        self,
        until: Until = "stopped",
        *,
        trigger: Trigger = "auto",
        every: Duration | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        reset: Collection[str] = (),
    ) -> None:
        """Run on Spark until stopped (Ctrl-C drains), or with ``until="caught-up"`` until all records are processed.

        A batch begins as soon as there are records; ``every="10 s"`` collects them for so long first. While little is
        to be done, one Spark task stays and runs batches by itself, in milliseconds: with ``trigger="auto"`` if Spark
        has a slot to spare, with ``"realtime"`` in any case. After a crash a run goes on exactly where the last stood.
        Stages in ``reset`` begin with empty state.
        """
        check_not_loading("run")
        run = self._twin().start(until, trigger=trigger, every=every, on_batch=on_batch, reset=reset)
        run.wait(handle_signals=True)

    def start(
        self,
        until: Until = "stopped",
        *,
        trigger: Trigger = "auto",
        every: Duration | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        reset: Collection[str] = (),
    ) -> SparkRun:
        """Start to run in the background and return the run: ``stop()`` drains it, ``wait()`` waits for its end.

        The arguments are those of ``run``.
        """
        check_not_loading("start")
        twin = self._twin()
        if twin is not self:
            self._run = twin.start(until, trigger=trigger, every=every, on_batch=on_batch, reset=reset)
            return self._run
        from millstream.spark.run import SparkRun

        self._run = SparkRun.start(self, until, on_batch, Pace.of(trigger, every), reset)
        return self._run

    def stop(self) -> None:
        """Drain the run that was started here and wait for its end."""
        if self._run is not None:
            self._run.stop()
            self._run.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the run that was started here; False if it still goes on after ``timeout`` seconds."""
        return self._run is None or self._run.wait(timeout)

    def _twin(self) -> App:
        """Return the app to run: for a script the one that its import makes, with the settings given here."""
        if self.defined_in != "__main__":
            return self
        twin: App = importable_app(self)
        twin.broker_url, twin.data_dir, twin.config = self.broker_url, self.data_dir, self.config
        return twin

    # Reading and feeding

    @property
    def broker(self) -> Broker:
        """The log or cluster that the app reads and writes; each call opens it for this process."""
        from millstream.broker_urls import open_broker

        return open_broker(self.broker_url, self.data_dir, durability=self.config.durability)

    @property
    def tables(self) -> Mapping[str, TableReader]:
        """The app's tables by name, readable while it runs and after."""
        from millstream.tables.opening import open_tables

        return open_tables(self.data_dir, self.id, self.plan)

    def producer(self, **options: Any) -> Producer:
        """Return a producer for the app's broker; use it in a ``with`` block."""
        from millstream.producer import Producer

        return Producer(self.broker, **options)

    def consumer(self, group: str | None = None, **options: Any) -> Consumer:
        """Return a consumer for the app's broker, in a group if one is named."""
        from millstream.consumer import Consumer

        return Consumer(self.broker, group, **options)

    @property
    def spark(self) -> SparkSession:
        """The Spark session of this process, which knows the data source ``millstream`` (docs/spark.md)."""
        from millstream.spark.session import spark_session

        return spark_session(self.config.master, self.config.spark)

    def frames(self) -> DataFrameReader:
        """Return a reader of this app's topics and tables: ``app.frames().option("topic", "rides").load()``."""
        from millstream.spark.session import frames_of

        return frames_of(self)

    def backfill(
        self, dataframe: DataFrame, *, topic: str, key: str | None = None, timestamp: str | None = None
    ) -> None:
        """Append the rows of a DataFrame to a topic, each as a JSON object; ``key`` and ``timestamp`` name columns.

        Rows are written in the order of ``timestamp`` if it is given, so that the app sees them as it would have
        seen them live. A task that Spark runs again writes nothing twice; a call that fails leaves what it has
        written until then.
        """
        from millstream.spark.backfill import backfill

        backfill(self, dataframe, topic=topic, key=key, timestamp=timestamp)

    def main(self) -> None:
        """Offer the commands of ``millstream`` for this app: ``python my_app.py run``."""
        check_not_loading("main")
        from millstream.cli.main import main_for

        main_for(self._twin())


def _check_same(known: Handle, node: Source) -> None:
    """Refuse to read the same topics in two ways; what is not said again stays as it was."""
    first = known._node
    assert isinstance(first, Source)
    for setting, default in (("key", READABLE), ("value", JSON)):
        before, now = getattr(first, setting), getattr(node, setting)
        if now is not default and before.name != now.name:
            raise DefinitionError(
                f"topic {node.topics[0]!r} is read with {setting}={before.name} and with {setting}={now.name}",
                hint="read it once and use the result twice",
            )


def _source_settings(
    key: SerdeLike,
    value: SerdeLike,
    timestamp: TimestampLike = None,
    on_invalid: OnInvalid = "fail",
    idle_after: Duration | None = None,
) -> dict[str, Any]:
    """Return what all sources have; what is as by default stays out of the plan."""
    found, policy = timestamp_source(timestamp), checked_on_invalid(on_invalid)
    return {
        "key": serde_for(key) or READABLE,
        "value": serde_for(value) or JSON,
        "timestamp": None if found == "record" else found,
        "on_invalid": None if policy == "fail" else policy,
        "idle_after": None if idle_after is None else _silence(idle_after),
    }


def _silence(idle_after: Duration) -> int:
    length = milliseconds(idle_after)
    if length < 1:
        raise DefinitionError(f"idle_after={idle_after!r} is not valid", hint='use 1 ms or more, such as "10 s"')
    return length
