"""What all handles have: the draft they write to and the node they stand for."""

from __future__ import annotations

from millstream.plan.node import Node
from millstream.plan.topology import Draft


class Handle:
    """A node of a topology in the user's hands; making one takes the node into the draft."""

    def __init__(self, draft: Draft, node: Node) -> None:
        self._draft = draft
        self._node = node if node in draft.nodes else draft.add(node)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.name or self._node.verb}>"
