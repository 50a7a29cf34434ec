"""Sinks: where records leave the topology."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.foundation.names import check_name
from millstream.functions import Function
from millstream.plan.node import Node
from millstream.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sink(Node):
    """Write each record to a topic, fixed or computed from the record.

    ``partitioner`` chooses the partitions of a record; by default its key does. ``timestamp`` computes the time of the
    record in the topic; by default it is that of the record. With ``compact`` the topic is created as a compacted one.
    """

    source: Node
    topic: str | Function
    key: Serde | None = None
    value: Serde | None = None
    partitioner: Function | None = None
    timestamp: Function | None = None
    compact: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.topic, str):
            check_name("topic", self.topic)


SPARK_GUARANTEE = "the same rows for the same batch id, at least once"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparkSink(Sink):
    """Pass each record to Spark through a separate topic, which the driver reads in batches that it records."""

    guarantee: str = SPARK_GUARANTEE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConnectorSink(Sink):
    """Write each record to another system, through a separate topic that the sink reads in batches."""

    system: str
    guarantee: str


SINKS = (Sink, SparkSink, ConnectorSink)
