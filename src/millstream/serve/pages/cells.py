"""The grid of a stage: for each step its distance from the input, and its branch."""

from __future__ import annotations

from millstream.serve.api.topology import GraphEdge


def cells(nodes: list[str], edges: list[GraphEdge]) -> dict[str, tuple[int, int]]:
    """Return depth and branch of each step: depth by the longest path, exits last, and a separate line per branch."""
    inside = set(nodes)
    successors: dict[str, list[str]] = {name: [] for name in nodes}
    predecessors: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in edges:
        if edge.source in inside and edge.target in inside:
            successors[edge.source].append(edge.target)
            predecessors[edge.target].append(edge.source)
    depths = _depths(nodes, predecessors)
    last = max(depths.values(), default=0)
    for name in nodes:
        if not successors[name] and predecessors[name]:
            depths[name] = last
    branches = _branches(nodes, successors, depths)
    return {name: (depths[name], branches[name]) for name in nodes}


def _depths(nodes: list[str], predecessors: dict[str, list[str]]) -> dict[str, int]:
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


def _branches(nodes: list[str], successors: dict[str, list[str]], depths: dict[str, int]) -> dict[str, int]:
    """Give each branch its own line; a node is on the line of its first successor."""
    branches: dict[str, int] = {}
    used: set[tuple[int, int]] = set()
    next_branch = 0

    def walk(name: str) -> int:
        nonlocal next_branch
        if name in branches:
            return branches[name]
        branches[name] = -1  # ends a cycle
        after = [branch for target in successors[name] if (branch := walk(target)) >= 0]
        branch = after[0] if after else next_branch
        if (depths[name], branch) in used:
            branch = next_branch
        next_branch = max(next_branch, branch + 1)
        used.add((depths[name], branch))
        branches[name] = branch
        return branch

    for name in nodes:
        walk(name)
    return branches
