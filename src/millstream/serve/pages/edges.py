"""The paths of edges, and positions for their labels that overlap neither nodes nor each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from millstream.serve.api.topology import GraphEdge
from millstream.serve.pages.drawing import TRACK, Box, Drawing, direct_edges

_GUTTER = 10  # from a node to an edge that passes it
LABEL_WIDTH, LABEL_HEIGHT = 58.0, 16.0
_STAGE_TITLE = 28.0
Point = tuple[float, float]


@dataclass(frozen=True)
class EdgePath:
    """The path of an edge as SVG, and the centre of its label; None if there is no free space for one."""

    path: str
    label: Point | None


@dataclass
class _Router:
    drawing: Drawing
    direct: set[int]
    tracks: int = 0
    in_band: dict[float, int] = field(default_factory=dict)
    taken: list[Box] = field(default_factory=list)


def edge_paths(drawing: Drawing, edges: Sequence[GraphEdge]) -> list[EdgePath | None]:
    """Return the path of each edge, or None if a node of it is not drawn."""
    labelled = tuple(edge.rate is not None for edge in edges)
    if labelled not in drawing.routed:
        drawing.routed[labelled] = _route(drawing, edges)
    paths: list[EdgePath | None] = drawing.routed[labelled]
    return paths


def _route(drawing: Drawing, edges: Sequence[GraphEdge]) -> list[EdgePath | None]:
    router = _Router(drawing, {id(edge) for edge in direct_edges(drawing, edges)})
    router.taken += drawing.nodes.values()
    router.taken += [Box(box.x, box.y, box.width, _STAGE_TITLE) for box in drawing.stages.values()]
    return [_edge_path(router, edge) for edge in edges]


def _edge_path(router: _Router, edge: GraphEdge) -> EdgePath | None:
    start, end = router.drawing.nodes.get(edge.source), router.drawing.nodes.get(edge.target)
    if start is None or end is None:
        return None
    if id(edge) in router.direct:
        points = _curve(start, end, router.drawing.direction == "across")
        along = [_on_curve(points, share / 40) for share in range(2, 39)]
        if not _crosses_a_node(router.drawing, along, start, end):
            a, b, c, d = points
            return EdgePath(f"M{_at(a)} C{_at(b)} {_at(c)} {_at(d)}", _label(router, edge, _from_the_middle(along)))
        corners = list(_between_nodes(router.drawing.direction == "across", start, end))
    else:
        corners = list(_through_channels(router, edge, start, end))
    path = f"M{_at(corners[0])} " + " ".join(f"L{_at(corner)}" for corner in corners[1:])
    return EdgePath(path, _label(router, edge, _on_segments(corners)))


def _label(router: _Router, edge: GraphEdge, candidates: Iterable[Point]) -> Point | None:
    return None if edge.rate is None else _free(router, candidates)


def _crosses_a_node(drawing: Drawing, points: Sequence[Point], start: Box, end: Box) -> bool:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    around = Box(min(xs), min(ys), max(xs) - min(xs) + 1, max(ys) - min(ys) + 1)
    others = [box for box in drawing.nodes.values() if box is not start and box is not end and box.overlaps(around)]
    return any(box.x < x < box.right and box.y < y < box.bottom for box in others for x, y in points)


def _from_the_middle(points: Sequence[Point]) -> list[Point]:
    return sorted(points, key=lambda point: abs(points.index(point) - len(points) // 2))


def _between_nodes(is_across: bool, start: Box, end: Box) -> Iterator[Point]:
    """Yield the corners of a path that passes other nodes in the gap beside them."""
    if is_across:
        yield start.right, start.middle
        yield start.right + _GUTTER, start.middle
        yield start.right + _GUTTER, start.bottom + _GUTTER
        yield end.x - _GUTTER, start.bottom + _GUTTER
        yield end.x - _GUTTER, end.middle
        yield end.x, end.middle
    else:
        yield start.centre, start.bottom
        yield start.centre, start.bottom + _GUTTER
        yield start.right + _GUTTER - 1, start.bottom + _GUTTER
        yield start.right + _GUTTER - 1, end.y - _GUTTER
        yield end.centre, end.y - _GUTTER
        yield end.centre, end.y


def _at(point: Point) -> str:
    return f"{point[0]:.0f} {point[1]:.0f}"


def _curve(start: Box, end: Box, is_across: bool) -> tuple[Point, Point, Point, Point]:
    if is_across:
        bend = (end.x - start.right) / 2
        return (
            (start.right, start.middle),
            (start.right + bend, start.middle),
            (end.x - bend, end.middle),
            (end.x, end.middle),
        )
    bend = (end.y - start.bottom) / 2
    return (
        (start.centre, start.bottom),
        (start.centre, start.bottom + bend),
        (end.centre, end.y - bend),
        (end.centre, end.y),
    )


def _on_curve(points: Sequence[Point], share: float) -> Point:
    rest = 1 - share
    weights = (rest**3, 3 * rest**2 * share, 3 * rest * share**2, share**3)
    x, y = (sum(weight * point[axis] for weight, point in zip(weights, points, strict=True)) for axis in (0, 1))
    return x, y


def _on_segments(corners: Sequence[Point]) -> Iterator[Point]:
    """Yield points of the segments, those of the longest first."""
    segments = sorted(pairwise(corners), key=lambda pair: -abs(pair[1][0] - pair[0][0]) - abs(pair[1][1] - pair[0][1]))
    for (x1, y1), (x2, y2) in segments:
        for share in (0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88):
            yield x1 + (x2 - x1) * share, y1 + (y2 - y1) * share


def _through_channels(router: _Router, edge: GraphEdge, start: Box, end: Box) -> Iterator[Point]:
    """Yield the corners of a path that leaves its stage, runs beside all stages, and enters the other stage."""
    channel = _GUTTER + router.tracks * TRACK
    router.tracks += 1
    return (_channels_across if router.drawing.direction == "across" else _channels_down)(
        router, edge, start, end, channel
    )


def _channels_across(router: _Router, edge: GraphEdge, start: Box, end: Box, channel: float) -> Iterator[Point]:
    drawing = router.drawing
    stages = drawing.stages.values()
    right = max(start.right, *(box.right for box in stages)) + channel
    left = min(box.x for box in stages) - channel
    yield start.right, start.middle
    if any(box.x > start.x and box.y == start.y for box in drawing.steps_beside(edge.source)):
        yield start.right + _GUTTER, start.middle
        yield start.right + _GUTTER, start.bottom + _GUTTER
        yield right, start.bottom + _GUTTER
    else:
        yield right, start.middle
    stage = drawing.stages.get(drawing.stage_of.get(edge.target, ""), end)
    above = stage.y - _GUTTER - _track(router, stage.y)
    yield right, above
    yield left, above
    if any(box.x < end.x and box.y == end.y for box in drawing.steps_beside(edge.target)):
        yield left, end.y - _GUTTER
        yield end.x - _GUTTER, end.y - _GUTTER
        yield end.x - _GUTTER, end.middle
    else:
        yield left, end.middle
    yield end.x, end.middle


def _channels_down(router: _Router, edge: GraphEdge, start: Box, end: Box, channel: float) -> Iterator[Point]:
    drawing = router.drawing
    right = max(box.right for box in drawing.boxes) + channel
    leaves = drawing.box_around(edge.source).bottom
    below = leaves + _GUTTER + _track(router, leaves)
    yield start.centre, start.bottom
    if any(box.y > start.y and box.x == start.x for box in drawing.steps_beside(edge.source)):
        yield start.centre, start.bottom + _GUTTER
        yield start.right + _GUTTER - 1, start.bottom + _GUTTER
        yield start.right + _GUTTER - 1, below
    else:
        yield start.centre, below
    yield right, below
    enters = drawing.box_around(edge.target).y
    above = enters - _GUTTER - _track(router, enters)
    yield right, above
    if any(box.y < end.y and box.x == end.x for box in drawing.steps_beside(edge.target)):
        yield end.right + _GUTTER - 1, above
        yield end.right + _GUTTER - 1, end.y - _GUTTER
        yield end.centre, end.y - _GUTTER
    else:
        yield end.centre, above
    yield end.centre, end.y


def _track(router: _Router, y: float) -> float:
    """Return the distance to the first free line of a channel."""
    count = router.in_band.get(y, 0)
    router.in_band[y] = count + 1
    return count * TRACK


def _free(router: _Router, candidates: Iterable[Point]) -> Point | None:
    """Return the first position at which a label overlaps nothing, and mark it as taken."""
    for x, y in candidates:
        label = Box(x - LABEL_WIDTH / 2, y - LABEL_HEIGHT / 2, LABEL_WIDTH, LABEL_HEIGHT)
        if not any(label.overlaps(box) for box in router.taken):
            router.taken.append(label)
            return x, y
    return None
