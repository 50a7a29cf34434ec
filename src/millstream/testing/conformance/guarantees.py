"""What Kafka Streams guarantees of a case's results when partitions and batches are others than in the case.

A case was answered by one task that processed one record at a time. On several partitions there is a task for each
partition of a sub-topology. Two things are then open: which records a task has seen (stream time, state of processors),
and in which order records of different partitions or sub-topologies arrive. docs/testing.md states the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from millstream.errors import MillstreamError
from millstream.plan.foreign_keys import ForeignKeyAnswer, ForeignKeyResult, ForeignKeySubscribe
from millstream.plan.histories import history_of
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.layout import Layout
from millstream.plan.node import Node, fold, inputs
from millstream.plan.processors import PROCESSORS, Process
from millstream.plan.repartitions import rekeyed_nodes
from millstream.plan.sinks import Sink
from millstream.plan.sources import Source
from millstream.plan.stateful import StreamTableJoin, WindowedAggregate
from millstream.plan.stateless import FlatMap, FlatMapValues, Repartition
from millstream.plan.suppress import Suppress
from millstream.plan.tables import TableGroupBy
from millstream.plan.topology import Plan
from millstream.testing.conformance.cases import Case
from millstream.testing.conformance.topology import Topology
from millstream.windows import SessionWindows


@dataclass(frozen=True)
class Guarantee:
    """How results must agree with those of a case."""

    by_partition: bool
    """Whether each partition is a task of its own, which must have the results of its records alone."""
    unordered: frozenset[str]
    """Topics in which the order of a key's records is open."""
    has_dynamic_topics: bool

    def is_ordered(self, topic: str, sinks: frozenset[str]) -> bool:
        """Whether the records of a key have a defined order in a topic."""
        return topic not in self.unordered and not (self.has_dynamic_topics and topic not in sinks)


def guarantee_of(case: Case, partitions: int, *, large: bool) -> Guarantee | str:
    """Return what is guaranteed on some partitions, with one record per batch or with all in one; or why nothing is."""
    if case.config or case.expect.error or case.expect.final:
        return "error handlers, refused topologies and caching are compared on one partition only"
    try:
        plan = Topology(case.topology, {}).app.plan
        layout = Layout.of(plan, dict.fromkeys(plan.source_topics, partitions), otherwise=partitions)
    except MillstreamError:
        return "its repartition() has a fixed number of partitions, and a join needs that of its topics"
    if partitions > 1 and any(source.on_invalid == "partition_time" for source in plan.sources):
        return "an invalid timestamp is replaced by the latest one of its partition, and there are others"
    is_one_stage = len(plan.stages) == 1
    if not is_one_stage and any(isinstance(node, PROCESSORS) for node in plan.nodes):
        return "a processor sees the stream time of its sub-topology, which in the case all share"
    reason = _order_reason(case, plan, has_one_sender=max(layout.partitions) == 1 or is_one_stage) if large else None
    if partitions > 1 and not is_one_stage:
        reason = reason or _task_reason(plan)
    unordered = unordered_topics(plan, partitions, large=large)
    return reason or Guarantee(partitions > 1 and is_one_stage, unordered, partitions > 1 and _computes_topics(plan))


def _computes_topics(plan: Plan) -> bool:
    return any(isinstance(node, Sink) and not isinstance(node.topic, str) for node in plan.nodes)


def _task_reason(plan: Plan) -> str | None:
    """Return why results depend on which records a task sees."""
    if any(_depends_on_time(node) for node in plan.nodes):
        return "it depends on stream time, which a task has for itself"
    if any(_is_spread(plan, node) for node in plan.nodes):
        return "one record causes several, which take different ways to the same task"
    if any(stage.round for stage in plan.stages):
        return "a shuffle leads back into its own sub-topology"
    if any(
        isinstance(node, Sink) and isinstance(node.topic, str) and _is_read(plan, node.topic) for node in plan.nodes
    ):
        return "it reads a topic that it writes"
    return None


def _depends_on_time(node: Node) -> bool:
    if isinstance(node, StreamTableJoin):
        return node.grace is not None
    return isinstance(node, WindowedAggregate | StreamStreamJoin | Suppress) or history_of(node) is not None


def _is_read(plan: Plan, topic: str) -> bool:
    return any(source.reads(topic) for source in plan.sources)


@dataclass(frozen=True)
class _Spread:
    """How the records that one record causes are spread over tasks."""

    is_several: bool = False
    is_shuffled: bool = False
    """Whether several were sent to different tasks."""
    is_spread: bool = False
    """Whether these were then sent on, so that they may meet again in any order."""


def _is_spread(plan: Plan, node: Node) -> bool:
    return _spreads(plan)[node].is_spread


def _spreads(plan: Plan) -> dict[Node, _Spread]:
    def step(node: Node, sources: tuple[_Spread, ...]) -> _Spread:
        several = any(source.is_several for source in sources) or len(sources) > 1 or isinstance(node, _SEVERAL)
        shuffled = any(source.is_shuffled for source in sources)
        spread = any(source.is_spread for source in sources)
        if isinstance(node, Repartition) and not isinstance(node.source, ForeignKeySubscribe | ForeignKeyAnswer):
            return _Spread(several, shuffled or several, spread or shuffled)
        if isinstance(node, ForeignKeySubscribe | ForeignKeyAnswer):  # both send on what they get
            return _Spread(several, shuffled, spread or shuffled)
        if isinstance(node, ForeignKeyResult):
            return _Spread(True, True, spread)
        return _Spread(several, shuffled, spread)

    return fold(plan.nodes, step)


_SEVERAL = (FlatMap, FlatMapValues, TableGroupBy, WindowedAggregate, StreamStreamJoin, Process, Suppress)
"""Nodes that can forward several records for one; those with several inputs can, too."""


def _order_reason(case: Case, plan: Plan, *, has_one_sender: bool) -> str | None:
    """Return why the order in which records are processed depends on the batches."""
    if any("pipe" not in step for step in case.steps):
        return "the wall clock advances between batches"
    if any(stage.round for stage in plan.stages):
        return "a shuffle leads back into its own sub-topology, whose other inputs do not wait for it"
    if plan.global_tables:
        return "a global table does not wait for other inputs"
    if any(
        isinstance(node, Sink) and (not isinstance(node.topic, str) or _is_read(plan, node.topic))
        for node in plan.nodes
    ):
        return "it reads a topic that it writes, or computes topics"
    if has_one_sender and _has_one_order(case, plan):
        return None
    times = [step["pipe"][3] for step in case.steps]
    if any(later <= earlier for earlier, later in pairwise(times)):
        return "inputs are merged by time, which is not the order of the steps"
    if any(_changes_time(node) for node in (*plan.nodes, *plan.waiting)):
        return "records get other timestamps than the record that causes them"
    return None


def _has_one_order(case: Case, plan: Plan) -> bool:
    """Whether there is one order whatever the timestamps are: all sub-topologies have a single input."""
    is_single = len(plan.source_topics) == 1 and len({step["pipe"][0] for step in case.steps}) <= 1
    return is_single and all(len(stage.inputs) == 1 for stage in plan.stages)


def _changes_time(node: Node) -> bool:
    if isinstance(node, Source):
        return node.timestamp is not None
    if isinstance(node, WindowedAggregate):
        return node.final or isinstance(node.windows, SessionWindows)
    if isinstance(node, StreamStreamJoin):
        return node.kind != "inner"
    return isinstance(node, Suppress | Process) or (isinstance(node, StreamTableJoin) and node.grace is not None)


def unordered_topics(plan: Plan, partitions: int, *, large: bool) -> frozenset[str]:
    """Return the topics that several tasks write with the same key; ``large``: several records in one batch."""
    rekeyed = rekeyed_nodes(plan.nodes)
    writers: dict[str, set[str]] = {}
    unordered: set[str] = set()
    for stage in plan.stages:
        for node in stage.nodes:
            if isinstance(node, Sink) and isinstance(node.topic, str):
                writers.setdefault(node.topic, set()).add(stage.name)
                if partitions > 1 and any(rekeyed[source] for source in inputs(node)):
                    unordered.add(node.topic)
    return frozenset(
        unordered | {topic for topic, stages in writers.items() if len(stages) > 1 and (large or partitions > 1)}
    )
