"""What all handles have: the draft they write to, the node they stand for, and a word on verbs they lack."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from millstream.errors import NoSuchVerbError
from millstream.plan.node import Node
from millstream.plan.topology import Draft


class Verbs:
    """Anything with verbs; asked for one that it lacks, it says who has it."""

    if not TYPE_CHECKING:  # a type checker must go on to see which verbs there are

        def __getattr__(self, verb: str) -> Any:
            if verb.startswith("_"):
                raise AttributeError(verb)
            raise NoSuchVerbError(f"a {type(self).__name__} has no {verb}()", hint=_advice(type(self), verb), verb=verb)


_TURNS = {("Table", "Stream"): "turn it into a stream first: .to_stream()"}
_TURNS["Stream", "Table"] = "turn it into a table first: .to_table()"


def _advice(kind: type, verb: str) -> str:
    having = [other.__name__ for other in _kinds(Verbs) if verb in vars(other)]
    turns = [_TURNS[kind.__name__, other] for other in having if (kind.__name__, other) in _TURNS]
    if having:
        return turns[0] if turns else f"{' and '.join(sorted(having))} {'has' if len(having) == 1 else 'have'} it"
    own = [name for name in dir(kind) if not name.startswith("_")]
    near = difflib.get_close_matches(verb, own, 1)
    return f"did you mean {near[0]}()?" if near else f"it has {', '.join(own)}"


def _kinds(kind: type) -> list[type]:
    below: list[type] = kind.__subclasses__()
    return [one for direct in below for one in (direct, *_kinds(direct))]


class Handle(Verbs):
    """A node of a topology in the user's hands; making one takes the node into the draft."""

    def __init__(self, draft: Draft, node: Node) -> None:
        self._draft = draft
        self._node = node if node in draft.nodes else draft.add(node)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.name or self._node.verb}>"
