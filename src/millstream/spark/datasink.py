"""Write DataFrames to topics.

In a batch query each Spark task appends its rows under its own producer name, with sequence numbers, so a task that
Spark runs again writes nothing twice. A job that fails keeps what it has written so far. A streaming query hands over
the rows of a micro-batch when Spark commits it, and skips a micro-batch that was written before: exactly once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from millstream.broker import Output
from millstream.errors import DefinitionError
from millstream.foundation.blocks import from_bytes, to_bytes
from millstream.spark.frames import RowWriter
from millstream.spark.options import Options


@dataclass
class Written(WriterCommitMessage):
    """The result of one task: for a streaming query its records, as (topic partition, block)."""

    blocks: list[tuple[int, bytes]]


class TopicWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame to a topic."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._rows = RowWriter(schema.names)
        self._name = f"spark.{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        broker = self._options.broker()
        try:
            topic = broker.topic(self._options.topic or "")
            for number, batch in enumerate(iterator):
                outputs = self._rows.outputs(batch, topic, task + number)
                broker.append_once(f"{self._name}.{task}", number, outputs)
        finally:
            broker.close()
        return Written([])


class StreamTopicWriter(DataSourceStreamArrowWriter):
    """Appends the micro-batches of a query to a topic, each once."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._rows = RowWriter(schema.names)
        if options.checkpoint is None:
            raise DefinitionError(
                "a query that writes to a topic needs a checkpoint", hint='give option("checkpointLocation", PATH)'
            )
        self._name = f"spark.{blake2b(options.checkpoint.encode(), digest_size=16).hexdigest()}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        broker = self._options.broker()
        try:
            topic = broker.topic(self._options.topic or "")
        finally:
            broker.close()
        return Written(
            [
                (output.partition, to_bytes(output.block))
                for batch in iterator
                for output in self._rows.outputs(batch, topic, context.partitionId())
            ]
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        topic = self._options.topic or ""
        outputs = [
            Output(topic, partition, from_bytes(data))
            for message in messages
            if isinstance(message, Written)
            for partition, data in message.blocks
        ]
        if outputs:
            broker = self._options.broker()
            try:
                broker.append_once(self._name, batchId, outputs)
            finally:
                broker.close()
