"""Check the topology as a whole; each node checks itself."""

from __future__ import annotations

from millstream.errors import DefinitionError
from millstream.plan.key_types import check_key_types
from millstream.plan.node import Nodes
from millstream.plan.sharing import check_stores
from millstream.plan.sources import Source


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
