"""The app: define a topology, run it, read its tables, and produce to and consume from its topics."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import msgspec

from millstream.batch.app_spec import AppSettings, AppSpec
from millstream.batch.trigger import Trigger, TriggerMode
from millstream.config import Config
from millstream.dsl.handle import Handle
from millstream.dsl.sources import Sources
from millstream.durations import Duration
from millstream.foundation.loading import check_not_loading, importable_app, reference_to
from millstream.foundation.names import check_name
from millstream.foundation.paths import DEFAULT_DATA_DIR
from millstream.foundation.type_variables import Key, R, TextKey, Value
from millstream.plan.describe import Format, describe
from millstream.plan.node import Nodes
from millstream.plan.topology import Plan, SinkStep, SparkDelivery
from millstream.queues.app_queues import AppQueues
from millstream.serdes import SerdeLike

if TYPE_CHECKING:
    from millstream.batch.fill import FillProgress
    from millstream.batch.loop import Until
    from millstream.batch.report import BatchReport
    from millstream.broker import Acks, Broker
    from millstream.consumer import Consumer, Reset, Wait
    from millstream.producer import Producer, WhenFull
    from millstream.queries.pausing import QueryControl
    from millstream.spark.run import SparkRun
    from millstream.spark.session import DataFrame, DataFrameReader, SparkSession
    from millstream.sql.program import SqlProgram
    from millstream.sql.published import Published
    from millstream.tables.rows import TableReader


class ProducerOptions(TypedDict, total=False):
    """Options of ``Producer`` beside its serdes."""

    acks: Acks
    linger: Duration
    batch_records: int
    buffer_bytes: int
    when_full: WhenFull
    name: str | None


class ConsumerOptions(TypedDict, total=False):
    """Options of ``Consumer`` beside its group, topics and serdes."""

    auto_offset_reset: Reset
    auto_commit: bool
    commit_every: Duration
    session_timeout: Duration
    timeout: Wait | None
    stop_at_end: bool


_runs: dict[tuple[Path, str], SparkRun] = {}
"""The last run of each app that this process has started: a cell of a notebook can define its app again."""


class App(Sources, AppQueues):
    """A named topology; its state and its output belong to that name.

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
        super().__init__(check_name("app", id))
        self.workers = []
        self.id = id
        self.broker_url = broker or os.environ.get("MILLSTREAM_BROKER") or None
        self.data_dir = Path(data_dir or os.environ.get("MILLSTREAM_DATA_DIR") or DEFAULT_DATA_DIR).absolute()
        self.config = config or Config()
        self.defined_in: str = sys._getframe(1).f_globals.get("__name__", "__main__")
        self._sql: SqlProgram | None = None
        self._planned: tuple[Nodes, Plan] | None = None

    def __repr__(self) -> str:
        return f"<App {self.id}>"

    def _repr_svg_(self) -> str | None:
        """Draw the topology as defined so far, for Jupyter."""
        from millstream.notebook.topology import draft_svg

        return draft_svg(self._draft)

    # The topology

    @property
    def plan(self) -> Plan:
        """The plan of the topology as defined so far; it is made again after a node was added or removed."""
        nodes = tuple(self._draft.nodes)
        if self._planned is None or self._planned[0] != nodes:  # nodes are frozen and compared by identity
            self._planned = nodes, Plan.of(self._draft)
        return self._planned[1]

    @property
    def deliveries(self) -> dict[str, SparkDelivery | SinkStep]:
        """The ``to_spark`` steps and the sinks, by topic."""
        return self._draft.deliveries

    def describe(self, format: Format = "text") -> str:
        """Return the plan and its stages as ``"text"``, ``"json"`` or ``"mermaid"``."""
        return describe(self.plan, format)

    def sql(self, text: str, *, name: str | None = None, **handles: Handle[Any, Any]) -> Any:
        """Define streams and tables by SQL statements; return the handle of the last query, a stream or a table.

        ``CREATE STREAM|TABLE … WITH (…)`` declares a topic, ``CREATE … AS SELECT``, ``INSERT INTO … SELECT`` and
        ``SELECT`` are steps of this app. Rows are dicts by column. Streams and tables of Python are used by name, with
        the fields of their type as columns and their key as the column ``KEY`` (docs/sql/README.md). ``name`` is for
        the state of a ``SELECT`` with groups or joins; one such query of an app needs none.

        >>> app = App("doc")
        >>> app.sql("CREATE STREAM rides (zone INT KEY, km DOUBLE) WITH (KAFKA_TOPIC='rides', VALUE_FORMAT='JSON');")
        >>> long = app.sql("SELECT zone, km * 1000 AS meters FROM rides WHERE km > 10;")
        >>> long.map_values(lambda row: row["METERS"]).to("out")
        """
        program = self._program()
        handle = program.execute(text, handles, name)
        if program.logs_errors:
            self.config = msgspec.structs.replace(self.config, processing_log=True)
        return handle

    @overload
    def function(self, code: R) -> R: ...
    @overload
    def function(
        self, *, name: str | None = None, takes: Sequence[str] | None = None, returns: str | None = None
    ) -> Callable[[R], R]: ...
    def function(
        self,
        code: Any = None,
        *,
        name: str | None = None,
        takes: Sequence[str] | None = None,
        returns: str | None = None,
    ) -> Any:
        """Make Python code a function of this app's SQL: ``@app.function``, or with options ``@app.function(name=…)``.

        A function is a scalar function, a generator function a table function, and a class with ``start``, ``add``,
        ``merge`` and ``finish`` (and ``remove``, for tables) an aggregate function. Types are those of annotations, or
        ``takes`` and ``returns`` give SQL types instead. A null argument makes the result null, unless its type is
        ``… | None``.

        >>> app = App("doc")
        >>> @app.function
        ... def shout(text: str) -> str:
        ...     return text.upper() + "!"
        >>> app.sql("CREATE STREAM s (k INT KEY, v STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');")
        >>> loud = app.sql("SELECT k, SHOUT(v) AS loud FROM s;")
        """
        if code is None:
            return partial(self._define, name=name, takes=takes, returns=returns)
        return self._define(code, name, takes, returns)

    def _define(self, code: Any, name: str | None, takes: Sequence[str] | None, returns: str | None) -> Any:
        self._program().define(code, name or str(getattr(code, "__name__", code)), takes, returns)
        return code

    def _program(self) -> SqlProgram:
        from millstream.sql.program import SqlProgram

        if self._sql is None:
            self._sql = SqlProgram(self)
        return self._sql

    @property
    def published_sql(self) -> Published:
        """The streams, tables and queries that SQL has defined so far, as data for queries (docs/sql/queries.md)."""
        from millstream.sql.published import Published

        return Published() if self._sql is None else self._sql.published()

    @property
    def queries(self) -> QueryControl:
        """Pauses, resumes and terminates the SQL queries of the app, or all of it, and knows their states."""
        from millstream.queries.pausing import QueryControl

        return QueryControl(self.data_dir, self.id, self.published_sql)

    # Running

    def run(
        self,
        until: Until = "stopped",
        *,
        trigger: TriggerMode = "auto",
        every: Duration | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        reset: Collection[str] = (),
        fill: Collection[str] = (),
    ) -> None:
        """Run on Spark until stopped (Ctrl-C drains), or with ``until="caught-up"`` until all records are processed.

        A batch starts as soon as there are records; ``every="10 s"`` collects them for that long first. While there is
        little to do, one resident Spark task runs the batches, in milliseconds each: with ``trigger="auto"`` if Spark
        has a free slot, with ``"realtime"`` always. After a crash a run continues exactly where the last one stopped.
        Stages in ``reset`` start with empty state. New tables in ``fill`` are filled from the beginning of their
        topics while the other stages go on.
        """
        check_not_loading("run")
        run = self._importable().start(until, trigger=trigger, every=every, on_batch=on_batch, reset=reset, fill=fill)
        run.wait(handle_signals=True)

    def start(
        self,
        until: Until = "stopped",
        *,
        trigger: TriggerMode = "auto",
        every: Duration | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        reset: Collection[str] = (),
        fill: Collection[str] = (),
        on_fill: Callable[[FillProgress], None] | None = None,
    ) -> SparkRun:
        """Start a run in the background and return it: ``stop()`` drains it, ``wait()`` waits for its end.

        The arguments are those of ``run``; ``on_fill`` is called with the progress of a fill.
        """
        check_not_loading("start")
        app = self._importable()
        if app is not self:
            options: dict[str, Any] = {"reset": reset, "fill": fill, "on_fill": on_fill}
            return app.start(until, trigger=trigger, every=every, on_batch=on_batch, **options)
        from millstream.spark.run import SparkRun

        run = SparkRun.start(self._spec(), until, on_batch, Trigger.of(trigger, every), reset, fill, on_fill)
        _runs[self.data_dir, self.id] = run
        return run

    def stand_by(self, on_step: Callable[[str], None] = lambda _: None) -> bool:
        """Wait until no run of the app is alive on any host, with a copy of its state that stays up to date.

        Return True when it is time to call ``run``, False if Ctrl-C or SIGTERM ended the wait.
        """
        check_not_loading("stand_by")
        from millstream.spark.standby import stand_by

        return stand_by(self._importable()._spec(), on_step)

    def stop(self) -> None:
        """Drain the run that this process has started and wait for its end."""
        run = _runs.get((self.data_dir, self.id))
        if run is not None:
            run.stop()
            run.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the run that this process has started; False if it runs after ``timeout`` seconds."""
        run = _runs.get((self.data_dir, self.id))
        return run is None or run.wait(timeout)

    def _importable(self) -> App:
        """Return the app that workers can import: for a script the app of the imported module, with these settings."""
        if self.defined_in != "__main__":
            return self
        app: App = importable_app(self)
        app.broker_url, app.data_dir, app.config = self.broker_url, self.data_dir, self.config
        return app

    def _settings(self) -> AppSettings:
        return AppSettings(id=self.id, config=self.config, data_dir=self.data_dir, broker_url=self.broker_url)

    def _spec(self) -> AppSpec:
        return AppSpec(
            id=self.id,
            config=self.config,
            data_dir=self.data_dir,
            broker_url=self.broker_url,
            plan=self.plan,
            deliveries=self.deliveries,
            sources=self._draft.sources,
            reference=reference_to(self),
            sql=None if self._sql is None else msgspec.to_builtins(self.published_sql),
        )

    # Tables and topics

    @property
    def broker(self) -> Broker:
        """The log or Kafka cluster that the app reads and writes; each call opens it in this process."""
        from millstream.broker_urls import open_broker

        return open_broker(self.broker_url, self.data_dir, durability=self.config.durability)

    def create_topics(self) -> list[str]:
        """Create the topics that the app reads or writes and that do not exist, and return their names.

        A run does this at its start. Call it to write records before the first run. Topics that match a pattern, and
        those that a function chooses for each record, are created by others or with their first record.

        >>> import tempfile
        >>> app = App("shop", data_dir=tempfile.mkdtemp())
        >>> app.stream("orders").to("copies")
        >>> app.create_topics()
        ['orders', 'copies']
        """
        from millstream.batch.topics import create_topics

        broker = self.broker
        try:
            return create_topics(self._spec(), broker)
        finally:
            broker.close()

    @property
    def tables(self) -> Mapping[str, TableReader]:
        """The app's tables by name; they can be read while the app runs and afterwards.

        On Kafka with changelogs they can be read on any host. Where the app does not run, a copy is read; its
        ``copied_at`` says how old it may be.
        """
        from millstream.broker_urls import KAFKA
        from millstream.tables.opening import open_tables

        is_remote = self.broker_url is not None and self.broker_url.startswith(KAFKA)
        return open_tables(self.data_dir, self.id, self.plan, self.broker if is_remote else None)

    def producer(
        self, *, key: SerdeLike[Key] = None, value: SerdeLike[Value] = None, **options: Unpack[ProducerOptions]
    ) -> Producer[Key, Value]:
        """Return a producer for the app's broker; use it in a ``with`` block."""
        from millstream.producer import Producer

        return Producer(self.broker, key=key, value=value, **options)

    def consumer(
        self,
        group: str | None = None,
        *,
        topics: str | Sequence[str],
        key: SerdeLike[TextKey] = None,
        value: SerdeLike[Value] = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[TextKey, Value]:
        """Return a consumer for the app's broker, in a consumer group if one is given."""
        from millstream.consumer import Consumer

        return Consumer(self.broker, group, topics=topics, key=key, value=value, **options)

    @property
    def spark(self) -> SparkSession:
        """The Spark session of this process, with the data source ``millstream`` (docs/spark.md)."""
        from millstream.spark.session import spark_session

        return spark_session(self.config)

    def frames(self) -> DataFrameReader:
        """Return a reader of this app's topics and tables: ``app.frames().option("topic", "rides").load()``."""
        from millstream.spark.session import frames_of

        return frames_of(self._settings())

    def backfill(
        self, dataframe: DataFrame, *, topic: str, key: str | None = None, timestamp: str | None = None
    ) -> None:
        """Append the rows of a DataFrame to a topic, each as a JSON object; ``key`` and ``timestamp`` name columns.

        Rows are written in the order of ``timestamp`` if it is given, as they would have arrived live. A task that
        Spark runs again writes nothing twice. A call that fails keeps what it has written so far.
        """
        from millstream.spark.backfill import backfill

        backfill(self._settings(), dataframe, topic=topic, key=key, timestamp=timestamp)

    def main(self) -> None:
        """Run the ``millstream`` command line for this app: ``python my_app.py run``."""
        check_not_loading("main")
        from millstream.cli.main import main_for

        main_for(self._importable())
