"""Which type the keys of records surely have: what a topic's keys are decoded to, until a function makes new ones.

Keys of different types are never equal, ``5`` is not ``"5"``, and a join of the two would find nothing and say nothing.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

from millstream.errors import DefinitionError
from millstream.plan.foreign_keys import FOREIGN_KEYS
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node, Nodes, fold, inputs
from millstream.plan.processors import Process
from millstream.plan.sources import Source
from millstream.plan.stateful import StreamTableJoin, WindowedAggregate
from millstream.plan.stateless import REKEYING
from millstream.plan.tables import TableGroupBy, TableTableJoin
from millstream.serdes import Binary, Json, MessagePack, Raw, Readable, Serde, Text


class KeyType(NamedTuple):
    """The type of keys, and the topic that they come from."""

    type: type
    topic: str


def key_types(nodes: Nodes) -> dict[Node, KeyType | None]:
    """Return for each node the type of its keys, None if nobody can know."""
    return fold(nodes, lambda node, sources: _leaving(node, *sources))


def check_key_types(nodes: Nodes) -> None:
    """Refuse joins whose sides have keys of different types."""
    known = key_types(nodes)
    for node in nodes:
        if isinstance(node, StreamTableJoin | StreamStreamJoin | TableTableJoin):
            one, other = (known[source] for source in inputs(node)[:2])
            if one is not None and other is not None and one.type is not other.type:
                raise DefinitionError(
                    f"{node.name!r} joins {one.topic!r}, whose keys are {one.type.__name__}, with {other.topic!r}, "
                    f"whose keys are {other.type.__name__}: no key of one is ever equal to one of the other",
                    hint="read both with the same key=, or give one side new keys with select_key()",
                    node=node.name,
                )


def decoded_type(serde: Serde) -> Any:
    """Return the class of what a serde decodes, None if it is not known."""
    if isinstance(serde, Text | Readable):
        return str
    if isinstance(serde, Raw):
        return bytes
    if isinstance(serde, Binary):
        return float if serde.name.startswith("float") else int
    if isinstance(serde, Json | MessagePack) and isinstance(serde.type, type):
        return serde.type
    return None


@singledispatch
def _leaving(node: Node, *sources: KeyType | None) -> KeyType | None:
    if not sources or isinstance(node, (*REKEYING, Process, TableGroupBy, WindowedAggregate, *FOREIGN_KEYS)):
        return None
    types = {None if one is None else one.type for one in sources}
    return sources[0] if isinstance(node, StreamTableJoin) or len(types) == 1 else None


@_leaving.register(Source)
def _source(node: Source) -> KeyType | None:
    kind = decoded_type(node.key)
    if kind is None:
        return None
    return KeyType(kind, node.topics[0] if node.topics else node.pattern or "")
