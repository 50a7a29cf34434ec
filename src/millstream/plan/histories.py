"""Tables that keep their history: which node a table has it from.

Steps that only look at one row at a time and store nothing pass the property on. A join, a grouping, or a result that
is stored by itself has a history only if it is given one.
"""

from __future__ import annotations

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.plan.node import Node
from millstream.plan.processors import TransformValues
from millstream.plan.tables import TableFilter, TableMapValues

PASSING_ON = (TableFilter, TableMapValues, TransformValues)


def origin_of_history(node: Node) -> Node | None:
    """Return the table whose versions a table shows: itself or one above it; None if it only knows the newest rows."""
    while isinstance(node, PASSING_ON) and not node.stored:
        node = node.source
    return node if history_of(node) is not None else None


def history_of(node: Node) -> int | None:
    """Return for how many milliseconds the node itself keeps the versions of its rows, None if it does not."""
    history: int | None = getattr(node, "history", None)
    return history


def checked_history(verb: str, history: Duration | None) -> int | None:
    """Return a history in milliseconds."""
    if history is None:
        return None
    length = milliseconds(history)
    if length < 0:
        raise DefinitionError(f"{verb}() cannot keep a history of {history!r}", hint='use for example history="5 min"')
    return length
