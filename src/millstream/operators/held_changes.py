"""Hold the changes that one record makes until it has been processed: only then is it known which of them are last.

Timers that a record makes due, and the end of the batch, belong to the record before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from millstream.operators.runtime import Runtime
from millstream.plan.node import Node

T = TypeVar("T")


class HeldChange(NamedTuple, Generic[T]):
    """A change of a row that the current record has made."""

    bookmark: Any
    key: bytes
    row: bytes | None
    change: T


class HeldChanges(Generic[T]):
    """The changes of the current record; ``send`` gets them, and is called as if each record were the current one."""

    def __init__(self, node: Node, runtime: Runtime, send: Callable[[list[HeldChange[T]]], None]) -> None:
        self._context = runtime.context
        self._send = send
        self._held: list[HeldChange[T]] = []
        runtime.on_flush(node, self._release, last=True)

    def add(self, key: bytes, row: bytes | None, change: T) -> None:
        """Hold a change of the current record; the changes of the record before it are complete."""
        if self._held and not self._context.is_still_at(self._held[0].bookmark):
            self._release()
        self._held.append(HeldChange(self._context.bookmark(), key, row, change))

    def _release(self) -> None:
        held, self._held = self._held, []
        if held:
            here = self._context.bookmark()
            self._send(held)
            self._context.return_to(here)
