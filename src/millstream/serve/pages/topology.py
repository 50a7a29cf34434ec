"""Topology: the graph of an app with its metrics; a click on a node or an edge shows details."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.foundation.text import json_line
from millstream.foundation.times import format_duration
from millstream.serve.api.apps import AppParams
from millstream.serve.api.topology import GraphEdge, GraphNode, GraphStage, TopologyGraph, get_topology
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.drawing import NODE_HEIGHT, NODE_WIDTH, Box, Drawing, arrange
from millstream.serve.pages.parts import NOTHING, card, duration, facts, link, micros, moment, number, rate, size
from millstream.serve.site import Site
from millstream.windows import FOREVER

_MAX_LABEL = 20
_SAMPLED = "The last records of the last sampled batch, newest first:"
_NOT_SAMPLED = "No records yet. Some batches are sampled; the last records of the last one are shown here."
_DURATIONS = frozenset(
    {"size", "advance", "grace", "gap", "difference", "before", "after", "wait", "retention", "history"}
)


def topology_page(site: Site, app: str) -> tuple[Content, ...]:
    """Return the content of the page for one app."""
    graph = get_topology(site, AppParams(app=app))
    drawing = arrange(graph)
    note = element(
        "p",
        "Boxes are stages; each runs as one task per partition. Dashed edges repartition records by a new key. Edges "
        "show records per second, steps show their share of the time of all steps. Drag to move, scroll or use the "
        "buttons to zoom, click a node or an edge for details.",
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
    svg = element("div", _svg(graph, drawing), id="graph", data_live=True)
    details = element("div", _details(graph), id="details-source", data_live=True, hidden=True)
    panel = element(
        "aside",
        element("p", "Choose a node or an edge to see its metrics.", class_="none"),
        id="panel",
        aria_live="polite",
    )
    return (
        card("", note, element("div", buttons, svg, class_="graph-box"), details, wide=True),
        element("section", element("h2", "Details"), panel, class_="card wide"),
        card("Stages", _stages(graph), live="stage-metrics", wide=True),
    )


def _svg(graph: TopologyGraph, drawing: Drawing) -> Markup:
    has_slowest_step = any(node.is_slowest for node in graph.nodes)  # then the step is marked, not its stage
    marker = element(
        "marker",
        element("path", d="M0 0 L8 4 L0 8 z"),
        id="arrow",
        viewBox="0 0 8 8",
        refX=7,
        refY=4,
        markerWidth=8,
        markerHeight=8,
        orient="auto-start-reverse",
    )
    return element(
        "svg",
        element("defs", marker),
        element(
            "g",
            *(_stage(stage, drawing.stages[stage.name], mark=not has_slowest_step) for stage in graph.stages),
            *(_edge(index, edge, drawing) for index, edge in enumerate(graph.edges)),
            *(_node(node, drawing.nodes[node.id]) for node in graph.nodes if node.id in drawing.nodes),
            id="world",
        ),
        viewBox=f"0 0 {drawing.width:.0f} {drawing.height:.0f}",
        class_="graph",
        role="group",
        aria_label=f"Topology of {graph.app}: {len(graph.nodes)} nodes in {len(graph.stages)} stages",
        data_width=f"{drawing.width:.0f}",
        data_height=f"{drawing.height:.0f}",
    )


def _stage(stage: GraphStage, box: Box, *, mark: bool) -> Markup:
    is_slow = mark and stage.is_slowest
    slow = " · slowest" if is_slow else ""
    label = f"{_short(stage.name, int(box.width / 8) - 16)} · {stage.partitions} tasks{slow}"
    return element(
        "g",
        element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=10),
        element("text", label, x=box.x + 14, y=box.y + 21),
        element("title", stage.name),
        class_="stage slow" if is_slow else "stage",
    )


def _edge(index: int, edge: GraphEdge, drawing: Drawing) -> Content:
    edge_path = drawing.edge_path(edge)
    if edge_path is None:
        return None
    path, x, y = edge_path
    label = None if edge.rate is None else element("text", rate_text(edge.rate), x=f"{x:.0f}", y=f"{y:.0f}")
    return element(
        "g",
        element("path", d=path, class_="wide"),
        element("path", d=path, marker_end="url(#arrow)"),
        label,
        class_="edge rekeys" if edge.rekeys else "edge",
        tabindex=0,
        role="button",
        data_detail=f"edge-{index}",
        aria_label=f"Edge from {edge.source} to {edge.target}",
    )


def rate_text(value: float) -> str:
    """Return a rate as short text."""
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:,.1f}/s"


def share_text(value: float) -> str:
    """Return a share of time as short text.

    >>> share_text(0.004), share_text(0.123)
    ('<1 %', '12 %')
    """
    return f"{value:.0%}".replace("%", " %") if value >= 0.005 else "<1 %"


def _node(node: GraphNode, box: Box) -> Markup:
    metrics = _metrics(node)
    label = filter(None, (f"{node.verb} {node.label}", metrics, "slowest" if node.is_slowest else ""))
    shape = {"topic": _topic_shape, "table": _table_shape}.get(node.kind, _step_shape)(box)
    return element(
        "g",
        shape,
        element("text", node.verb.replace("_", " "), x=box.x + 12, y=box.y + 23, class_="verb"),
        element("text", _short(node.label), x=box.x + 12, y=box.y + 40, class_="name"),
        element("text", metrics, x=box.x + 12, y=box.y + 56, class_="metric") if metrics else None,
        element("title", node.label),
        element("text", "slowest", x=box.right - 4, y=box.y - 5, class_="mark") if node.is_slowest else None,
        class_=f"node {node.kind}{' lagging' if node.lag else ''}{' slow' if node.is_slowest else ''}",
        tabindex=0,
        role="button",
        data_detail=f"node-{node.id}",
        aria_label=", ".join(label),
    )


def _metrics(node: GraphNode) -> str:
    metrics = []
    if node.rows is not None:
        metrics.append(f"{node.rows:,} rows")
    if node.bytes is not None:
        metrics.append(str(size(node.bytes)))
    if node.kind == "topic" and node.rate is not None:
        metrics.append(rate_text(node.rate))
    if node.share is not None:
        metrics.append(share_text(node.share))
    if node.lag is not None:
        metrics.append(f"lag {node.lag:,}")
    return " · ".join(metrics)


def _step_shape(box: Box) -> Markup:
    return element("rect", x=box.x, y=box.y, width=NODE_WIDTH, height=NODE_HEIGHT, rx=8)


def _topic_shape(box: Box) -> Markup:
    """Return a box with slanted sides."""
    x, y, w, h = box.x, box.y, NODE_WIDTH, NODE_HEIGHT
    return element("path", d=f"M{x + 8} {y} H{x + w} L{x + w - 8} {y + h} H{x} Z")


def _table_shape(box: Box) -> Markup:
    """Return a cylinder."""
    x, y, w, h = box.x, box.y, NODE_WIDTH, NODE_HEIGHT
    body = f"M{x} {y + 5} V{y + h - 5} A{w / 2} 5 0 0 0 {x + w} {y + h - 5} V{y + 5}"
    return joined(
        element("path", d=f"{body} A{w / 2} 5 0 0 0 {x} {y + 5} Z"),
        element("path", d=f"M{x} {y + 5} A{w / 2} 5 0 0 0 {x + w} {y + 5}", class_="rim"),
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
            moment(sample.timestamp) if sample.timestamp >= 0 else None,
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
    rows = [
        element(
            "tr",
            element("td", element("code", stage.name), data_label="Stage"),
            element("td", number(stage.partitions), class_="num", data_label="Tasks"),
            element("td", number(stage.records_in), class_="num", data_label="Records in"),
            element("td", number(stage.records_out), class_="num", data_label="Records out"),
            element("td", duration(stage.seconds * 1000), class_="num", data_label="Task time"),
            element(
                "td",
                element("div", duration(stage.seconds * 1e6 / stage.records_in) if stage.records_in else NOTHING),
                class_="num",
                data_label="Per 1,000 records",
            ),
        )
        for stage in graph.stages
    ]
    heads = ("Stage", "Tasks", "Records in", "Records out", "Task time", "Per 1,000 records")
    head = element("tr", *(element("th", name, class_=None if name == "Stage" else "num") for name in heads))
    return element("div", element("table", element("thead", head), element("tbody", *rows)), class_="table", tabindex=0)


def _short(text: str, max_length: int = _MAX_LABEL) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"
