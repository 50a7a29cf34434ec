"""The independent parts of a topology: no part reads a topic, a step or a store of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from millstream.plan.node import Node, inputs
from millstream.plan.sources import GlobalTableSource, Source
from millstream.plan.stages import shared_stores


def independent_parts(nodes: Iterable[Node]) -> list[list[Node]]:
    """Group nodes that are connected by steps, shuffles, stores or topics that both read.

    Positions belong to topics, so sources of the same topic cannot be at different ones. Global tables connect nothing:
    all tasks look them up, and none of them reads their topics.
    """
    part_of: dict[Node, list[Node]] = {}
    first_users: dict[str, Node] = {}
    patterns: list[Source] = []
    for node in nodes:
        if isinstance(node, GlobalTableSource):
            continue
        part_of[node] = [node]
        for neighbour in _neighbours(node, first_users, patterns):
            merged, part = part_of.get(neighbour), part_of[node]
            if merged is not None and merged is not part:
                merged.extend(part)
                part_of.update(dict.fromkeys(part, merged))
    return list({id(part): part for part in part_of.values()}.values())


def _neighbours(node: Node, first_users: dict[str, Node], patterns: list[Source]) -> Iterator[Node]:
    yield from inputs(node)
    yield from (first_users.setdefault(f"store {name}", node) for name in shared_stores(node))
    if isinstance(node, Source):
        yield from (first_users.setdefault(f"topic {topic}", node) for topic in node.topics)
        yield from (source for source in patterns if any(source.reads(topic) for topic in node.topics))
        if node.pattern is not None:
            yield from patterns  # whether two patterns match the same topic is not known before it exists
            patterns.append(node)
            topics = ((name.partition(" ")[2], user) for name, user in first_users.items() if name.startswith("topic "))
            yield from [user for topic, user in topics if node.reads(topic)]


def topics_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the topics that these nodes, or nodes before them, read; those of global tables are left out."""
    topics: dict[str, None] = {}
    pending, seen = list(nodes), set[Node]()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        pending.extend(inputs(node))
        if isinstance(node, Source) and not isinstance(node, GlobalTableSource):
            topics.update(dict.fromkeys(node.topics))
    return tuple(sorted(topics))
