"""The topology of an app as a graph with metrics, for the page and for other programs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import msgspec

import millstream.plan
from millstream.batch.report import BatchReport
from millstream.foundation.text import printable
from millstream.operations.lag import lag_of
from millstream.operators.probe import Measured
from millstream.plan.node import Node, verb_of
from millstream.serve.api.apps import AppParams
from millstream.serve.flow import MeasuredFlow
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.status import StageStatus, status_of

_RECENT_MS = 10_000
_PLAIN_SETTINGS = frozenset({"name", "op", "in", "table"})


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, or a step of a stage; ``semantics`` describes what the step does with records.

    ``micros`` is its time per record in microseconds, and ``share`` its share of the time of all steps of the app.
    """

    id: str
    kind: Literal["topic", "step", "table"]
    label: str
    verb: str
    stage: str | None = None
    settings: dict[str, Any] = {}
    semantics: str = ""
    lag: int | None = None
    rate: float | None = None
    rows: int | None = None
    bytes: int | None = None
    micros: float | None = None
    share: float | None = None
    is_slowest: bool = False


class EdgeSample(msgspec.Struct, frozen=True, kw_only=True):
    """A sampled record of an edge, as text that may be truncated."""

    key: str
    value: str
    timestamp: int


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge between two nodes; ``rekeys`` if records are repartitioned by a new key.

    ``samples`` are the last records of the last sampled batch, newest first; an edge of a topic has none, since the
    records can be read from the topic.
    """

    source: str
    target: str
    rekeys: bool = False
    rate: float | None = None
    topic: str | None = None
    samples: list[EdgeSample] = []


class GraphStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage runs as one task per partition; ``seconds`` is the time of its tasks for ``records_in`` records."""

    name: str
    level: int
    partitions: int
    nodes: list[str]
    records_in: int
    records_out: int
    seconds: float
    is_slowest: bool = False


class TopologyGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of an app."""

    app: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    stages: list[GraphStage]


def get_topology(site: Site, params: AppParams) -> TopologyGraph:
    """Return the graph of an app with the metrics of its last batches."""
    journal = site.directory.journal(params.app)
    plan: dict[str, Any] = journal.catalog().get("plan", {"nodes": [], "stages": []})
    status = status_of(site.directory.path, params.app)
    recent = _recent(journal.history.batches(200))
    stages = _stages(plan, status.stages)
    builder = _GraphBuilder(plan, status.stages, recent, journal.history.steps())
    lag = _by_topic(lag_of(site.directory, journal))
    for node in plan["nodes"]:
        builder.add(node)
    topics = [
        builder.topic(name, lag.get(name) if name in builder.read else None, site.rates.of(name))
        for name in builder.topics
    ]
    return TopologyGraph(app=params.app, nodes=[*topics, *builder.nodes], edges=builder.edges, stages=stages)


def plan_graph(app: str, plan: dict[str, Any]) -> TopologyGraph:
    """Return the graph of a plan that may never have run, without metrics."""
    builder = _GraphBuilder(plan, [], [], {})
    for node in plan["nodes"]:
        builder.add(node)
    topics = [builder.topic(name, None, None) for name in builder.topics]
    edges = [msgspec.structs.replace(edge, rate=None) for edge in builder.edges]
    return TopologyGraph(app=app, nodes=[*topics, *builder.nodes], edges=edges, stages=_stages(plan, []))


class _GraphBuilder:
    """Turns the nodes of a plan into nodes and edges of a graph, in which topics are nodes too."""

    def __init__(
        self,
        plan: dict[str, Any],
        stages: list[StageStatus],
        recent: list[BatchReport],
        steps: Mapping[str, Measured],
    ) -> None:
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []
        self.topics: dict[str, None] = {}
        self.read: set[str] = set()
        self._rates = topic_rates(recent)
        self._entering = stage_rates(recent)
        self._samples = {edge: records for stage in steps.values() for edge, records in stage.samples.items()}
        self._flow = MeasuredFlow(steps, self._entering, {stage.name: stage.totals for stage in stages})
        self._stage_of = {
            name: stage["name"] for stage in plan["stages"] for name in stage["nodes"] if name not in stage["reads"]
        }
        self._reader_of = {edge: stage["name"] for stage in plan["stages"] for edge in stage["reads"]}
        self._stores = {name: store for stage in stages for name, store in stage.stores.items()}

    def topic(self, name: str, lag: int | None, rate: float | None) -> GraphNode:
        """Return the node of a topic."""
        rate = self._rates.get(name, rate)
        return GraphNode(id=f"topic:{name}", kind="topic", label=name, verb="topic", lag=lag, rate=rate)

    def add(self, node: dict[str, Any]) -> None:
        """Add a node of the plan, and its edges."""
        name, verb = node["name"], node["op"].partition("/")[0]
        store, flow = self._stores.get(name), self._flow
        self.nodes.append(
            GraphNode(
                id=name,
                kind="table" if node["table"] else "step",
                label=name,
                verb=verb,
                stage=self._stage_of.get(name),
                settings={key: value for key, value in node.items() if key not in _PLAIN_SETTINGS},
                semantics=semantics_of(verb),
                rows=None if store is None else store.rows,
                bytes=None if store is None else store.bytes,
                rate=flow.into(name),
                micros=flow.micros(name),
                share=flow.share(name),
                is_slowest=name == flow.slowest,
            )
        )
        for topic in node.get("topics", []):
            self.topics[topic] = None
            self.read.add(topic)
            self.edges.append(
                GraphEdge(source=f"topic:{topic}", target=name, rate=self._rates.get(topic, 0.0), topic=topic)
            )
        for source in node["in"]:
            reader, rate = self._reader_of.get(source), flow.edge(source, name)
            if rate is None and reader is not None:  # without samples, use the input rate of the stage
                rate = self._entering.get(reader)
            samples = [
                EdgeSample(key=printable(record.key), value=printable(record.value), timestamp=record.timestamp)
                for record in reversed(self._samples.get(f"{source}>{name}", []))
            ]
            self.edges.append(
                GraphEdge(source=source, target=name, rekeys=reader is not None, rate=rate, samples=samples)
            )
        for setting in ("topic", "late_to"):
            topic = node.get(setting)
            if isinstance(topic, str):
                self.topics[topic] = None
                rate = flow.into(name) if setting == "topic" else None
                self.edges.append(GraphEdge(source=name, target=f"topic:{topic}", topic=topic, rate=rate))


@cache
def _nodes_by_verb() -> dict[str, str]:
    """Return the docstrings of all nodes of the plan by their verbs."""
    docstrings: dict[str, str] = {}
    for module in pkgutil.iter_modules(millstream.plan.__path__, "millstream.plan."):
        for kind in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(kind) and issubclass(kind, Node) and kind.__doc__:
                docstrings[verb_of(kind)] = inspect.cleandoc(kind.__doc__)
    return docstrings


def semantics_of(verb: str) -> str:
    """Return what a step does with records: the first clause of its node's docstring."""
    return re.split(r" \(|[.;:] |[.;:]?$", _nodes_by_verb().get(verb, "").replace("``", "").replace("\n", " "))[0]


def topic_rates(recent: list[BatchReport]) -> dict[str, float]:
    """Return how many records per second an app reads from each topic."""
    records: dict[str, int] = {}
    for report in recent:
        for range_ in report.plan.ranges:
            records[range_.topic] = records.get(range_.topic, 0) + range_.stop - range_.start
    return _per_second(records, recent)


def stage_rates(recent: list[BatchReport]) -> dict[str, float]:
    """Return how many records per second enter each stage."""
    records: dict[str, int] = {}
    for report in recent:
        for task in report.tasks:
            records[task.stage] = records.get(task.stage, 0) + task.records_in
    return _per_second(records, recent)


def _per_second(records: dict[str, int], recent: list[BatchReport]) -> dict[str, float]:
    if not recent:
        return {}
    started = recent[0].ended_at - recent[0].seconds * 1000
    seconds = max(0.001, (recent[-1].ended_at - started) / 1000)
    return {name: count / seconds for name, count in records.items()}


def _recent(batches: list[BatchReport]) -> list[BatchReport]:
    return [batch for batch in batches if batch.ended_at >= batches[-1].ended_at - _RECENT_MS]


def _by_topic(lag: dict[str, int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, count in lag.items():
        topic = name.rpartition("/")[0]
        sums[topic] = sums.get(topic, 0) + count
    return sums


def _stages(plan: dict[str, Any], statuses: list[StageStatus]) -> list[GraphStage]:
    status_of_stage = {status.name: status for status in statuses}
    stages = [
        GraphStage(
            name=stage["name"],
            level=stage["level"],
            partitions=status.partitions if (status := status_of_stage.get(stage["name"])) else 0,
            nodes=[name for name in stage["nodes"] if name not in stage["reads"]],
            records_in=status.totals.records_in if status else 0,
            records_out=status.totals.records_out if status else 0,
            seconds=status.totals.seconds if status else 0.0,
        )
        for stage in plan["stages"]
        if stage["nodes"]
    ]
    slowest = max(stages, key=lambda stage: stage.seconds, default=None)
    return [
        msgspec.structs.replace(stage, is_slowest=stage is slowest and stage.seconds > 0 and len(stages) > 1)
        for stage in stages
    ]


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/apps/{app}/topology",
        summary="Show the topology of an app with metrics",
        handler=get_topology,
        params=AppParams,
        result=TopologyGraph,
    ),
)
