"""Deliveries of ``to_spark``: sinks whose target is a function, which gets each batch as a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame

from millstream.batch.app_spec import AppSettings, AppSpec
from millstream.batch.batch import Batch
from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.connect.connector import Connector
from millstream.connect.sinks import SinkLoop, delete_read
from millstream.errors import DeliveryError, DeliveryFunctionError, MillstreamError
from millstream.foundation.text import error_text
from millstream.plan.sinks import SPARK_GUARANTEE
from millstream.plan.topology import SparkDelivery
from millstream.spark.datasource import FORMAT
from millstream.spark.session import source_options, spark_session
from millstream.state.task import StateVersion
from millstream.task.origins import line_of
from millstream.task.report import TaskReport
from millstream.task.task_input import Range

_OUTAGES = (OSError, PySparkException, Py4JError)
"""What a function raises if its target, the network or Spark is down."""
_MISTAKES = (AnalysisException, ParseException, FileNotFoundError, PermissionError)


def deliveries_of(app: AppSpec, broker: Broker) -> list[Connector]:
    """Return the ``to_spark`` steps of an app."""
    connectors: list[Connector] = []
    for topic, step in app.deliveries.items():
        if isinstance(step, SparkDelivery):
            connector = Connector(app, step.name, "sink", "Spark", SPARK_GUARANTEE)
            read = f"{app.config.output_prefix}{topic}"
            call = partial(_Call, app, broker, step)
            connectors.append(connector.attach(SinkLoop(app, broker, step.name, [read], topic, call)))
    return connectors


class _Call:
    """Calls the user's function with a batch."""

    def __init__(self, app: AppSettings, broker: Broker, delivery: SparkDelivery, journal: Journal) -> None:
        self._app = app
        self._broker = broker
        self._delivery = delivery
        self._lineage = journal.lineage()

    def close(self) -> None:
        """There is nothing to close: the function has what it needs."""

    def __call__(self, batch: Batch, _versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        name = self._delivery.name
        delete_read(self._broker, batch)
        try:
            self._delivery.function(self._frame(batch.ranges), batch.number, self._lineage)
        except MillstreamError:
            raise
        except Exception as error:
            raise _delivery_error(name, batch.number, error) from error
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


def _delivery_error(name: str, batch: int, error: Exception) -> DeliveryError:
    """Return the error of a function that raised; only an outage ends by itself."""
    reason = str(error).splitlines()[0] if isinstance(error, PySparkException) else error_text(error)
    message = f"to_spark step {name!r} failed on batch {batch}: {type(error).__name__}: {reason}"
    if isinstance(error, _OUTAGES) and not isinstance(error, _MISTAKES):
        hint = "it is called again with the same batch, by this run and after the next start"
        return DeliveryError(message, hint=hint, node=name)
    line = line_of(error)
    at_line = "" if line is None else f" ({line})"
    hint = "correct the function and start the app again; until then it is called again, less and less often"
    return DeliveryFunctionError(f"{message}{at_line}", hint=hint, node=name, line=line)


def _json(offsets: dict[int, int]) -> str:
    return msgspec.json.encode(offsets).decode()
