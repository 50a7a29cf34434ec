"""Shrink a case that fails: fewer records, fewer nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from millstream.testing.conformance.cases import Case

Fails = Callable[[Case], bool]
_PASSES_ON = ("filter", "filter_not", "map_values", "merge", "repartition", "suppress", "transform_values")
"""Nodes whose readers can read their input instead."""


def shrunk(case: Case, fails: Fails, attempts: int = 400) -> Case:
    """Return a small case that fails too."""
    while attempts > 0:
        for smaller in _smaller(case):
            attempts -= 1
            if fails(smaller):
                case = smaller
                break
            if attempts <= 0:
                return case
        else:
            return case
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Yield smaller cases, those that leave out most first."""
    steps = case.steps
    size = len(steps) // 2
    while size >= 1:
        for start in range(0, len(steps), size):
            yield msgspec.structs.replace(case, steps=steps[:start] + steps[start + size :])
        size //= 2
    for number in reversed(range(len(case.topology))):
        topology = _without(case.topology, number)
        if topology is not None:
            yield msgspec.structs.replace(case, topology=topology)


def _without(nodes: list[dict[str, Any]], number: int) -> list[dict[str, Any]] | None:
    """Return the nodes without one that is not read, or whose readers can read its input."""
    node, others = nodes[number], nodes[:number] + nodes[number + 1 :]
    names = {node["id"], node.get("default"), *(branch["id"] for branch in node.get("branches", ()))}
    readers = [other for other in others if names & set(_inputs(other))]
    if not readers:
        return others
    if node["op"] not in _PASSES_ON:
        return None
    instead = _inputs(node)[0]

    def connected(other: dict[str, Any]) -> dict[str, Any]:
        if "in" not in other:
            return other
        sources = [instead if name == node["id"] else name for name in _inputs(other)]
        return {**other, "in": sources if isinstance(other["in"], list) else sources[0]}

    return [connected(other) for other in others]


def _inputs(node: dict[str, Any]) -> list[str]:
    sources = node.get("in", [])
    return [sources] if isinstance(sources, str) else list(sources)
