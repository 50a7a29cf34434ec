"""The data source ``millstream``: topics and tables as DataFrames, for batch and streaming queries.

``register(spark)`` registers it with a session; that of ``app.spark`` has it already. Reading never disturbs an app.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from millstream.batch.planner import shares
from millstream.broker import Broker
from millstream.errors import DefinitionError, OffsetOutOfRangeError
from millstream.spark.datasink import StreamTopicWriter, TopicWriter
from millstream.spark.frames import RAW_SCHEMA, RowReader
from millstream.spark.options import Options
from millstream.spark.table_frames import TableRows
from millstream.task.task_input import Range

FORMAT = "millstream"


def register(spark: SparkSession) -> None:
    """Register the data source with a session."""
    spark.dataSource.register(MillstreamSource)


class MillstreamSource(DataSource):
    """``spark.read.format("millstream")``: a topic with ``topic``, a table with ``app`` and ``table``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType | str:
        options = Options(self.options)
        return RAW_SCHEMA if options.table is None else TableRows(options).inferred_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options(self.options)
        return TopicReader(options, schema) if options.table is None else TableFrameReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return TopicStreamReader(self._topic_options("read as a stream"), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise DefinitionError("a topic cannot be overwritten", hint='use .mode("append")')
        return TopicWriter(self._topic_options("written"), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        if overwrite:
            raise DefinitionError("a topic cannot be overwritten", hint='use .outputMode("append") or "update"')
        return StreamTopicWriter(self._topic_options("written as a stream"), schema)

    def _topic_options(self, what: str) -> Options:
        options = Options(self.options)
        if options.table is not None:
            raise DefinitionError(f"a table cannot be {what}", hint='use a topic: option("topic", NAME)')
        return options


class RangePartition(InputPartition):
    """A range of a topic's partition, read by one Spark task."""

    def __init__(self, range: Range) -> None:
        super().__init__((range.topic, range.partition, range.start, range.stop))

    @property
    def range(self) -> Range:
        return Range(*self.value)


class TopicReader(DataSourceReader):
    """Reads ranges of a topic."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[RangePartition]:
        broker = self._options.broker()
        try:
            return [RangePartition(range_) for range_ in self._options.ranges(broker)]
        finally:
            broker.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        return read_range(self._options, self._schema, partition.range)


def read_range(options: Options, schema: StructType, range_: Range) -> Iterator[Any]:
    """Yield the records of a range as Arrow batches."""
    rows = RowReader(range_.topic, schema, "skip" if options.on_error == "skip" else "fail")
    broker = options.broker()
    try:
        for chunk in broker.read(range_.topic, range_.partition, range_.start, range_.stop):
            yield rows.batch(range_.partition, chunk)
    finally:
        broker.close()


class TopicStreamReader(DataSourceStreamReader):
    """Reads a topic as a stream; the offsets are in the checkpoint of the query."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        broker = self._options.broker()
        try:
            return {str(range_.partition): range_.start for range_ in self._options.ranges(broker)}
        finally:
            broker.close()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        max_records = self._options.max_records
        return ReadAllAvailable() if max_records is None else ReadMaxRows(max_records)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        broker = self._options.broker()
        try:
            backlog = self._backlog(broker, start)
        finally:
            broker.close()
        if isinstance(limit, ReadMaxRows) and sum(range_.stop - range_.start for range_ in backlog) > limit.max_rows:
            parts = shares(backlog, limit.max_rows)
            backlog = [
                Range(range_.topic, range_.partition, range_.start, range_.start + part)
                for range_, part in zip(backlog, parts, strict=True)
            ]
        return {**start, **{str(range_.partition): range_.stop for range_ in backlog}}

    def _backlog(self, broker: Broker, start: Mapping[str, int]) -> list[Range]:
        assert self._options.topic is not None
        topic, backlog = self._options.topic, []
        for partition, bounds in enumerate(broker.offsets(topic)):
            position = start.get(str(partition), bounds.begin)
            if position > bounds.end:
                raise OffsetOutOfRangeError(
                    f"{topic}[{partition}] ends at {bounds.end}, but the query has read up to {position}",
                    hint="the topic was deleted and created again; start the query with a new checkpoint",
                    topic=topic,
                )
            if position < bounds.end:
                backlog.append(Range(topic, partition, position, bounds.end))
        return backlog

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[RangePartition]:
        assert self._options.topic is not None
        return [
            RangePartition(Range(self._options.topic, int(partition), start.get(partition, 0), stop))
            for partition, stop in end.items()
            if stop > start.get(partition, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        return read_range(self._options, self._schema, partition.range)


class TableFrameReader(DataSourceReader):
    """Reads a table of an app as of the last commit of each of its tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(TableRows(self._options).partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return TableRows(self._options).batches(partition.value, self._schema)
