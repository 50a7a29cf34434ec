"""Aggregations that keep some of the values, in an order.

With ``nulls`` a value is a list of one item, which may be null: nulls themselves are never added.
"""

from __future__ import annotations

from typing import Any, ClassVar

from millstream.foundation.aggregation import Aggregation, identity


class Latest(Aggregation, frozen=True):
    """The last value, or with ``n`` a list of the last ones."""

    n: int | None = None
    nulls: bool = False
    cannot_remove: ClassVar[str] = "only the last values are stored, so the previous ones are unknown"

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        item = value[0] if self.nulls else value
        return [*(state or ()), item][-(self.n or 1) :]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        return (earlier + later)[-(self.n or 1) :]

    def finish(self, state: list[Any] | None) -> Any:
        return (state or []) if self.n is not None else state[-1] if state else None


class Earliest(Aggregation, frozen=True):
    """The first value, or with ``n`` a list of the first ones."""

    n: int | None = None
    nulls: bool = False
    cannot_remove: ClassVar[str] = "only the first values are stored, so the next ones are unknown"

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        if state is not None and len(state) >= (self.n or 1):
            return state
        return [*(state or ()), value[0] if self.nulls else value]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        return (earlier + later)[: self.n or 1]

    def finish(self, state: list[Any] | None) -> Any:
        return (state or []) if self.n is not None else state[0] if state else None


class CollectUpTo(Aggregation, frozen=True):
    """Values in order of arrival, up to a limit; further ones are ignored. ``distinct``: each value once."""

    limit: int
    distinct: bool = False
    nulls: bool = False

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        state, item = state or [], value[0] if self.nulls else value
        if len(state) >= self.limit or (self.distinct and item in state):
            return state
        return [*state, item]

    def remove(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        state, item = state or [], value[0] if self.nulls else value
        index = state.index(item) if item in state else None
        return state if index is None else state[:index] + state[index + 1 :]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        new = [item for item in later if item not in earlier] if self.distinct else later
        return (earlier + new)[: self.limit]

    def finish(self, state: list[Any] | None) -> list[Any]:
        return state or []


class TopDistinct(Aggregation, frozen=True):
    """The ``n`` greatest distinct values, the greatest first."""

    n: int
    cannot_remove: ClassVar[str] = "only the greatest values are stored, so the next one is unknown"

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        state = state or []
        return state if value in state else sorted([*state, value], reverse=True)[: self.n]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        for value in later:
            earlier = self.add(earlier, value)
        return earlier

    def finish(self, state: list[Any] | None) -> list[Any]:
        return state or []


class Attr(Aggregation, frozen=True):
    """The value that all rows have, null if they differ; the state is each value with its count."""

    nulls: bool = True

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        item = value[0] if self.nulls else value
        return _counted(state or [], item, 1)

    def remove(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        return _counted(state or [], value[0] if self.nulls else value, -1)

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        for item, count in later:
            earlier = _counted(earlier, item, count)
        return earlier

    def finish(self, state: list[Any] | None) -> Any:
        return state[0][0] if state is not None and len(state) == 1 else None


def _counted(state: list[Any], item: Any, change: int) -> list[Any]:
    """Return values with counts after a change of the count of one of them."""
    wanted = identity(item)
    counts = [[other, count + change if identity(other) == wanted else count] for other, count in state]
    if not any(identity(other) == wanted for other, _ in state):
        counts.append([item, change])
    return [pair for pair in counts if pair[1] > 0]
