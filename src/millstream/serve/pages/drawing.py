"""Where the nodes of a topology stand: stages below each other, steps to the right, topics on both sides.

Edges that lead back to the left, from stage to stage, run in channels beside the stages, so that no edge crosses a
node.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.serve.api.topology import GraphEdge, GraphStage, Topology

NODE_WIDTH, NODE_HEIGHT = 186, 64
_COLUMN, _ROW = 246, 84
_PADDING, _HEAD = 16, 30
_MARGIN = 20
_BAND = 46  # between stages, with room for edges
_LANE = 84  # between topics and stages, with room for edges and their rates
_TRACK = 7  # between edges in a channel


@dataclass(frozen=True)
class Box:
    """A rectangle of the picture."""

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
class Picture:
    """All places, and the size of the whole."""

    nodes: dict[str, Box] = field(default_factory=dict)
    stages: dict[str, Box] = field(default_factory=dict)
    stage_of: dict[str, str] = field(default_factory=dict)
    width: float = 0
    height: float = 0
    _tracks: int = 0

    def way(self, edge: GraphEdge) -> tuple[str, float, float] | None:
        """Return the path of an edge and where its label stands, or None if it leads nowhere."""
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
        return self._way_back(start, end, edge)

    def _way_back(self, start: Box, end: Box, edge: GraphEdge) -> tuple[str, float, float]:
        """Go right out of the stage, along its side to the gap above the target's stage, and in from the left."""
        number = self._tracks
        track = number * _TRACK
        self._tracks += 1
        goal = self.stages.get(self.stage_of.get(edge.target, ""), end)
        left = min(box.x for box in self.stages.values()) - 14 - track
        right = max(start.right, *(box.right for box in self.stages.values())) + 14 + track
        above = goal.y - 12 - track % (_BAND - 20)
        corners = [(right, start.middle), (right, above), (left, above), (left, end.middle)]
        path = f"M{start.right:.0f} {start.middle:.0f} " + " ".join(f"L{x:.0f} {y:.0f}" for x, y in corners)
        label = left + 70 + 80 * number % max(80.0, right - left - 140)  # beside those of other edges
        return f"{path} L{end.x:.0f} {end.middle:.0f}", label, above - 5


def arranged(graph: Topology) -> Picture:
    """Return where everything stands: no two nodes overlap, and a stage's box holds its own nodes only."""
    picture = Picture()
    topics = [node.id for node in graph.nodes if node.kind == "topic"]
    written = {edge.target for edge in graph.edges}
    sources = [topic for topic in topics if topic not in written]
    back = sum(1 for edge in graph.edges if edge.rekeys)
    x = _MARGIN + (NODE_WIDTH + _LANE + back * _TRACK if sources else 0)
    y = float(_MARGIN)
    for stage in sorted(graph.stages, key=lambda stage: stage.level):
        _place_stage(picture, stage, graph.edges, x, y)
        y = picture.stages[stage.name].bottom + _BAND
    right = max((box.right for box in picture.stages.values()), default=x)
    _place_topics(picture, sources, _MARGIN, {edge.source: edge.target for edge in reversed(graph.edges)})
    sinks = [topic for topic in topics if topic in written]
    _place_topics(
        picture, sinks, right + _LANE + back * _TRACK, {edge.target: edge.source for edge in reversed(graph.edges)}
    )
    boxes = (*picture.nodes.values(), *picture.stages.values())
    picture.width = max((box.right for box in boxes), default=0) + _MARGIN
    picture.height = max((box.bottom for box in boxes), default=0) + _MARGIN
    return picture


def _place_topics(picture: Picture, topics: list[str], x: float, beside: dict[str, str]) -> None:
    """Put topics into a column, each as near to its step as others let it."""
    free = float(_MARGIN)
    wanted = {topic: picture.nodes[beside[topic]].y if beside.get(topic) in picture.nodes else 0.0 for topic in topics}
    for topic in sorted(topics, key=wanted.__getitem__):
        y = max(free, wanted[topic])
        picture.nodes[topic] = Box(x, y)
        free = y + _ROW


def _place_stage(picture: Picture, stage: GraphStage, edges: list[GraphEdge], x: float, y: float) -> None:
    places = _places(stage.nodes, edges)
    for name, (column, row) in places.items():
        picture.nodes[name] = Box(x + _PADDING + column * _COLUMN, y + _HEAD + _PADDING + row * _ROW)
        picture.stage_of[name] = stage.name
    columns = 1 + max((column for column, _ in places.values()), default=0)
    rows = 1 + max((row for _, row in places.values()), default=0)
    width = columns * _COLUMN - (_COLUMN - NODE_WIDTH) + 2 * _PADDING
    height = _HEAD + 2 * _PADDING + rows * _ROW - (_ROW - NODE_HEIGHT)
    picture.stages[stage.name] = Box(x, y, width, height)


def _places(nodes: list[str], edges: list[GraphEdge]) -> dict[str, tuple[int, int]]:
    """Return column and row of each step: columns by the longest way, exits last, and a row for each branch."""
    inside = set(nodes)
    after: dict[str, list[str]] = {name: [] for name in nodes}
    before: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in edges:
        if edge.source in inside and edge.target in inside:
            after[edge.source].append(edge.target)
            before[edge.target].append(edge.source)
    columns = _columns(nodes, before)
    last = max(columns.values(), default=0)
    for name in nodes:
        if not after[name] and before[name]:
            columns[name] = last
    rows = _rows(nodes, after, columns)
    return {name: (columns[name], rows[name]) for name in nodes}


def _columns(nodes: list[str], before: dict[str, list[str]]) -> dict[str, int]:
    """Return the longest way to each node; loops are cut where they close."""
    depth: dict[str, int] = {}

    def walk(name: str, path: frozenset[str]) -> int:
        if name not in depth:
            above = [walk(one, path | {name}) for one in before[name] if one not in path]
            depth[name] = max(above, default=-1) + 1
        return depth[name]

    for name in nodes:
        walk(name, frozenset({name}))
    return depth


def _rows(nodes: list[str], after: dict[str, list[str]], columns: dict[str, int]) -> dict[str, int]:
    """Give each branch a row of its own; a node stands in the row of the first that it leads to."""
    rows: dict[str, int] = {}
    taken: set[tuple[int, int]] = set()
    free = 0

    def walk(name: str) -> int:
        nonlocal free
        if name in rows:
            return rows[name]
        rows[name] = -1  # a loop ends here
        below = [row for one in after[name] if (row := walk(one)) >= 0]
        row = below[0] if below else free
        if (columns[name], row) in taken:
            row = free
        free = max(free, row + 1)
        taken.add((columns[name], row))
        rows[name] = row
        return row

    for name in nodes:
        walk(name)
    return rows
