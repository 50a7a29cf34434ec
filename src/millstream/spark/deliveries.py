"""Deliveries of ``to_spark``: each batch of its topic as a DataFrame, with an id that always means the same rows.

A delivery is a separate batch loop over the topic of the step, with its own journal: the ranges of a batch are durable
before the function is called, and the batch is marked as done after the function has returned. Ids are numbers within
a lineage: a reset or a restored savepoint starts a new one, so that a target which remembers ids does not mistake new
batches for old ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from millstream.batch.app_spec import AppSettings, AppSpec
from millstream.batch.assembly import topic_loop
from millstream.batch.batch import Batch
from millstream.batch.delivery import DeliveryLag, write_lag
from millstream.batch.journal import Journal
from millstream.batch.loop import LoopOptions, Until
from millstream.batch.planner import BatchSize, Planner, records_in
from millstream.batch.supervisor import Supervisor
from millstream.broker import Broker
from millstream.errors import DeliveryError, MillstreamError
from millstream.foundation.paths import delivery_dir
from millstream.plan.topology import SparkDelivery
from millstream.spark.datasource import FORMAT
from millstream.spark.session import source_options, spark_session
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport
from millstream.task.task_input import Range

_COUNT_SECONDS = 1.0


class Deliveries:
    """The deliveries of an app. One whose function raises is called again later; the app goes on meanwhile."""

    def __init__(self, app: AppSpec, broker: Broker) -> None:
        self._deliveries = [_Delivery(app, broker, topic, delivery) for topic, delivery in app.deliveries.items()]
        self._error: BaseException | None = None

    @contextmanager
    def beside(self, until: Until, stop_app: Callable[[], None]) -> Iterator[None]:
        """Deliver in a thread per step while the app runs in the block; if it only catches up, deliver after it."""
        is_beside = until == "stopped"
        threads = [
            threading.Thread(target=self._run, args=(delivery, stop_app), name="millstream-delivery", daemon=True)
            for delivery in (self._deliveries if is_beside else ())
        ]
        counting = threading.Thread(target=self._count_waiting, name="millstream-delivery-lag", daemon=True)
        done = self._counted = threading.Event()
        for thread in (*threads, *([counting] if threads else [])):
            thread.start()
        try:
            yield
        finally:
            for delivery in self._deliveries if is_beside else ():
                delivery.stop()
            done.set()
            for thread in (*threads, *([counting] if threads else [])):
                thread.join()
        if self._error is not None:
            raise self._error
        for delivery in () if is_beside else self._deliveries:
            delivery.count_waiting()
            delivery.run("caught-up")
            delivery.count_waiting()

    def _run(self, delivery: _Delivery, stop_app: Callable[[], None]) -> None:
        try:
            delivery.run("stopped")
        except BaseException as error:  # of the broker, the journal or Spark; not of the function
            self._error = self._error or error
            stop_app()

    def _count_waiting(self) -> None:
        """Store the lag of all deliveries every second, and once at the end."""
        while True:
            is_last = self._counted.wait(_COUNT_SECONDS)
            for delivery in self._deliveries:
                delivery.count_waiting()
            if is_last:
                return


class _Delivery:
    """The loop of one step, under a supervisor that calls the function again with growing pauses."""

    def __init__(self, app: AppSpec, broker: Broker, topic: str, delivery: SparkDelivery) -> None:
        self._app = app
        self._broker = broker
        self._topic = topic
        self._journal = Journal(delivery_dir(app.data_dir, app.id, topic), durable=app.is_durable)
        self._call = _Call(app, broker, delivery, self._journal.lineage())
        self._stopping = threading.Event()

    def run(self, until: Until) -> None:
        """Deliver until stopped, or until all records are delivered."""
        options = LoopOptions(stopping=self._stopping)
        name = f"{self._app.id}.{self._topic}"
        supervisor = Supervisor(
            name,
            self._journal,
            lambda: topic_loop(name, self._topic, self._broker, self._journal, self._app.config, self._call, options),
            stopping=self._stopping,
            activity=options.activity,
        )
        supervisor.run(until)

    def stop(self) -> None:
        """Finish the current call, or the pause before the next one, and end."""
        self._stopping.set()

    def count_waiting(self) -> None:
        """Store how many records wait to be delivered."""
        try:
            backlog = Planner(self._broker, [self._topic], BatchSize(1, 1.0)).backlog(self._journal.read()[0])
        except MillstreamError:  # the broker is down, or the topic does not exist yet
            return
        lag = DeliveryLag(at=time.time_ns() // 1_000_000, records=records_in(backlog))
        write_lag(self._app.data_dir, self._app.id, self._topic, lag)


class _Call:
    """Calls the user's function with a batch."""

    def __init__(self, app: AppSettings, broker: Broker, delivery: SparkDelivery, lineage: str) -> None:
        self._app = app
        self._broker = broker
        self._delivery = delivery
        self._lineage = lineage

    def __call__(self, batch: Batch, _versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        name = self._delivery.name
        for range_ in batch.ranges:  # records that were delivered before are no longer needed
            self._broker.delete_before(range_.topic, range_.partition, range_.start)
        try:
            self._delivery.function(self._frame(batch.ranges), batch.number, self._lineage)
        except MillstreamError:
            raise
        except Exception as error:
            reason = str(error).splitlines()[0] if isinstance(error, PySparkException) else str(error)
            raise DeliveryError(
                f"to_spark step {name!r} failed on batch {batch.number}: {type(error).__name__}: {reason}",
                hint="it is called again with the same batch, by this run and after the next start",
                node=name,
            ) from error
        return []

    def _frame(self, ranges: tuple[Range, ...]) -> DataFrame:
        spark = spark_session(self._app.config)
        reader = spark.read.format(FORMAT).options(**source_options(self._app))
        if self._delivery.schema is not None:
            reader = reader.schema(self._delivery.schema)
        topic = ranges[0].topic
        empty = dict.fromkeys(range(self._broker.topic(topic).partitions), 0)
        starts = {**empty, **{range_.partition: range_.start for range_ in ranges}}
        stops = {**empty, **{range_.partition: range_.stop for range_ in ranges}}
        reader = reader.option("topic", topic).option("start_offset", _json(starts))
        return reader.option("stop_offset", _json(stops)).load()


def _json(offsets: dict[int, int]) -> str:
    return msgspec.json.encode(offsets).decode()
