"""Check the topology as a whole; each node checks itself."""

from __future__ import annotations

from millstream.errors import DefinitionError
from millstream.foundation.recursion import allow_steps
from millstream.plan.key_types import check_key_types
from millstream.plan.node import Nodes, fold
from millstream.plan.sharing import check_stores
from millstream.plan.sources import Source

MAX_STEPS = 500
"""The longest chain of steps: each step calls the next one, and drawing one needs as much of the stack."""


def check_depth(nodes: Nodes) -> None:
    """Reject a chain of steps that is too long to run; for shorter ones, make room on the stack."""
    depths = fold(nodes, lambda _node, sources: 1 + max(sources, default=0))
    deepest = max(depths, key=depths.__getitem__, default=None)
    if deepest is None:
        return
    if depths[deepest] > MAX_STEPS:
        raise DefinitionError(
            f"a chain of {depths[deepest]:,} steps is too long; at most {MAX_STEPS} are possible",
            hint="combine functions of neighbouring steps, or write to a topic in between and read it in another app",
        )
    allow_steps(depths[deepest])


def check_topology(nodes: Nodes) -> None:
    """Reject a topology that cannot run."""
    _check_sources(nodes)
    check_stores(nodes)
    check_key_types(nodes)


def _check_sources(nodes: Nodes) -> None:
    readers: dict[str, Source] = {}
    sources = [node for node in nodes if isinstance(node, Source)]
    patterns = [node for node in sources if node.pattern is not None]
    for node in sources:
        for topic in node.topics:
            readers.update((topic, source) for source in patterns if source.reads(topic))
            other = readers.setdefault(topic, node)
            if other is not node and not (node.shared and other.shared):
                raise DefinitionError(
                    f"topic {topic!r} is read by {other.name!r} and by {node.name!r}",
                    hint="read it once and use the result twice; .to_stream() turns a table into a stream",
                    topic=topic,
                )
    if not sources:
        raise DefinitionError("the topology has no source", hint="start with app.stream(topic) or app.table(topic)")
