"""Levels: the order in which the parts of a plan run within a batch.

A part runs once, after all parts that send it records. Only parts that form a cycle, as when a stream is joined with a
count of itself, run in rounds: each of their inputs is read as soon as everything upstream of it is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.plan.node import Node, inputs
from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition

Head = Source | Repartition
Part = Sequence[Node]


def levels_of_heads(parts: Sequence[Part], part_of: Mapping[Node, Part]) -> dict[Head, int]:
    """Return the level on which each source and each edge is read."""
    return _Levels(parts, part_of).levels


class _Levels:
    def __init__(self, parts: Sequence[Part], part_of: Mapping[Node, Part]) -> None:
        self._part_of = part_of
        self._heads = {id(part): [node for node in part if isinstance(node, Source | Repartition)] for part in parts}
        self._cyclic = {id(part) for part in parts if self._reaches_itself(part)}
        self.levels: dict[Head, int] = {}
        for part in parts:
            for head in self._heads[id(part)]:
                self._level(head)

    def _reaches_itself(self, part: Part) -> bool:
        seen: set[int] = set()
        pending = self._senders(part)
        while pending:
            sender = pending.pop()
            if sender is part:
                return True
            if id(sender) not in seen:
                seen.add(id(sender))
                pending.extend(self._senders(sender))
        return False

    def _senders(self, part: Part) -> list[Part]:
        return [self._part_of[head.source] for head in self._heads[id(part)] if isinstance(head, Repartition)]

    def _level(self, head: Head) -> int:
        if head not in self.levels:
            part = self._part_of[head]
            if id(part) in self._cyclic:
                self.levels[head] = self._earliest(head)
            else:
                heads = self._heads[id(part)]
                level = max(self._earliest(each) for each in heads)
                self.levels.update(dict.fromkeys(heads, level))
        return self.levels[head]

    def _earliest(self, head: Head) -> int:
        """Return the first level on which all records of an input are available."""
        if isinstance(head, Source):
            return 0
        return 1 + max(self._level(before) for before in _heads_above(head.source))


def _heads_above(node: Node) -> set[Head]:
    """Return the sources and edges whose records can reach a node without crossing another edge."""
    if isinstance(node, Source | Repartition):
        return {node}
    return {head for source in inputs(node) for head in _heads_above(source)}
