"""The handle of a stream that is being split."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from millstream.foundation.type_variables import K, V
from millstream.functions import AnyFunction, ContextFunction, PairFunction, ValueFunction, by_arity
from millstream.plan.stateless import Branch, Split

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream


class Splitter(Generic[K, V]):
    """A stream that is being split: each branch takes the records that match, the next branch sees the others."""

    def __init__(self, remaining: Stream[K, V], branches: dict[str, Stream[K, V]] | None = None) -> None:
        self._remaining = remaining
        self.branches: dict[str, Stream[K, V]] = branches or {}

    @overload
    def branch(
        self,
        predicate: ValueFunction[V, object],
        use: Callable[[Stream[K, V]], object] | None = None,
        *,
        name: str | None = None,
    ) -> Splitter[K, V]: ...
    @overload
    def branch(
        self,
        predicate: PairFunction[K, V, object],
        use: Callable[[Stream[K, V]], object] | None = None,
        *,
        name: str | None = None,
    ) -> Splitter[K, V]: ...
    @overload
    def branch(
        self,
        predicate: ContextFunction[K, V, object],
        use: Callable[[Stream[K, V]], object] | None = None,
        *,
        name: str | None = None,
    ) -> Splitter[K, V]: ...
    def branch(
        self, predicate: AnyFunction, use: Callable[[Stream[K, V]], Any] | None = None, *, name: str | None = None
    ) -> Splitter[K, V]:
        """Take the records that match ``predicate`` and no earlier one; ``use`` is called with them as a stream."""
        draft, stream = self._remaining._draft, self._remaining._stream
        split = draft.add(Split(source=self._remaining._node, predicate=by_arity("branch", predicate)))
        matched = stream(draft, Branch(split=split, matched=True, name=name))
        remaining = stream(draft, Branch(split=split, matched=False))
        if use is not None:
            use(matched)
        return Splitter(remaining, {**self.branches, name or str(len(self.branches) + 1): matched})

    def default(self, use: Callable[[Stream[K, V]], object] | None = None) -> None:
        """Take the records that match no branch; without this they are dropped."""
        if use is not None:
            use(self._remaining)
        self.branches["default"] = self._remaining
