"""Which serde is known for key and value at each node.

None means that nobody has said: sinks then use their defaults, and state and shuffles keep the objects as they are.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

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
from millstream.plan.sinks import Sink
from millstream.plan.sources import Source
from millstream.plan.stateful import Aggregate, Count, Reduce, StreamTableJoin, ToTable, WindowedAggregate
from millstream.plan.stateless import FlatMap, FlatMapValues, Map, MapValues, Repartition, SelectKey
from millstream.plan.tables import TableAggregate, TableGroupBy, TableMapValues, TableTableJoin
from millstream.serdes import MessagePack, Serde, serde_for


class Declared(NamedTuple):
    """What is known of the records that leave a node."""

    key: Serde | None
    value: Serde | None


def declared_serdes(nodes: Nodes) -> dict[Node, Declared]:
    """Return what is known of the records that leave each node."""
    return fold(nodes, lambda node, sources: _leaving(node, *sources))


@singledispatch
def _leaving(_node: Node, source: Declared, *_others: Declared) -> Declared:
    return source


@_leaving.register(Source)
def _source(node: Source) -> Declared:
    return Declared(node.key, node.value)


@_leaving.register(Map)
@_leaving.register(FlatMap)
@_leaving.register(Process)
def _pair(node: Map | FlatMap | Process, _source: Declared) -> Declared:
    return Declared(node.key, node.value)


@_leaving.register(MapValues)
@_leaving.register(FlatMapValues)
@_leaving.register(Aggregate)
@_leaving.register(ProcessValues)
@_leaving.register(TransformValues)
def _new_value(
    node: MapValues | FlatMapValues | Aggregate | ProcessValues | TransformValues,
    source: Declared,
    *_others: Declared,
) -> Declared:
    return Declared(source.key, node.value)


@_leaving.register(SelectKey)
def _new_key(node: SelectKey, source: Declared) -> Declared:
    return Declared(node.key, source.value)


@_leaving.register(Repartition)
@_leaving.register(ToTable)
@_leaving.register(Sink)
def _overriding(node: Repartition | ToTable | Sink, source: Declared) -> Declared:
    return Declared(node.key or source.key, node.value or source.value)


@_leaving.register(Reduce)
def _reduce(node: Reduce, source: Declared) -> Declared:
    return Declared(source.key, node.value or source.value)


@_leaving.register(TableMapValues)
@_leaving.register(TableAggregate)
def _new_row(node: TableMapValues | TableAggregate, source: Declared) -> Declared:
    return Declared(source.key, node.value)


@_leaving.register(TableGroupBy)
def _groups(node: TableGroupBy, _source: Declared) -> Declared:
    return Declared(node.key, None)


@_leaving.register(TableTableJoin)
@_leaving.register(StreamStreamJoin)
def _both_keyed(node: TableTableJoin | StreamStreamJoin, left: Declared, right: Declared) -> Declared:
    return Declared(left.key or right.key, node.value)


@_leaving.register(ForeignKeyJoin)
def _foreign_key_join(node: ForeignKeyJoin, left: Declared, _right: Declared) -> Declared:
    return Declared(left.key, node.value)


@_leaving.register(ForeignKeySubscribe)
@_leaving.register(ForeignKeyMissing)
@_leaving.register(ForeignKeyAnswer)
def _letters(_node: Node, *_sources: Declared) -> Declared:
    """What they send to each other are lists of plain data."""
    return Declared(None, MessagePack(list))


@_leaving.register(ForeignKeyResult)
def _answered(node: ForeignKeyResult, answers: Declared, *_others: Declared) -> Declared:
    return Declared(answers.key, node.value)


@_leaving.register(WindowedAggregate)
def _windowed(node: WindowedAggregate, _source: Declared, *_others: Declared) -> Declared:
    return Declared(None, node.value)


@_leaving.register(Count)
def _count(_node: Count, source: Declared) -> Declared:
    return Declared(source.key, serde_for(int))


@_leaving.register(StreamTableJoin)
@_leaving.register(StreamGlobalJoin)
def _join(node: StreamTableJoin | StreamGlobalJoin, stream: Declared, *_table: Declared) -> Declared:
    return Declared(stream.key, node.value)
