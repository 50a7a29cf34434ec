"""Tables that keep their history, and the node that stores it.

A step that processes one row at a time and stores nothing has the history of its source. A join, a grouping or a stored
result has a history only if the user declares one.
"""

from __future__ import annotations

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.plan.node import Node
from millstream.plan.processors import TransformValues
from millstream.plan.tables import TableFilter, TableMapValues

PASSING_ON = (TableFilter, TableMapValues, TransformValues)


def origin_of_history(node: Node) -> Node | None:
    """Return the table that stores the versions of a table: itself or one upstream; None if there is no history."""
    while isinstance(node, PASSING_ON) and not node.stored:
        node = node.source
    return node if history_of(node) is not None else None


def history_of(node: Node) -> int | None:
    """Return for how many milliseconds the node itself keeps old versions of its rows; None if it does not."""
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
