"""The drawing of a topology as SVG: stages, edges with their rates, and nodes with their metrics."""

from __future__ import annotations

from millstream.serve.api.topology import GraphEdge, GraphNode, GraphStage, TopologyGraph
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.drawing import NODE_HEIGHT, NODE_WIDTH, Box, Drawing, arrange
from millstream.serve.pages.edges import EdgePath, edge_paths
from millstream.serve.pages.parts import size
from millstream.serve.pages.text_width import fitted, text_width

_NAME_FONT, _STAGE_FONT, _SMALL_FONT = 13.5, 13.5, 12.5  # as in the style sheet
_WINDOWS = {"desk": (940, 600), "tablet": (740, 700), "phone": (340, 560)}
"""The space for a drawing in the windows that the style sheet distinguishes."""


def drawings(graph: TopologyGraph) -> list[Markup]:
    """Return a drawing for each kind of window: the direction in which all of the graph is largest."""
    drawings = [arrange(graph, "across"), arrange(graph, "down")]
    hidden: dict[int, list[str]] = {0: [], 1: []}
    for window, (width, height) in _WINDOWS.items():
        is_down = drawings[1].scale(width, height) > drawings[0].scale(width, height)
        hidden[0 if is_down else 1].append(f"not-{window}")
    return [
        graph_svg(graph, drawing, " ".join(["graph", *hidden[number]]))
        for number, drawing in enumerate(drawings)
        if len(hidden[number]) < len(_WINDOWS)
    ]


def graph_svg(graph: TopologyGraph, drawing: Drawing, class_: str, *definitions: Markup) -> Markup:
    """Return a drawing as SVG, with further definitions such as a style."""
    has_slowest_step = any(node.is_slowest for node in graph.nodes)  # then the step is marked, not its stage
    arrow = f"arrow-{drawing.direction}"
    marker = element(
        "marker",
        element("path", d="M0 0 L8 4 L0 8 z"),
        id=arrow,
        class_="arrow",
        viewBox="0 0 8 8",
        refX=7,
        refY=4,
        markerWidth=8,
        markerHeight=8,
        orient="auto-start-reverse",
    )
    return element(
        "svg",
        element("defs", marker, *definitions),
        *(_stage(stage, drawing.stages[stage.name], mark=not has_slowest_step) for stage in graph.stages),
        *(
            _edge(index, edge, path, arrow)
            for index, (edge, path) in enumerate(zip(graph.edges, edge_paths(drawing, graph.edges), strict=True))
            if path is not None
        ),
        *(_stage_title(stage, drawing.stages[stage.name], mark=not has_slowest_step) for stage in graph.stages),
        *(_node(node, drawing.nodes[node.id]) for node in graph.nodes if node.id in drawing.nodes),
        viewBox=f"0 0 {drawing.width:.0f} {drawing.height:.0f}",
        width=f"{drawing.width:.0f}",
        height=f"{drawing.height:.0f}",
        xmlns="http://www.w3.org/2000/svg",
        class_=class_,
        role="group",
        aria_label=f"Topology of {graph.app}: {len(graph.nodes)} nodes in {len(graph.stages)} stages",
    )


def _stage(stage: GraphStage, box: Box, *, mark: bool) -> Markup:
    outline = element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=10)
    return element("g", outline, element("title", stage.name), class_=_stage_class("stage", stage, mark=mark))


def _stage_class(name: str, stage: GraphStage, *, mark: bool) -> str:
    return f"{name} slow" if mark and stage.is_slowest else name


def _stage_title(stage: GraphStage, box: Box, *, mark: bool) -> Markup:
    """Return the title of a stage, which is drawn above the edges that enter the stage."""
    is_slow = mark and stage.is_slowest
    tasks = f" · {stage.partitions} {'task' if stage.partitions == 1 else 'tasks'}" if stage.partitions else ""
    rest = f"{tasks}{' · slowest' if is_slow else ''}"
    room = box.width - 28 - text_width(rest, _STAGE_FONT)
    title = fitted(stage.name, _STAGE_FONT, room) + rest
    return element("text", title, x=box.x + 14, y=box.y + 20, class_=_stage_class("stage-title", stage, mark=mark))


def _edge(index: int, edge: GraphEdge, path: EdgePath, arrow: str) -> Content:
    label = None
    if edge.rate is not None and path.label is not None:
        x, y = path.label
        label = element("text", rate_text(edge.rate), x=f"{x:.0f}", y=f"{y + 4.5:.0f}")
    return element(
        "g",
        element("path", d=path.path, class_="wide"),
        element("path", d=path.path, marker_end=f"url(#{arrow})"),
        label,
        class_="edge rekeys" if edge.rekeys else "edge",
        tabindex=0,
        role="button",
        data_detail=f"edge-{index}",
        aria_label=f"Edge from {edge.source} to {edge.target}",
    )


def rate_text(value: float) -> str:
    """Return a rate as short text, of at most seven characters.

    >>> [rate_text(value) for value in (0, 0.42, 149.3, 12_345, 9_999_999)]
    ['0/s', '0.4/s', '149/s', '12.3k/s', '10.0M/s']
    """
    for limit, unit in ((1e6, "M"), (1e4, "k")):
        if value >= limit:
            scaled = value / (limit if unit == "M" else 1000)
            return f"{scaled:.1f}{unit}/s" if scaled < 100 else f"{scaled:.0f}{unit}/s"
    if 0 < value < 0.05:
        return "<0.1/s"
    return f"{value:.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def share_text(value: float) -> str:
    """Return a share of time as short text.

    >>> share_text(0.004), share_text(0.123)
    ('<1 %', '12 %')
    """
    return f"{value:.0%}".replace("%", " %") if value >= 0.005 else "<1 %"


def _node(node: GraphNode, box: Box) -> Markup:
    metrics = _fitting(_metrics(node), NODE_WIDTH - 24)
    verb = node.verb.replace("_", " ")
    label = filter(None, (f"{node.verb} {node.label}", metrics, "slowest" if node.is_slowest else ""))
    shape = {"topic": _topic_shape, "table": _table_shape}.get(node.kind, _step_shape)(box)
    room = NODE_WIDTH - 24
    mark = element("tspan", " · slowest", class_="mark") if node.is_slowest else None
    verb = fitted(verb, _SMALL_FONT, room - (text_width(" · slowest", _SMALL_FONT) if mark else 0))
    return element(
        "g",
        shape,
        element("text", verb, mark, x=box.x + 12, y=box.y + 22, class_="verb"),
        element("text", fitted(node.label, _NAME_FONT, room), x=box.x + 12, y=box.y + 39, class_="name"),
        element("text", metrics, x=box.x + 12, y=box.y + 55, class_="metric") if metrics else None,
        element("title", node.label),
        class_=f"node {node.kind}{' lagging' if node.lag else ''}{' slow' if node.is_slowest else ''}",
        tabindex=0,
        role="button",
        data_detail=f"node-{node.id}",
        aria_label=", ".join(label),
    )


def _fitting(metrics: list[str], room: float) -> str:
    """Return as many metrics as fit; the details show all of them."""
    while metrics and text_width(" · ".join(metrics), _SMALL_FONT, is_bold=False) > room:
        metrics = metrics[:-1]
    return " · ".join(metrics)


def _metrics(node: GraphNode) -> list[str]:
    """Return the metrics of a node, the most important ones first."""
    metrics: list[str] = []
    if node.kind == "topic" and node.rate is not None:
        metrics.append(rate_text(node.rate))
    if node.lag is not None:
        metrics.append(f"lag {node.lag:,}")
    if node.share is not None:
        metrics.append(share_text(node.share))
    if node.rows is not None:
        metrics.append(f"{node.rows:,} {'row' if node.rows == 1 else 'rows'}")
    if node.bytes is not None:
        metrics.append(str(size(node.bytes)))
    return metrics


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
