"""Pass column batches to several readers of a node, one reader after the other.

Single records go to each reader in turn. That order can be seen if readers write to the same topic or edge, use the
same store, call actions or processors, or aggregate with a function of the user, which may change the value of an
earlier record that is its aggregate now. Readers without any of these are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.operators.columns import ColumnBatch, ProcessColumns
from millstream.operators.runtime import RecordContext
from millstream.plan.node import Node
from millstream.plan.sinks import Sink, SparkSink
from millstream.plan.stages import shared_stores
from millstream.plan.stateful import Aggregate, Count, ToStream, WindowedAggregate
from millstream.plan.stateless import STATELESS, Foreach, Peek

_ANY_TOPIC = "topic", None
"""The topic of a sink that computes it for each record."""
_STATELESS = tuple(kind for kind in STATELESS if kind not in (Peek, Foreach))


def are_independent(readers: Sequence[Node], readers_of: Callable[[Node], list[Node]]) -> bool:
    """Whether nothing shows in which order the readers of a node process the records of a batch."""
    used: set[object] = set()
    for reader in readers:
        nodes = _downstream(reader, readers_of)
        if not all(map(_is_unaffected, nodes)):
            return False
        uses = {use for node in nodes for use in _uses(node)}
        if _overlap(used, uses):
            return False
        used |= uses
    return True


def _overlap(used: set[object], uses: set[object]) -> bool:
    """Whether two readers use the same; a computed topic can be any topic."""
    topics, other_topics = ({use for use in each if isinstance(use, tuple)} for each in (used, uses))
    can_meet = bool(topics and other_topics) and _ANY_TOPIC in topics | other_topics
    return can_meet or bool(used & uses)


def _is_unaffected(node: Node) -> bool:
    """Whether a step gives the same results if other readers have processed later records before."""
    if isinstance(node, Aggregate | WindowedAggregate):
        return node.ready is not None or getattr(node, "counts", False)
    return isinstance(node, (Count, ToStream, Sink, SparkSink, *_STATELESS))


def _downstream(node: Node, readers_of: Callable[[Node], list[Node]]) -> set[Node]:
    nodes, pending = {node}, [node]
    while pending:
        for reader in readers_of(pending.pop()):
            if reader not in nodes:
                nodes.add(reader)
                pending.append(reader)
    return nodes


def _uses(node: Node) -> list[object]:
    """Return everything through which the order of records can be seen: the node, its stores, its topics."""
    uses: list[object] = [node, *shared_stores(node)]
    if isinstance(node, Sink):
        uses.append(("topic", node.topic) if isinstance(node.topic, str) else _ANY_TOPIC)
    if (late_to := getattr(node, "late_to", None)) is not None:
        uses.append(("topic", late_to))
    return uses


def one_after_the_other(processes: Sequence[ProcessColumns], context: RecordContext) -> ProcessColumns:
    """Return a function that passes a column batch to each reader, which sees the stream time from its first record."""

    def process_columns(batch: ColumnBatch) -> None:
        stream_time = context.stream_time
        for process in processes:
            context.stream_time = stream_time
            process(batch)

    return process_columns
