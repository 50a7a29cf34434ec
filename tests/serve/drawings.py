"""Checks of a drawing of a topology by its geometry."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

from millstream.serve.api.topology import TopologyGraph
from millstream.serve.pages.drawing import Box, Direction, arrange
from millstream.serve.pages.edges import LABEL_HEIGHT, LABEL_WIDTH, edge_paths

DIRECTIONS: tuple[Direction, ...] = ("across", "down")
_NUMBER = re.compile(r"-?\d+")


def check_drawing(graph: TopologyGraph, direction: Direction) -> None:
    """Assert that nothing overlaps, that no edge crosses a node, and that everything is inside the drawing."""
    drawing = arrange(graph, direction)
    paths = edge_paths(drawing, graph.edges)
    for box, other in combinations(drawing.nodes.values(), 2):
        assert not box.overlaps(other)
    for name, box in drawing.nodes.items():
        for stage, around in drawing.stages.items():
            assert not box.overlaps(around) or (name in drawing.steps and drawing.stage_of[name] == stage)
    labels = [
        Box(x - LABEL_WIDTH / 2, y - LABEL_HEIGHT / 2, LABEL_WIDTH, LABEL_HEIGHT)
        for path in paths
        if path is not None and path.label is not None
        for x, y in [path.label]
    ]
    titles = [Box(box.x, box.y, box.width, 28) for box in drawing.stages.values()]
    for label, other in combinations([*labels, *drawing.nodes.values(), *titles], 2):
        assert label not in labels or not label.overlaps(other)
    for edge, path in zip(graph.edges, paths, strict=True):
        if path is None:
            continue
        numbers = [float(number) for number in _NUMBER.findall(path.path)]
        corners = list(zip(numbers[::2], numbers[1::2], strict=True))
        assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in corners), (edge, path.path)
        if "C" not in path.path:  # a curve is only drawn where it crosses nothing
            others = [box for name, box in drawing.nodes.items() if name not in (edge.source, edge.target)]
            for segment in pairwise(corners):
                assert not any(_crosses(segment, box) for box in others), (edge, path.path)


def _crosses(segment: tuple[tuple[float, float], tuple[float, float]], box: Box) -> bool:
    (x1, y1), (x2, y2) = segment
    line = Box(min(x1, x2), min(y1, y2), max(0.5, abs(x2 - x1)), max(0.5, abs(y2 - y1)))
    return line.overlaps(Box(box.x + 1, box.y + 1, box.width - 2, box.height - 2))
