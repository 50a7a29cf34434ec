"""The layout of a topology: stages below each other, and steps from left to right or from top to bottom.

Both directions are laid out, since a deep topology fits a wide window and a narrow one a phone. Edges from stage to
stage run in channels beside the stages, so that they cross no node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import msgspec

from millstream.foundation.typed_decoding import decode_msgpack
from millstream.serve.api.topology import GraphEdge, GraphNode, GraphStage, TopologyGraph
from millstream.serve.pages.cells import cells

Direction = Literal["across", "down"]

NODE_WIDTH, NODE_HEIGHT = 190, 64
_PADDING, _HEAD = 16, 30
_MARGIN = 16
_BAND = 28  # gap between stages, besides the edges that run in it
_LANE: dict[Direction, float] = {"across": 78, "down": 52}
"""Gap between topics and stages, with space for edges and their rates."""
TRACK = 8  # gap between edges in a channel
_PITCH: dict[Direction, tuple[float, float]] = {"across": (262, 84), "down": (208, 100)}
"""Distance of steps along both axes."""


@dataclass(frozen=True)
class Box:
    """A rectangle of the drawing."""

    x: float
    y: float
    width: float = NODE_WIDTH
    height: float = NODE_HEIGHT

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def centre(self) -> float:
        return self.x + self.width / 2

    def overlaps(self, other: Box) -> bool:
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom


@dataclass
class Drawing:
    """The boxes of all nodes and stages, and the size of the drawing."""

    direction: Direction
    nodes: dict[str, Box] = field(default_factory=dict)
    stages: dict[str, Box] = field(default_factory=dict)
    stage_of: dict[str, str] = field(default_factory=dict)
    """Of each step; of a topic that is drawn next to one stage, that stage."""
    steps: set[str] = field(default_factory=set)
    width: float = 0
    height: float = 0
    routed: dict[tuple[bool, ...], Any] = field(default_factory=dict)
    """The paths of edges, by whether each of them has a label."""

    def box_around(self, node: str) -> Box:
        """Return the box of a step's stage, or of a topic."""
        return self.nodes[node] if node not in self.steps else self.stages[self.stage_of[node]]

    def steps_beside(self, node: str) -> list[Box]:
        """Return the other steps of a step's stage."""
        if node not in self.steps:
            return []
        stage = self.stage_of[node]
        return [self.nodes[name] for name in self.steps if name != node and self.stage_of[name] == stage]

    def scale(self, width: float, height: float) -> float:
        """Return the scale at which all of the drawing is visible in a window."""
        return min(width / max(1.0, self.width), height / max(1.0, self.height), 1.0)

    @property
    def boxes(self) -> Iterator[Box]:
        yield from self.nodes.values()
        yield from self.stages.values()


def arrange(graph: TopologyGraph, direction: Direction = "across") -> Drawing:
    """Arrange a graph: no two nodes overlap, and a stage's box contains only its own nodes.

    A page is rendered every second with other metrics, so the drawing of a structure is kept; do not change it.
    """
    nodes = [GraphNode(id=node.id, kind=node.kind, label="", verb="") for node in graph.nodes]
    edges = [GraphEdge(source=edge.source, target=edge.target, rekeys=edge.rekeys) for edge in graph.edges]
    stages = [
        GraphStage(
            name=stage.name, level=stage.level, partitions=0, nodes=stage.nodes, records_in=0, records_out=0, seconds=0
        )
        for stage in graph.stages
    ]
    structure = TopologyGraph(app="", nodes=nodes, edges=edges, stages=stages)
    return _arranged(msgspec.msgpack.encode(structure), direction)


@lru_cache(maxsize=64)
def _arranged(structure: bytes, direction: Direction) -> Drawing:
    graph = decode_msgpack(structure, TopologyGraph)
    drawing = Drawing(direction)
    read, written = ({edge.source for edge in graph.edges}, {edge.target for edge in graph.edges})
    topics = [node.id for node in graph.nodes if node.kind == "topic"]
    sources = [topic for topic in topics if topic not in written]
    sinks = [topic for topic in topics if topic in written]
    (_arrange_across if direction == "across" else _arrange_down)(drawing, graph, sources, sinks)
    tracks = len(graph.edges) - len(list(direct_edges(drawing, graph.edges)))
    channel = TRACK * (tracks + 1) if tracks else 0
    outer = drawing.boxes if direction == "down" or read.intersection(sinks) else drawing.stages.values()
    right = max((box.right for box in drawing.boxes), default=0)
    drawing.width = max(right, max((box.right for box in outer), default=0) + channel) + _MARGIN
    drawing.height = max(drawing.height, max((box.bottom for box in drawing.boxes), default=0) + _MARGIN)
    return drawing


def direct_edges(drawing: Drawing, edges: Iterable[GraphEdge]) -> Iterator[GraphEdge]:
    """Yield the edges that run straight from node to node; the others need a channel."""
    for edge in edges:
        start, end = drawing.nodes.get(edge.source), drawing.nodes.get(edge.target)
        if start is None or end is None:
            continue
        if drawing.direction == "across":
            is_direct = end.x > start.right
        else:
            same = drawing.stage_of.get(edge.source) == drawing.stage_of.get(edge.target)
            is_direct = same and end.y > start.bottom
        if is_direct:
            yield edge


def _entering(graph: TopologyGraph, stage: GraphStage) -> float:
    """Return the space for the edges that enter a stage through the channel before it."""
    inside, sources = set(stage.nodes), {edge.source for edge in graph.edges} - {edge.target for edge in graph.edges}
    outside = [edge for edge in graph.edges if edge.target in inside and edge.source not in inside]
    return TRACK * sum(1 for edge in outside if edge.source not in sources or not edge.source.startswith("topic:"))


def _leaving(graph: TopologyGraph, stage: GraphStage) -> float:
    """Return the space for the edges that leave a stage through the channel after it."""
    inside = set(stage.nodes)
    return TRACK * sum(1 for edge in graph.edges if edge.source in inside and edge.target not in inside)


def _arrange_across(drawing: Drawing, graph: TopologyGraph, sources: list[str], sinks: list[str]) -> None:
    """Place sources to the left of all stages, and sinks to the right."""
    backward = sum(1 for edge in graph.edges if edge.rekeys or edge.source in sinks)
    x = _MARGIN + (NODE_WIDTH + _LANE["across"] if sources else 0) + backward * TRACK
    y = float(_MARGIN)
    for stage in _by_level(graph):
        y += _entering(graph, stage)
        _place_stage(drawing, stage, graph.edges, x, y)
        y = drawing.stages[stage.name].bottom + _BAND
    right = max((box.right for box in drawing.stages.values()), default=x) + _LANE["across"] + backward * TRACK
    _place_column(drawing, sources, _MARGIN, {edge.source: edge.target for edge in reversed(graph.edges)})
    _place_column(drawing, sinks, right, {edge.target: edge.source for edge in reversed(graph.edges)})


def _place_column(drawing: Drawing, topics: list[str], x: float, beside: dict[str, str]) -> None:
    """Arrange topics in a column, each as near to its step as possible."""
    next_y = float(_MARGIN)
    for topic, ideal in _by_position(drawing, topics, beside, lambda box: box.y):
        drawing.nodes[topic] = Box(x, max(next_y, ideal))
        next_y = drawing.nodes[topic].y + _PITCH["across"][1]


def _arrange_down(drawing: Drawing, graph: TopologyGraph, sources: list[str], sinks: list[str]) -> None:
    """Place the sources of a stage above it, and its sinks below."""
    y = float(_MARGIN)
    for stage in _by_level(graph):
        inside = set(stage.nodes)
        read = {edge.source: edge.target for edge in reversed(graph.edges) if edge.target in inside}
        written = {edge.target: edge.source for edge in reversed(graph.edges) if edge.source in inside}
        above = [topic for topic in sources if topic in read and topic not in drawing.stage_of]
        below = [topic for topic in sinks if topic in written and topic not in drawing.stage_of]
        top = y + _entering(graph, stage)
        if above:
            top += NODE_HEIGHT + _LANE["down"] + TRACK * sum(1 for edge in graph.edges if edge.source in above)
        _place_stage(drawing, stage, graph.edges, _MARGIN, top)
        _place_row(drawing, above, y, read, stage.name)
        y = drawing.stages[stage.name].bottom + _BAND + _leaving(graph, stage)
        if below:
            _place_row(drawing, below, y + _LANE["down"] - _BAND, written, stage.name)
            y += NODE_HEIGHT + _LANE["down"] + TRACK * sum(1 for edge in graph.edges if edge.source in below)
    _place_row(drawing, [topic for topic in (*sources, *sinks) if topic not in drawing.nodes], y, {}, "")
    drawing.height = y


def _place_row(drawing: Drawing, topics: list[str], y: float, beside: dict[str, str], stage: str) -> None:
    """Arrange topics in a row, each as near to its step as possible."""
    next_x = float(_MARGIN)
    for topic, ideal in _by_position(drawing, topics, beside, lambda box: box.x):
        drawing.nodes[topic] = Box(max(next_x, ideal), y)
        drawing.stage_of[topic] = stage
        next_x = drawing.nodes[topic].x + _PITCH["down"][0]


def _by_position(
    drawing: Drawing, topics: list[str], beside: dict[str, str], position: Callable[[Box], float]
) -> list[tuple[str, float]]:
    """Return topics with the position of their steps, in its order."""
    ideal = {
        topic: position(drawing.nodes[beside[topic]]) if beside.get(topic) in drawing.nodes else 0.0 for topic in topics
    }
    return sorted(ideal.items(), key=lambda entry: entry[1])


def _by_level(graph: TopologyGraph) -> list[GraphStage]:
    return sorted(graph.stages, key=lambda stage: stage.level)


def _place_stage(drawing: Drawing, stage: GraphStage, edges: list[GraphEdge], x: float, y: float) -> None:
    across, down = _PITCH[drawing.direction]
    columns = rows = 1
    for name, (depth, branch) in cells(stage.nodes, edges).items():
        column, row = (depth, branch) if drawing.direction == "across" else (branch, depth)
        columns, rows = max(columns, column + 1), max(rows, row + 1)
        drawing.nodes[name] = Box(x + _PADDING + column * across, y + _HEAD + _PADDING + row * down)
        drawing.stage_of[name] = stage.name
        drawing.steps.add(name)
    width = columns * across - (across - NODE_WIDTH) + 2 * _PADDING
    height = _HEAD + 2 * _PADDING + rows * down - (down - NODE_HEIGHT)
    drawing.stages[stage.name] = Box(x, y, width, height)
