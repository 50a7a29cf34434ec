"""The layout of a topology: stages below each other, steps from left to right, topics on both sides.

Edges from stage to stage run in channels beside the stages, so that no edge crosses a node.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.serve.api.topology import GraphEdge, GraphStage, TopologyGraph

NODE_WIDTH, NODE_HEIGHT = 186, 64
_COLUMN, _ROW = 246, 84
_PADDING, _HEAD = 16, 30
_MARGIN = 20
_BAND = 46  # gap between stages, with space for edges
_LANE = 84  # gap between topics and stages, with space for edges and their rates
_TRACK = 7  # gap between edges in a channel


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


@dataclass
class Drawing:
    """The boxes of all nodes and stages, and the size of the drawing."""

    nodes: dict[str, Box] = field(default_factory=dict)
    stages: dict[str, Box] = field(default_factory=dict)
    stage_of: dict[str, str] = field(default_factory=dict)
    width: float = 0
    height: float = 0
    _tracks: int = 0

    def edge_path(self, edge: GraphEdge) -> tuple[str, float, float] | None:
        """Return the path of an edge and the position of its label, or None if a node of it is not drawn."""
        start, end = self.nodes.get(edge.source), self.nodes.get(edge.target)
        if start is None or end is None:
            return None
        if end.x > start.right:
            bend = (end.x - start.right) / 2
            path = (
                f"M{start.right:.0f} {start.middle:.0f} C{start.right + bend:.0f} {start.middle:.0f} "
                f"{end.x - bend:.0f} {end.middle:.0f} {end.x:.0f} {end.middle:.0f}"
            )
            return path, (start.right + end.x) / 2, (start.middle + end.middle) / 2 - 6
        return self._backward_path(start, end, edge)

    def _backward_path(self, start: Box, end: Box, edge: GraphEdge) -> tuple[str, float, float]:
        """Leave the stage on the right, run through the gap above the target's stage, and enter from the left."""
        number = self._tracks
        track = number * _TRACK
        self._tracks += 1
        target = self.stages.get(self.stage_of.get(edge.target, ""), end)
        left = min(box.x for box in self.stages.values()) - 14 - track
        right = max(start.right, *(box.right for box in self.stages.values())) + 14 + track
        above = target.y - 12 - track % (_BAND - 20)
        corners = [(right, start.middle), (right, above), (left, above), (left, end.middle)]
        path = f"M{start.right:.0f} {start.middle:.0f} " + " ".join(f"L{x:.0f} {y:.0f}" for x, y in corners)
        label = left + 70 + 80 * number % max(80.0, right - left - 140)  # beside the labels of other edges
        return f"{path} L{end.x:.0f} {end.middle:.0f}", label, above - 5


def arrange(graph: TopologyGraph) -> Drawing:
    """Arrange a graph: no two nodes overlap, and a stage's box contains only its own nodes."""
    drawing = Drawing()
    topics = [node.id for node in graph.nodes if node.kind == "topic"]
    written = {edge.target for edge in graph.edges}
    sources = [topic for topic in topics if topic not in written]
    backward = sum(1 for edge in graph.edges if edge.rekeys)
    x = _MARGIN + (NODE_WIDTH + _LANE + backward * _TRACK if sources else 0)
    y = float(_MARGIN)
    for stage in sorted(graph.stages, key=lambda stage: stage.level):
        _place_stage(drawing, stage, graph.edges, x, y)
        y = drawing.stages[stage.name].bottom + _BAND
    right = max((box.right for box in drawing.stages.values()), default=x)
    _place_topics(drawing, sources, _MARGIN, {edge.source: edge.target for edge in reversed(graph.edges)})
    sinks = [topic for topic in topics if topic in written]
    _place_topics(
        drawing, sinks, right + _LANE + backward * _TRACK, {edge.target: edge.source for edge in reversed(graph.edges)}
    )
    boxes = (*drawing.nodes.values(), *drawing.stages.values())
    drawing.width = max((box.right for box in boxes), default=0) + _MARGIN
    drawing.height = max((box.bottom for box in boxes), default=0) + _MARGIN
    return drawing


def _place_topics(drawing: Drawing, topics: list[str], x: float, beside: dict[str, str]) -> None:
    """Arrange topics in a column, each as near to its step as possible."""
    next_y = float(_MARGIN)
    ideal = {topic: drawing.nodes[beside[topic]].y if beside.get(topic) in drawing.nodes else 0.0 for topic in topics}
    for topic in sorted(topics, key=ideal.__getitem__):
        y = max(next_y, ideal[topic])
        drawing.nodes[topic] = Box(x, y)
        next_y = y + _ROW


def _place_stage(drawing: Drawing, stage: GraphStage, edges: list[GraphEdge], x: float, y: float) -> None:
    cells = _cells(stage.nodes, edges)
    for name, (column, row) in cells.items():
        drawing.nodes[name] = Box(x + _PADDING + column * _COLUMN, y + _HEAD + _PADDING + row * _ROW)
        drawing.stage_of[name] = stage.name
    columns = 1 + max((column for column, _ in cells.values()), default=0)
    rows = 1 + max((row for _, row in cells.values()), default=0)
    width = columns * _COLUMN - (_COLUMN - NODE_WIDTH) + 2 * _PADDING
    height = _HEAD + 2 * _PADDING + rows * _ROW - (_ROW - NODE_HEIGHT)
    drawing.stages[stage.name] = Box(x, y, width, height)


def _cells(nodes: list[str], edges: list[GraphEdge]) -> dict[str, tuple[int, int]]:
    """Return column and row of each step: columns by the longest path, exits last, and a row for each branch."""
    inside = set(nodes)
    successors: dict[str, list[str]] = {name: [] for name in nodes}
    predecessors: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in edges:
        if edge.source in inside and edge.target in inside:
            successors[edge.source].append(edge.target)
            predecessors[edge.target].append(edge.source)
    columns = _columns(nodes, predecessors)
    last = max(columns.values(), default=0)
    for name in nodes:
        if not successors[name] and predecessors[name]:
            columns[name] = last
    rows = _rows(nodes, successors, columns)
    return {name: (columns[name], rows[name]) for name in nodes}


def _columns(nodes: list[str], predecessors: dict[str, list[str]]) -> dict[str, int]:
    """Return the length of the longest path to each node; a cycle is cut where it closes."""
    depth: dict[str, int] = {}

    def walk(name: str, path: frozenset[str]) -> int:
        if name not in depth:
            depths = [walk(source, path | {name}) for source in predecessors[name] if source not in path]
            depth[name] = max(depths, default=-1) + 1
        return depth[name]

    for name in nodes:
        walk(name, frozenset({name}))
    return depth


def _rows(nodes: list[str], successors: dict[str, list[str]], columns: dict[str, int]) -> dict[str, int]:
    """Give each branch its own row; a node is in the row of its first successor."""
    rows: dict[str, int] = {}
    used: set[tuple[int, int]] = set()
    next_row = 0

    def walk(name: str) -> int:
        nonlocal next_row
        if name in rows:
            return rows[name]
        rows[name] = -1  # ends a cycle
        below = [row for target in successors[name] if (row := walk(target)) >= 0]
        row = below[0] if below else next_row
        if (columns[name], row) in used:
            row = next_row
        next_row = max(next_row, row + 1)
        used.add((columns[name], row))
        rows[name] = row
        return row

    for name in nodes:
        walk(name)
    return rows
