"""How changes become records."""

from __future__ import annotations

from typing import Protocol

from millstream.connectors.change_data.changes import CompleteChanges
from millstream.foundation.blocks import Block


class ChangeFormat(Protocol):
    """How changes are written as records."""

    def block(self, complete: CompleteChanges) -> Block: ...
