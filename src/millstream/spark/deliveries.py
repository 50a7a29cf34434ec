"""Deliveries of ``to_spark``: each batch of its topic as a DataFrame, with an id that always means the same rows.

A delivery is a separate batch loop over the topic of the step, with its own journal: the ranges of a batch are durable
before the function is called, and the batch is marked as done after the function has returned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from millstream.batch.app_spec import AppSettings, AppSpec
from millstream.batch.assembly import topic_loop
from millstream.batch.batch import Batch
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop, Until
from millstream.broker import Broker
from millstream.errors import MillstreamError, ProcessingError
from millstream.foundation.paths import delivery_dir
from millstream.plan.topology import SparkDelivery
from millstream.spark.datasource import FORMAT
from millstream.spark.session import source_options, spark_session
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport
from millstream.task.task_input import Range


class Deliveries:
    """The deliveries of an app."""

    def __init__(self, app: AppSpec, broker: Broker) -> None:
        self._loops = [_loop(app, broker, topic, delivery) for topic, delivery in app.deliveries.items()]
        self._error: BaseException | None = None

    @contextmanager
    def beside(self, until: Until, stop_app: Callable[[], None]) -> Iterator[None]:
        """Deliver in a thread per step while the app runs in the block; if it only catches up, deliver after it."""
        threads = [
            threading.Thread(target=self._run, args=(loop, stop_app), name="millstream-delivery", daemon=True)
            for loop in (self._loops if until == "stopped" else ())
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for loop in self._loops if until == "stopped" else ():
                loop.stop()
            for thread in threads:
                thread.join()
        if self._error is not None:
            raise self._error
        for loop in self._loops if until == "caught-up" else ():
            loop.run("caught-up")

    def _run(self, loop: BatchLoop, stop_app: Callable[[], None]) -> None:
        try:
            loop.run()
        except BaseException as error:
            self._error = self._error or error
            stop_app()


def _loop(app: AppSettings, broker: Broker, topic: str, delivery: SparkDelivery) -> BatchLoop:
    journal = Journal(delivery_dir(app.data_dir, app.id, topic), durable=app.is_durable)
    return topic_loop(f"{app.id}.{topic}", topic, broker, journal, app.config, _Call(app, broker, delivery))


class _Call:
    """Calls the user's function with a batch."""

    def __init__(self, app: AppSettings, broker: Broker, delivery: SparkDelivery) -> None:
        self._app = app
        self._broker = broker
        self._delivery = delivery

    def __call__(self, batch: Batch, _versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        name = self._delivery.name
        for range_ in batch.ranges:  # records that were delivered before are no longer needed
            self._broker.delete_before(range_.topic, range_.partition, range_.start)
        try:
            self._delivery.function(self._frame(batch.ranges), batch.number)
        except MillstreamError:
            raise
        except Exception as error:
            reason = str(error).splitlines()[0] if isinstance(error, PySparkException) else str(error)
            raise ProcessingError(
                f"to_spark step {name!r} failed on batch {batch.number}: {type(error).__name__}: {reason}",
                hint="the next start of the app calls it again with the same batch",
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
