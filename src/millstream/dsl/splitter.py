"""A stream on its way apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.functions import AnyFunction, by_arity
from millstream.plan.stateless import Branch, Split

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream


class Splitter:
    """A stream on its way apart: each branch takes what matches, the rest goes on to the next."""

    def __init__(self, rest: Stream, branches: dict[str, Stream] | None = None) -> None:
        self._rest = rest
        self.branches: dict[str, Stream] = branches or {}

    def branch(
        self, predicate: AnyFunction, use: Callable[[Stream], Any] | None = None, *, name: str | None = None
    ) -> Splitter:
        """Take the records for which ``predicate`` holds and no earlier one did; ``use`` gets them as a stream."""
        draft = self._rest._draft
        split = draft.add(Split(source=self._rest._node, predicate=by_arity("branch", predicate)))
        stream = type(self._rest)
        taken = stream(draft, Branch(split=split, matched=True, name=name))
        rest = stream(draft, Branch(split=split, matched=False))
        if use is not None:
            use(taken)
        return Splitter(rest, {**self.branches, name or str(len(self.branches) + 1): taken})

    def default(self, use: Callable[[Stream], Any] | None = None) -> None:
        """Take the records that no branch took; without this they end here."""
        if use is not None:
            use(self._rest)
        self.branches["default"] = self._rest
