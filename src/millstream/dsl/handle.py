"""What all handles have in common: the draft they write to, their node, and a hint for verbs they lack."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from millstream.errors import NoSuchVerbError
from millstream.foundation.type_variables import K, V
from millstream.plan.node import Node
from millstream.plan.topology import Draft

if TYPE_CHECKING:
    from millstream.dsl.alerts import Alerts
    from millstream.dsl.stream import Stream
    from millstream.dsl.table import Table


class Verbs:
    """Base of everything with verbs; the error for an unknown verb says which handle has it."""

    if not TYPE_CHECKING:  # type checkers must still report unknown verbs

        def __getattr__(self, verb: str) -> Any:
            if verb.startswith("_"):
                raise AttributeError(verb)
            raise NoSuchVerbError(f"a {type(self).__name__} has no {verb}()", hint=_hint(type(self), verb), verb=verb)


_CONVERSIONS = {
    ("Table", "Stream"): "turn it into a stream first: .to_stream()",
    ("Stream", "Table"): "turn it into a table first: .to_table()",
}


def _hint(handle: type, verb: str) -> str:
    owners = sorted(kind.__name__ for kind in _handles(Verbs) if hasattr(kind, verb))
    conversions = [_CONVERSIONS[pair] for owner in owners if (pair := (handle.__name__, owner)) in _CONVERSIONS]
    if owners:
        return conversions[0] if conversions else f"{' and '.join(owners)} {'has' if len(owners) == 1 else 'have'} it"
    verbs = [name for name in dir(handle) if not name.startswith("_")]
    similar = difflib.get_close_matches(verb, verbs, 1)
    return f"did you mean {similar[0]}()?" if similar else f"it has {', '.join(verbs)}"


def _handles(kind: type) -> list[type]:
    """Return the classes that users meet: those without subclasses."""
    subclasses: list[type] = kind.__subclasses__()
    return [handle for subclass in subclasses for handle in _handles(subclass)] or [kind]


class Handle(Verbs, Generic[K, V]):
    """A node of a topology as users see it; creating a handle adds its node to the draft."""

    _stream: ClassVar[type[Stream]]
    _table: ClassVar[type[Table]]
    _alerts: ClassVar[type[Alerts]]
    """Set by the modules of these handles: verbs elsewhere return them, and imports must not be circular."""

    def __init__(self, draft: Draft, node: Node) -> None:
        self._draft = draft
        self._node = node if node in draft.nodes else draft.add(node)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.name or self._node.verb}>"

    def _repr_svg_(self) -> str | None:
        """Draw what the handle depends on, for Jupyter."""
        from millstream.notebook.topology import draft_svg

        return draft_svg(self._draft, self._node)
