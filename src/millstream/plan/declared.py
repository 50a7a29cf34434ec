"""The declared serdes of key and value at each node.

None means not declared: sinks then use their defaults, and state and shuffles store the objects in their own format.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

from millstream.plan.batched import MapAsync, MapBatches
from millstream.plan.foreign_keys import (
    ForeignKeyAnswer,
    ForeignKeyJoin,
    ForeignKeyMissing,
    ForeignKeyResult,
    ForeignKeySubscribe,
)
from millstream.plan.joins import StreamGlobalJoin, StreamStreamJoin
from millstream.plan.node import Node, Nodes, fold
from millstream.plan.processors import Process, ProcessValues, TransformValues
from millstream.plan.select import Select, SelectRekeyed
from millstream.plan.sinks import Sink, SparkSink
from millstream.plan.sources import Source
from millstream.plan.stateful import Aggregate, Count, Reduce, StreamTableJoin, ToTable, WindowedAggregate
from millstream.plan.stateless import FlatMap, FlatMapValues, Map, MapValues, Repartition, SelectKey
from millstream.plan.tables import TableAggregate, TableGroupBy, TableMapValues, TableTableJoin
from millstream.serdes import MessagePack, Serde, serde_for
from millstream.windowed_serdes import SessionWindowed, TimeWindowed, sized_like, windowed_serde


class Declared(NamedTuple):
    """The declared serdes of the records that leave a node."""

    key: Serde | None
    value: Serde | None


def declared_serdes(nodes: Nodes) -> dict[Node, Declared]:
    """Return the declared serdes of the records that leave each node."""
    return fold(nodes, lambda node, sources: _declared(node, *sources))


@singledispatch
def _declared(_node: Node, source: Declared, *_others: Declared) -> Declared:
    return source


@_declared.register(Source)
def _source(node: Source) -> Declared:
    return Declared(node.key, node.value)


@_declared.register(Map)
@_declared.register(FlatMap)
@_declared.register(Process)
def _pair(node: Map | FlatMap | Process, _source: Declared) -> Declared:
    return Declared(node.key, node.value)


@_declared.register(MapValues)
@_declared.register(FlatMapValues)
@_declared.register(MapAsync)
@_declared.register(MapBatches)
@_declared.register(Aggregate)
@_declared.register(ProcessValues)
@_declared.register(TransformValues)
def _new_value(
    node: MapValues | FlatMapValues | MapAsync | MapBatches | Aggregate | ProcessValues | TransformValues,
    source: Declared,
    *_others: Declared,
) -> Declared:
    return Declared(source.key, node.value)


@_declared.register(Select)
def _selected(_node: Select, source: Declared) -> Declared:
    return Declared(source.key, None)


@_declared.register(SelectRekeyed)
def _selected_key(node: SelectRekeyed, _source: Declared) -> Declared:
    return Declared(node.key, None)


@_declared.register(SelectKey)
def _new_key(node: SelectKey, source: Declared) -> Declared:
    return Declared(node.key, source.value)


@_declared.register(Repartition)
@_declared.register(ToTable)
@_declared.register(Sink)
def _overriding(node: Repartition | ToTable | Sink, source: Declared) -> Declared:
    return Declared(sized_like(node.key, source.key) or source.key, node.value or source.value)


@_declared.register(SparkSink)
def _to_spark(node: SparkSink, source: Declared) -> Declared:
    """Rows of a DataFrame show windowed keys as JSON."""
    key = None if isinstance(source.key, TimeWindowed | SessionWindowed) else source.key
    return Declared(key, node.value or source.value)


@_declared.register(Reduce)
def _reduce(node: Reduce, source: Declared) -> Declared:
    return Declared(source.key, node.value or source.value)


@_declared.register(TableMapValues)
@_declared.register(TableAggregate)
def _new_row(node: TableMapValues | TableAggregate, source: Declared) -> Declared:
    return Declared(source.key, node.value)


@_declared.register(TableGroupBy)
def _groups(node: TableGroupBy, _source: Declared) -> Declared:
    return Declared(node.key, None)


@_declared.register(TableTableJoin)
@_declared.register(StreamStreamJoin)
def _both_keyed(node: TableTableJoin | StreamStreamJoin, left: Declared, right: Declared) -> Declared:
    return Declared(left.key or right.key, node.value)


@_declared.register(ForeignKeyJoin)
def _foreign_key_join(node: ForeignKeyJoin, left: Declared, _right: Declared) -> Declared:
    return Declared(left.key, node.value)


@_declared.register(ForeignKeySubscribe)
@_declared.register(ForeignKeyMissing)
@_declared.register(ForeignKeyAnswer)
def _messages(_node: Node, *_sources: Declared) -> Declared:
    """Send each other lists of plain data."""
    return Declared(None, MessagePack(list))


@_declared.register(ForeignKeyResult)
def _answered(node: ForeignKeyResult, answers: Declared, *_others: Declared) -> Declared:
    return Declared(answers.key, node.value)


@_declared.register(WindowedAggregate)
def _windowed(node: WindowedAggregate, source: Declared, *_others: Declared) -> Declared:
    return Declared(windowed_serde(node.windows, source.key), node.value)


@_declared.register(Count)
def _count(_node: Count, source: Declared) -> Declared:
    return Declared(source.key, serde_for(int))


@_declared.register(StreamTableJoin)
@_declared.register(StreamGlobalJoin)
def _join(node: StreamTableJoin | StreamGlobalJoin, stream: Declared, *_table: Declared) -> Declared:
    return Declared(stream.key, node.value)
