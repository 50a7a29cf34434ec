"""Hold back the changes of a table."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.errors import DefinitionError
from millstream.plan.histories import origin_of_history
from millstream.plan.node import Node, inputs
from millstream.plan.stateful import WindowedAggregate
from millstream.suppression import Suppression, UntilTimeLimit
from millstream.windows import SessionWindows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Suppress(Node):
    """Hold back changes; of each row only the last one is forwarded, when its wait is over."""

    source: Node
    until: Suppression

    def __post_init__(self) -> None:
        if origin_of_history(self.source) is not None:
            raise DefinitionError(
                "suppress() cannot hold back changes of a table with history, which may be out of order",
                hint="remove history=, or suppress before the table that keeps it",
            )
        _ = self.delay  # raises for a table without windows

    @property
    def delay(self) -> int:
        """How long after the end of its window, or after its first change, a row is forwarded."""
        return self.until.wait if isinstance(self.until, UntilTimeLimit) else _closing_delay(self.source)


def _closing_delay(node: Node) -> int:
    """Return how long after their end the windows of a table, or of the tables upstream, stay open."""
    if isinstance(node, WindowedAggregate):
        windows = node.windows
        return windows.grace + (windows.gap if isinstance(windows, SessionWindows) else 0)
    if not inputs(node):
        raise DefinitionError(
            "until_window_closes() requires a windowed table, and this table has no windows",
            hint="use windowed_by(...) before, or until_time_limit(...)",
        )
    return max(_closing_delay(source) for source in inputs(node))


SUPPRESSIONS = (Suppress,)
