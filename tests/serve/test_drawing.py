from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.serve.drawings import DIRECTIONS, check_drawing

from millstream.serve.api.topology import GraphEdge, GraphNode, GraphStage, TopologyGraph
from millstream.serve.pages.drawing import Direction
from millstream.serve.pages.text_width import fitted, text_width


@st.composite
def graphs(draw: st.DrawFn) -> TopologyGraph:
    """Return a graph as topologies have them: steps lead to later steps of their stage, or to any later stage."""
    stages: list[GraphStage] = []
    nodes: list[GraphNode] = []
    edges: list[GraphEdge] = []
    topics = [f"topic:t{number}" for number in range(draw(st.integers(1, 5)))]
    rates = st.one_of(st.none(), st.floats(0, 1e7))
    earlier: list[str] = []
    for level in range(draw(st.integers(1, 4))):
        names = [f"s{level}n{number}" for number in range(draw(st.integers(1, 7)))]
        for number, name in enumerate(names):
            nodes.append(GraphNode(id=name, kind="step", label=name, verb="map", stage=f"s{level}"))
            before = draw(st.lists(st.sampled_from(names[:number]), max_size=2, unique=True)) if number else []
            edges += [GraphEdge(source=source, target=name, rate=draw(rates)) for source in before]
            if not before and earlier:
                edges.append(GraphEdge(source=draw(st.sampled_from(earlier)), target=name, rekeys=True, rate=1.0))
            elif not before:
                edges.append(GraphEdge(source=draw(st.sampled_from(topics)), target=name, rate=draw(rates)))
            if draw(st.booleans()):
                edges.append(GraphEdge(source=name, target=draw(st.sampled_from(topics)), rate=draw(rates)))
        inner = {edge.source for edge in edges if edge.target in names}
        earlier += [name for name in names if name not in inner]
        common = {"partitions": 1, "records_in": 0, "records_out": 0, "seconds": 0.0}
        stages.append(GraphStage(name=f"s{level}", level=level, nodes=names, **common))  # type: ignore[arg-type]
    drawn = [GraphNode(id=topic, kind="topic", label=topic, verb="topic") for topic in topics]
    return TopologyGraph(app="app", nodes=[*drawn, *nodes], edges=edges, stages=stages)


@pytest.mark.parametrize("direction", DIRECTIONS)
@settings(max_examples=150, deadline=None)
@given(graphs())
def test_nothing_overlaps_and_no_edge_crosses_a_node(direction: Direction, graph: TopologyGraph) -> None:
    check_drawing(graph, direction)


@given(st.text(max_size=80), st.floats(30, 300))
def test_a_shortened_text_fits_and_keeps_both_ends(text: str, width: float) -> None:
    shortened = fitted(text, 13.5, width)
    assert text_width(shortened, 13.5) <= width or shortened == "…"
    if shortened != text and len(shortened) > 3:
        start, _, end = shortened.partition("…")
        assert text.startswith(start)
        assert text.endswith(end)
