"""Topology: the graph of an app with its figures; a click on a node or an edge tells more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.foundation.text import json_line
from millstream.foundation.times import format_duration
from millstream.serve.api.apps import AppParams
from millstream.serve.api.topology import GraphEdge, GraphNode, GraphStage, Topology, get_topology
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.drawing import NODE_HEIGHT, NODE_WIDTH, Box, Picture, arranged
from millstream.serve.pages.parts import NOTHING, card, duration, facts, link, micros, moment, number, rate, size
from millstream.serve.site import Site
from millstream.windows import FOREVER

_LONGEST = 20
_SAMPLED = "The last records of the last batch that was measured, the newest first:"
_NOT_SAMPLED = "No record was seen here yet. A batch is measured now and then, and its last records are shown."
_SPANS = frozenset({"size", "advance", "grace", "gap", "difference", "before", "after", "wait", "retention", "history"})


def topology_page(site: Site, app: str) -> tuple[Content, ...]:
    """Return the content of the page for one app."""
    graph = get_topology(site, AppParams(app=app))
    picture = arranged(graph)
    told = element(
        "p",
        "Boxes are stages: each runs as one task per partition. Records that change their key go from stage to stage "
        "along dashed edges. On edges stand records per second, in steps their share of the time that all steps take. "
        "Drag to move, scroll or use the buttons to zoom, click a node or an edge for more.",
        class_="told",
    )
    buttons = element(
        "p",
        *(
            element("button", text, type="button", data_zoom=how, aria_label=label)
            for text, how, label in (("+", "in", "Zoom in"), ("-", "out", "Zoom out"), ("Fit", "fit", "Show all"))
        ),
        class_="zoom",
    )
    drawing = element("div", _drawing(graph, picture), id="graph", data_live=True)
    details = element("div", _details(graph), id="details-source", data_live=True, hidden=True)
    panel = element(
        "aside",
        element("p", "Choose a node or an edge to see its figures.", class_="none"),
        id="panel",
        aria_live="polite",
    )
    return (
        card("", told, element("div", buttons, drawing, class_="graph-box"), details, wide=True),
        element("section", element("h2", "Details"), panel, class_="card wide"),
        card("Stages", _stages(graph), live="stage-figures", wide=True),
    )


def _drawing(graph: Topology, picture: Picture) -> Markup:
    is_measured = any(node.is_slowest for node in graph.nodes)  # then a step is marked, not a whole stage
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
            *(_stage(stage, picture.stages[stage.name], marks=not is_measured) for stage in graph.stages),
            *(_edge(at, edge, picture) for at, edge in enumerate(graph.edges)),
            *(_node(node, picture.nodes[node.id]) for node in graph.nodes if node.id in picture.nodes),
            id="world",
        ),
        viewBox=f"0 0 {picture.width:.0f} {picture.height:.0f}",
        class_="graph",
        role="group",
        aria_label=f"Topology of {graph.app}: {len(graph.nodes)} nodes in {len(graph.stages)} stages",
        data_width=f"{picture.width:.0f}",
        data_height=f"{picture.height:.0f}",
    )


def _stage(stage: GraphStage, box: Box, *, marks: bool) -> Markup:
    is_slow = marks and stage.is_slowest
    slow = " · slowest" if is_slow else ""
    label = f"{_short(stage.name, int(box.width / 8) - 16)} · {stage.partitions} tasks{slow}"
    return element(
        "g",
        element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=10),
        element("text", label, x=box.x + 14, y=box.y + 21),
        element("title", stage.name),
        class_="stage slow" if is_slow else "stage",
    )


def _edge(at: int, edge: GraphEdge, picture: Picture) -> Content:
    way = picture.way(edge)
    if way is None:
        return None
    path, x, y = way
    label = None if edge.rate is None else element("text", rate_text(edge.rate), x=f"{x:.0f}", y=f"{y:.0f}")
    return element(
        "g",
        element("path", d=path, class_="wide"),
        element("path", d=path, marker_end="url(#arrow)"),
        label,
        class_="edge rekeys" if edge.rekeys else "edge",
        tabindex=0,
        role="button",
        data_detail=f"edge-{at}",
        aria_label=f"Edge from {edge.source} to {edge.target}",
    )


def rate_text(value: float) -> str:
    """Return a rate for a narrow place."""
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:,.1f}/s"


def share_text(value: float) -> str:
    """Return a share of time for a narrow place.

    >>> share_text(0.004), share_text(0.123)
    ('<1 %', '12 %')
    """
    return f"{value:.0%}".replace("%", " %") if value >= 0.005 else "<1 %"


def _node(node: GraphNode, box: Box) -> Markup:
    figure = _figure(node)
    shape = {"topic": _topic_shape, "table": _table_shape}.get(node.kind, _step_shape)(box)
    return element(
        "g",
        shape,
        element("text", node.verb.replace("_", " "), x=box.x + 12, y=box.y + 23, class_="verb"),
        element("text", _short(node.label), x=box.x + 12, y=box.y + 40, class_="name"),
        element("text", figure, x=box.x + 12, y=box.y + 56, class_="figure") if figure else None,
        element("title", node.label),
        element("text", "slowest", x=box.right - 4, y=box.y - 5, class_="mark") if node.is_slowest else None,
        class_=f"node {node.kind}{' lagging' if node.lag else ''}{' slow' if node.is_slowest else ''}",
        tabindex=0,
        role="button",
        data_detail=f"node-{node.id}",
        aria_label=f"{node.verb} {node.label}{', ' + figure if figure else ''}{', slowest' if node.is_slowest else ''}",
    )


def _figure(node: GraphNode) -> str:
    told = []
    if node.rows is not None:
        told.append(f"{node.rows:,} rows")
    if node.bytes is not None:
        told.append(str(size(node.bytes)))
    if node.kind == "topic" and node.rate is not None:
        told.append(rate_text(node.rate))
    if node.share is not None:
        told.append(share_text(node.share))
    if node.lag is not None:
        told.append(f"lag {node.lag:,}")
    return " · ".join(told)


def _step_shape(box: Box) -> Markup:
    return element("rect", x=box.x, y=box.y, width=NODE_WIDTH, height=NODE_HEIGHT, rx=8)


def _topic_shape(box: Box) -> Markup:
    """A lane with slanted ends."""
    x, y, w, h = box.x, box.y, NODE_WIDTH, NODE_HEIGHT
    return element("path", d=f"M{x + 8} {y} H{x + w} L{x + w - 8} {y + h} H{x} Z")


def _table_shape(box: Box) -> Markup:
    """A drum."""
    x, y, w, h = box.x, box.y, NODE_WIDTH, NODE_HEIGHT
    body = f"M{x} {y + 5} V{y + h - 5} A{w / 2} 5 0 0 0 {x + w} {y + h - 5} V{y + 5}"
    return joined(
        element("path", d=f"{body} A{w / 2} 5 0 0 0 {x} {y + 5} Z"),
        element("path", d=f"M{x} {y + 5} A{w / 2} 5 0 0 0 {x + w} {y + 5}", class_="rim"),
    )


def _details(graph: Topology) -> Markup:
    """Everything that can be asked about nodes and edges, hidden until it is asked for."""
    nodes = [_node_detail(graph, node) for node in graph.nodes]
    edges = [_edge_detail(at, edge) for at, edge in enumerate(graph.edges)]
    return joined(nodes, edges)


def _node_detail(graph: Topology, node: GraphNode) -> Markup:
    pairs: list[tuple[str, Content]] = [("Kind", node.verb.replace("_", " "))]
    if node.is_slowest:
        pairs.append(("Slowest", "takes more time than any other step"))
    if node.stage is not None:
        pairs.append(("Stage", node.stage))
    figures: tuple[tuple[str, float | None, Callable[[Any], Content]], ...] = (
        ("Rows", node.rows, number),
        ("Size", node.bytes, size),
        ("Lag", node.lag, number),
        ("Records", node.rate, rate),
        ("Time per record", node.micros, micros),
        ("Share of the time", node.share, share_text),
    )
    pairs += [(name, told(value)) for name, value, told in figures if value is not None]
    pairs += [
        (name.replace("_", " ").capitalize(), element("code", _setting(_spanned(name, value))))
        for name, value in node.settings.items()
        if not _is_own(value)
    ]
    where: Content = None
    if node.kind == "topic":
        where = element("p", link("Records of the topic", "topics", node.label))
    elif node.kind == "table":
        where = element("p", link("Rows of the table", "tables", graph.app, node.label))
    return element(
        "article",
        element("h3", node.label),
        element("p", node.semantics) if node.semantics else None,
        facts(*pairs),
        where,
        element("div", class_="samples"),
        id=f"node-{node.id}",
        data_topic=node.label if node.kind == "topic" else None,
        data_table=node.label if node.kind == "table" else None,
        data_app=graph.app,
    )


def _edge_detail(at: int, edge: GraphEdge) -> Markup:
    told = "The latest records on this edge:" if edge.topic else _SAMPLED if edge.samples else _NOT_SAMPLED
    samples = [
        element(
            "p", one.key, " ", element("code", one.value), " ", moment(one.timestamp) if one.timestamp >= 0 else None
        )
        for one in edge.samples
    ]
    pairs: list[tuple[str, Content]] = [
        ("From", edge.source.removeprefix("topic:")),
        ("To", edge.target.removeprefix("topic:")),
    ]
    if edge.rate is not None:
        pairs.append(("Records", rate(edge.rate)))
    if edge.rekeys:
        pairs.append(("Re-keys", "records go to the partition of their new key"))
    return element(
        "article", element("h3", "Edge"), facts(*pairs), element("p", told), element("div", samples, class_="samples"),
        id=f"edge-{at}", data_topic=edge.topic,
    )  # fmt: skip


def _is_own(value: Any) -> bool:
    """Whether a setting says nothing to a user: functions of ours that stand for a verb, and what is off."""
    return value is False or (isinstance(value, str) and value.startswith("millstream."))


def _setting(value: Any) -> str:
    """Return a setting as people say it.

    >>> _setting({"type": "time", "size": 60000, "advance": 60000, "grace": 5000})
    'time: size 1 min, advance 1 min, grace 5 s'
    """
    if isinstance(value, dict) and "type" in value:
        told = (f"{name} {_spanned(name, one)}" for name, one in value.items() if name != "type")
        return f"{value['type'].replace('_', ' ')}: {', '.join(told)}"
    return value if isinstance(value, str) else json_line(value)


def _spanned(name: str, value: Any) -> object:
    if name not in _SPANS or not isinstance(value, int):
        return value
    return "for ever" if value >= FOREVER else format_duration(value)


def _stages(graph: Topology) -> Content:
    rows = [
        element(
            "tr",
            element("td", element("code", stage.name), data_label="Stage"),
            element("td", number(stage.partitions), class_="num", data_label="Tasks"),
            element("td", number(stage.records_in), class_="num", data_label="Records in"),
            element("td", number(stage.records_out), class_="num", data_label="Records out"),
            element("td", duration(stage.seconds * 1000), class_="num", data_label="Time worked"),
            element(
                "td",
                element("div", duration(stage.seconds * 1e6 / stage.records_in) if stage.records_in else NOTHING),
                class_="num",
                data_label="Per 1,000 records",
            ),
        )
        for stage in graph.stages
    ]
    heads = ("Stage", "Tasks", "Records in", "Records out", "Time worked", "Per 1,000 records")
    head = element("tr", *(element("th", name, class_=None if at == 0 else "num") for at, name in enumerate(heads)))
    return element("div", element("table", element("thead", head), element("tbody", *rows)), class_="table", tabindex=0)


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
