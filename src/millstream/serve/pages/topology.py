"""Topology: the graph of an app with its metrics; a click on a node or an edge shows details."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.foundation.text import json_line
from millstream.foundation.times import format_duration
from millstream.serve.api.apps import AppParams
from millstream.serve.api.topology import GraphEdge, GraphNode, GraphStage, TopologyGraph, get_topology
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.graph import drawings, share_text
from millstream.serve.pages.parts import (
    by,
    card,
    duration,
    facts,
    link,
    micros,
    moment,
    number,
    rate,
    size,
    table,
)
from millstream.serve.site import Site
from millstream.windows import FOREVER

_SAMPLED = "The last records of the last sampled batch, newest first:"
_NOT_SAMPLED = "No records yet. Some batches are sampled; the last records of the last one are shown here."
_DURATIONS = frozenset(
    {"size", "advance", "grace", "gap", "difference", "before", "after", "wait", "retention", "history"}
)


def topology_page(site: Site, app: str) -> tuple[Content, ...]:
    """Return the content of the page for one app."""
    graph = get_topology(site, AppParams(app=app))
    note = element(
        "p",
        "Boxes are stages; each runs as one task per partition. Dashed edges repartition records by a new key. Edges "
        "show records per second, steps show their share of the time of all steps. Click a node or an edge for "
        "details. Zoom with the buttons, with Ctrl and the mouse wheel, or with two fingers; drag to move.",
        class_="note",
    )
    buttons = element(
        "p",
        *(
            element("button", text, type="button", data_zoom=zoom, aria_label=label)
            for text, zoom, label in (("+", "in", "Zoom in"), ("-", "out", "Zoom out"), ("Fit", "fit", "Show all"))
        ),
        class_="zoom",
    )
    graph_region = element("div", drawings(graph), id="graph", data_live=True)
    details = element("div", _details(graph), id="details-source", data_live=True, hidden=True)
    panel = element(
        "aside",
        element("p", "Choose a node or an edge to see its metrics.", class_="none"),
        id="panel",
        aria_live="polite",
    )
    return (
        card("", element("div", graph_region, class_="graph-box"), buttons, details, wide=True),
        element("section", element("h2", "Details"), panel, class_="card wide"),
        card("Stages", _stages(graph), live="stage-metrics", wide=True),
        card("How to read the drawing", note, wide=True),
    )


def _details(graph: TopologyGraph) -> Markup:
    """Return the details of all nodes and edges, which are hidden until one is chosen."""
    nodes = [_node_detail(graph, node) for node in graph.nodes]
    edges = [_edge_detail(index, edge) for index, edge in enumerate(graph.edges)]
    return joined(nodes, edges)


def _node_detail(graph: TopologyGraph, node: GraphNode) -> Markup:
    pairs: list[tuple[str, Content]] = [("Kind", node.verb.replace("_", " "))]
    if node.is_slowest:
        pairs.append(("Slowest", "needs more time than any other step"))
    if node.stage is not None:
        pairs.append(("Stage", node.stage))
    metrics: tuple[tuple[str, float | None, Callable[[Any], Content]], ...] = (
        ("Rows", node.rows, number),
        ("Size", node.bytes, size),
        ("Lag", node.lag, number),
        ("Records", node.rate, rate),
        ("Time per record", node.micros, micros),
        ("Share of time", node.share, share_text),
    )
    pairs += [(name, format_metric(value)) for name, value, format_metric in metrics if value is not None]
    pairs += [
        (name.replace("_", " ").capitalize(), element("code", _setting_text(_with_unit(name, value))))
        for name, value in node.settings.items()
        if not _is_internal(value)
    ]
    data_link: Content = None
    if node.kind == "topic":
        data_link = element("p", link("Records of the topic", "topics", node.label))
    elif node.kind == "table":
        data_link = element("p", link("Rows of the table", "tables", graph.app, node.label))
    return element(
        "article",
        element("h3", node.label),
        element("p", node.semantics) if node.semantics else None,
        facts(*pairs),
        data_link,
        element("div", class_="samples"),
        id=f"node-{node.id}",
        data_topic=node.label if node.kind == "topic" else None,
        data_table=node.label if node.kind == "table" else None,
        data_app=graph.app,
    )


def _edge_detail(index: int, edge: GraphEdge) -> Markup:
    note = "The latest records on this edge:" if edge.topic else _SAMPLED if edge.samples else _NOT_SAMPLED
    samples = [
        element(
            "p",
            sample.key,
            " ",
            element("code", sample.value),
            " ",
            joined(moment(sample.timestamp), " UTC") if sample.timestamp >= 0 else None,
        )
        for sample in edge.samples
    ]
    pairs: list[tuple[str, Content]] = [
        ("From", edge.source.removeprefix("topic:")),
        ("To", edge.target.removeprefix("topic:")),
    ]
    if edge.rate is not None:
        pairs.append(("Records", rate(edge.rate)))
    if edge.rekeys:
        pairs.append(("Repartitions", "each record goes to the partition of its new key"))
    return element(
        "article", element("h3", "Edge"), facts(*pairs), element("p", note), element("div", samples, class_="samples"),
        id=f"edge-{index}", data_topic=edge.topic,
    )  # fmt: skip


def _is_internal(value: Any) -> bool:
    """Whether a setting means nothing to a user: our own functions behind a verb, and switches that are off."""
    return value is False or (isinstance(value, str) and value.startswith("millstream."))


def _setting_text(value: Any) -> str:
    """Return a setting as text.

    >>> _setting_text({"type": "time", "size": 60000, "advance": 60000, "grace": 5000})
    'time: size 1 min, advance 1 min, grace 5 s'
    """
    if isinstance(value, dict) and "type" in value:
        parts = (f"{name} {_with_unit(name, part)}" for name, part in value.items() if name != "type")
        return f"{value['type'].replace('_', ' ')}: {', '.join(parts)}"
    return value if isinstance(value, str) else json_line(value)


def _with_unit(name: str, value: Any) -> object:
    if name not in _DURATIONS or not isinstance(value, int):
        return value
    return "forever" if value >= FOREVER else format_duration(value)


def _stages(graph: TopologyGraph) -> Content:
    rows = (
        (
            element("code", stage.name),
            by(stage.partitions, number(stage.partitions)),
            by(stage.records_in, number(stage.records_in)),
            by(stage.records_out, number(stage.records_out)),
            by(stage.seconds, duration(stage.seconds * 1000)),
            _per_record(stage),
        )
        for stage in graph.stages
    )
    heads = ("Stage", "Tasks", "Records in", "Records out", "Task time", "Per record")
    return table(heads, rows, numeric=(1, 2, 3, 4, 5), sortable="stages")


def _per_record(stage: GraphStage) -> Content:
    value = stage.seconds * 1e6 / stage.records_in if stage.records_in else None
    return by(value, micros(value))
