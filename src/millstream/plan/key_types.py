"""The type of keys, where it is certain: the decoded type of a topic's keys, until a function computes new keys.

Keys of different types are never equal (``5`` is not ``"5"``), so a join of them would silently find nothing.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

from millstream.errors import DefinitionError
from millstream.plan.foreign_keys import FOREIGN_KEYS
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node, Nodes, fold, inputs
from millstream.plan.processors import Process
from millstream.plan.select import SelectRekeyed
from millstream.plan.sources import Source
from millstream.plan.stateful import StreamTableJoin, WindowedAggregate
from millstream.plan.stateless import REKEYING
from millstream.plan.tables import TableGroupBy, TableTableJoin
from millstream.records import Windowed
from millstream.serdes import Binary, Json, MessagePack, Raw, Readable, Serde, Text
from millstream.windowed_serdes import SessionWindowed, TimeWindowed


class KeyType(NamedTuple):
    """The type of keys, and the topic that they are from."""

    type: type
    topic: str


def key_types(nodes: Nodes) -> dict[Node, KeyType | None]:
    """Return the type of each node's keys, None if it is not certain."""
    return fold(nodes, lambda node, sources: _key_type(node, *sources))


def check_key_types(nodes: Nodes) -> None:
    """Reject joins whose sides have keys of different types."""
    types = key_types(nodes)
    for node in nodes:
        if isinstance(node, StreamTableJoin | StreamStreamJoin | TableTableJoin):
            left, right = (types[source] for source in inputs(node)[:2])
            if left is not None and right is not None and left.type is not right.type:
                raise DefinitionError(
                    f"{node.name!r} joins {left.topic!r}, whose keys are {left.type.__name__}, with {right.topic!r}, "
                    f"whose keys are {right.type.__name__}: keys of different types are never equal",
                    hint="read both with the same key=, or change the keys of one side with select_key()",
                    node=node.name,
                )


def decoded_type(serde: Serde) -> Any:
    """Return the class of the objects that a serde decodes to, None if it is not certain."""
    if isinstance(serde, Text | Readable):
        return str
    if isinstance(serde, Raw):
        return bytes
    if isinstance(serde, Binary):
        return float if serde.name.startswith("float") else int
    if isinstance(serde, TimeWindowed | SessionWindowed):
        return Windowed
    if isinstance(serde, Json | MessagePack) and isinstance(serde.type, type):
        return serde.type
    return None


@singledispatch
def _key_type(node: Node, *sources: KeyType | None) -> KeyType | None:
    if not sources or isinstance(
        node, (*REKEYING, SelectRekeyed, Process, TableGroupBy, WindowedAggregate, *FOREIGN_KEYS)
    ):
        return None
    types = {None if source is None else source.type for source in sources}
    return sources[0] if isinstance(node, StreamTableJoin) or len(types) == 1 else None


@_key_type.register(Source)
def _source(node: Source) -> KeyType | None:
    kind = decoded_type(node.key)
    if kind is None:
        return None
    return KeyType(kind, node.topics[0] if node.topics else node.pattern or "")
