"""Ready-made aggregations as data: the state that is stored for a group, and the result that users see.

State consists of numbers, text, lists and dicts, so that it is small and any process can read it. It is never changed
in place, since a table still needs the old state. None is the state before the first value; nulls are never added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import msgspec

from millstream.foundation.aggregation import Aggregation as Aggregation  # noqa: PLC0414  # users import it here
from millstream.foundation.aggregation import identity as _identity
from millstream.foundation.ordered_aggregations import Attr, CollectUpTo, Earliest, Latest, TopDistinct
from millstream.foundation.statistics import Correlation, Histogram, Moments
from millstream.foundation.user_code import RemovableUserAggregation, UserAggregation

QUANTILE_ERROR = 0.01
"""The maximum relative error of a quantile."""

_GAMMA = (1 + QUANTILE_ERROR) / (1 - QUANTILE_ERROR)
_LOG_GAMMA = math.log(_GAMMA)
_ZERO = 1 << 16
"""Added to bucket numbers, so that those of positive numbers are positive; floats have about ±37,000 buckets."""


class Count(Aggregation, frozen=True):
    """The number of values."""

    def add(self, state: int | None, _value: Any, /) -> int:
        return 1 if state is None else state + 1

    def remove(self, state: int, _value: Any, /) -> int:
        return state - 1

    def merge(self, earlier: int, later: int, /) -> int:
        return earlier + later

    def finish(self, state: int | None) -> int:
        return state or 0


class Sum(Aggregation, frozen=True):
    """The sum of anything that supports addition."""

    def add(self, state: Any, value: Any, /) -> Any:
        return +value if state is None else state + value  # +True is 1, and +"text" is refused

    def remove(self, state: Any, value: Any, /) -> Any:
        return state - value

    def merge(self, earlier: Any, later: Any, /) -> Any:
        return earlier + later


class Mean(Aggregation, frozen=True):
    """The arithmetic mean; the state is sum and count."""

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        return [+value, 1] if state is None else [state[0] + value, state[1] + 1]

    def remove(self, state: list[Any], value: Any, /) -> list[Any]:
        return [state[0] - value, state[1] - 1]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        return [earlier[0] + later[0], earlier[1] + later[1]]

    def finish(self, state: list[Any] | None) -> Any:
        return state[0] / state[1] if state is not None and state[1] else None


class Min(Aggregation, frozen=True):
    """The smallest value; of equal values the first. NaN is ignored."""

    cannot_remove: ClassVar[str] = "only the smallest value is stored, so the next one is unknown"

    def add(self, state: Any, value: Any, /) -> Any:
        if state is None:
            return value if value == value else None  # NaN differs from itself
        return min(state, value)

    def merge(self, earlier: Any, later: Any, /) -> Any:
        return min(earlier, later)


class Max(Aggregation, frozen=True):
    """The greatest value; of equal values the first. NaN is ignored."""

    cannot_remove: ClassVar[str] = "only the greatest value is stored, so the next one is unknown"

    def add(self, state: Any, value: Any, /) -> Any:
        if state is None:
            return value if value == value else None  # NaN differs from itself
        return max(state, value)

    def merge(self, earlier: Any, later: Any, /) -> Any:
        return max(earlier, later)


class First(Aggregation, frozen=True):
    """The value that arrived first."""

    cannot_remove: ClassVar[str] = "only the first value is stored, so the next one is unknown"

    def add(self, state: Any, value: Any, /) -> Any:
        return value if state is None else state

    def merge(self, earlier: Any, _later: Any, /) -> Any:
        return earlier


class Last(Aggregation, frozen=True):
    """The value that arrived last."""

    cannot_remove: ClassVar[str] = "only the last value is stored, so the previous one is unknown"

    def add(self, _kept: Any, value: Any, /) -> Any:
        return value

    def merge(self, _earlier: Any, later: Any, /) -> Any:
        return later


class Collect(Aggregation, frozen=True):
    """All values in order of arrival; of equal values the first is removed."""

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        return [value] if state is None else [*state, value]

    def remove(self, state: list[Any], value: Any, /) -> list[Any]:
        index = state.index(value)
        return state[:index] + state[index + 1 :]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        return earlier + later

    def finish(self, state: list[Any] | None) -> list[Any]:
        return state or []


class CollectSet(Aggregation, frozen=True):
    """Each value once, in order of first arrival; stored by its identity, as None if that is the value itself."""

    cannot_remove: ClassVar[str] = "each value is stored once, so it is unknown whether another row has it"

    def add(self, state: dict[Any, Any] | None, value: Any, /) -> dict[Any, Any]:
        identity = _identity(value)
        if state is None:
            state = {}
        return state if identity in state else {**state, identity: None if identity is value else value}

    def add_in_place(self, state: dict[Any, Any] | None, value: Any, /) -> dict[Any, Any]:
        """Add a value to a state that is not used elsewhere: copies for new values would take longer and longer."""
        identity = _identity(value)
        state = {} if state is None else state
        state.setdefault(identity, None if identity is value else value)
        return state

    def merge(self, earlier: dict[Any, Any], later: dict[Any, Any], /) -> dict[Any, Any]:
        return earlier | {identity: value for identity, value in later.items() if identity not in earlier}

    def finish(self, state: dict[Any, Any] | None) -> list[Any]:
        return [identity if value is None else value for identity, value in state.items()] if state else []


class CountDistinct(Aggregation, frozen=True):
    """The exact number of distinct values; the state has the identity of each."""

    cannot_remove: ClassVar[str] = CollectSet.cannot_remove

    def add(self, state: dict[Any, Any] | None, value: Any, /) -> dict[Any, Any]:
        identity = _identity(value)
        if state is None:
            return {identity: None}
        return state if identity in state else {**state, identity: None}

    def add_in_place(self, state: dict[Any, Any] | None, value: Any, /) -> dict[Any, Any]:
        """Add a value to a state that is not used elsewhere, as ``CollectSet`` does."""
        state = {} if state is None else state
        state[_identity(value)] = None
        return state

    def merge(self, earlier: dict[Any, Any], later: dict[Any, Any], /) -> dict[Any, Any]:
        return earlier | later

    def finish(self, state: dict[Any, Any] | None) -> int:
        return len(state or ())


class Top(Aggregation, frozen=True):
    """The ``n`` greatest values, the greatest first; of equal values the first. ``ranked``: of (rank, value) pairs."""

    n: int
    ranked: bool = False
    cannot_remove: ClassVar[str] = "only the greatest values are stored, so the next one is unknown"

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        rank = value[0] if self.ranked else value
        ranks = [pair[0] for pair in state or ()] if self.ranked else state or []
        if len(ranks) == self.n and not rank > ranks[-1]:
            assert state is not None
            return state
        index = sum(1 for other in ranks if not rank > other)
        return [*(state or ())[:index], value, *(state or ())[index : self.n - 1]]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        for value in later:
            earlier = self.add(earlier, value)
        return earlier

    def finish(self, state: list[Any] | None) -> list[Any]:
        return [value for _, value in state or ()] if self.ranked else state or []


class Quantile(Aggregation, frozen=True):
    """An estimate of the value that the share ``q`` of all values does not exceed, from a DDSketch.

    The bounds of buckets grow by a constant factor, so that one value can represent a bucket with a relative error of
    ``QUANTILE_ERROR``. The state is the number of values in each bucket.
    """

    q: float

    def add(self, state: dict[int, int] | None, value: Any, /) -> dict[int, int] | None:
        if value != value:  # NaN has no order among numbers
            return state
        bucket = _bucket(value)
        state = state or {}
        return {**state, bucket: state.get(bucket, 0) + 1}

    def remove(self, state: dict[int, int] | None, value: Any, /) -> dict[int, int] | None:
        if value != value or state is None:
            return state
        bucket = _bucket(value)
        counts = {**state, bucket: state[bucket] - 1}
        return counts if counts[bucket] else {bucket: count for bucket, count in counts.items() if count}

    def merge(self, earlier: dict[int, int], later: dict[int, int], /) -> dict[int, int]:
        return earlier | {bucket: earlier.get(bucket, 0) + count for bucket, count in later.items()}

    def finish(self, state: dict[int, int] | None) -> float | None:
        if not state:
            return None
        remaining = self.q * (sum(state.values()) - 1)
        for bucket in sorted(state):
            remaining -= state[bucket]
            if remaining < 0:
                return _middle(bucket)
        return _middle(max(state))


class Counted(Aggregation, frozen=True):
    """An aggregation from which rows are removed: without values there is no state."""

    of: AnyAggregation

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        return [1, self.of.add(None, value)] if state is None else [state[0] + 1, self.of.add(state[1], value)]

    def remove(self, state: list[Any] | None, value: Any, /) -> list[Any] | None:
        return None if state is None or state[0] == 1 else [state[0] - 1, self.of.remove(state[1], value)]

    def finish(self, state: list[Any] | None) -> Any:
        return self.of.finish(None if state is None else state[1])


class Several(Aggregation, frozen=True):
    """Several aggregations at once; a value is a list, and each aggregation adds one item of it, unless it is null."""

    names: tuple[str, ...]
    parts: tuple[AnyAggregation, ...]
    indexes: tuple[int, ...] = msgspec.field(name="places")

    def add(self, states: list[Any] | None, values: list[Any], /) -> list[Any]:
        states = states or [None] * len(self.parts)
        return [
            state if (value := values[index]) is None else part.add(state, value)
            for part, state, index in zip(self.parts, states, self.indexes, strict=True)
        ]

    def remove(self, states: list[Any] | None, values: list[Any], /) -> list[Any]:
        states = states or [None] * len(self.parts)
        return [
            state if (value := values[index]) is None else part.remove(state, value)
            for part, state, index in zip(self.parts, states, self.indexes, strict=True)
        ]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        return [
            left if right is None else right if left is None else part.merge(left, right)
            for part, left, right in zip(self.parts, earlier, later, strict=True)
        ]

    def finish(self, states: list[Any] | None) -> dict[str, Any]:
        states = states or [None] * len(self.parts)
        return {name: part.finish(state) for name, part, state in zip(self.names, self.parts, states, strict=True)}

    def count(self, states: list[Any] | None, _value: Any, /) -> list[Any]:
        """Add a record to aggregations that all are counts, whatever its values."""
        return self.count_several(states, 1)

    def count_several(self, states: list[Any] | None, count: int) -> list[Any]:
        """Add that many records to aggregations that all are counts."""
        return [count] * len(self.parts) if states is None else [state + count for state in states]


AnyAggregation: TypeAlias = (
    Count | Sum | Mean | Min | Max | First | Last | Collect | CollectSet | CountDistinct | Top | Quantile | Counted
    | Several | Attr | CollectUpTo | Earliest | Latest | TopDistinct | Correlation | Histogram | Moments
    | UserAggregation | RemovableUserAggregation
)  # fmt: skip


def state_signature(aggregation: Aggregation) -> str:
    """Return a text that identifies the stored state: aggregations with the same text can use each other's state.

    >>> state_signature(Several(("low", "best"), (Min(), Top(3)), (0, 0)))
    'agg(low=min, best=top(n=3, ranked=False))'
    """
    if isinstance(aggregation, Counted):
        return state_signature(aggregation.of)
    if isinstance(aggregation, Several):
        parts = (
            f"{name}={state_signature(part)}" for name, part in zip(aggregation.names, aggregation.parts, strict=True)
        )
        return f"agg({', '.join(parts)})"
    kind, options = type(aggregation).__name__.lower(), msgspec.structs.asdict(aggregation)
    return f"{kind}({', '.join(f'{name}={value}' for name, value in options.items())})" if options else kind


def is_stable(aggregation: Aggregation) -> bool:
    """Return whether no state is changed in place when a value is added: user code may do so, and sets that grow do.

    >>> is_stable(Several(("low", "best"), (Min(), Top(3)), (0, 0)))
    True
    """
    if isinstance(aggregation, Several):
        return all(map(is_stable, aggregation.parts))
    if isinstance(aggregation, Counted):
        return is_stable(aggregation.of)
    return not isinstance(aggregation, UserAggregation | CollectSet | CountDistinct)


def finisher(ready: Aggregation, build: Callable[..., Any] | None = None) -> Callable[[Any], Any]:
    """Return the function from state to result; ``build`` creates an object from several results."""
    finish = ready.finish
    if build is None:
        return lambda state: None if state is None else finish(state)
    return lambda state: None if state is None else build(**finish(state))


def _bucket(value: Any) -> int:
    """Return the bucket number of a value; bucket numbers are in the order of their values."""
    if value > 0:
        return _ZERO + math.ceil(math.log(value) / _LOG_GAMMA)
    return -_ZERO - math.ceil(math.log(-value) / _LOG_GAMMA) if value < 0 else 0


def _middle(bucket: int) -> float:
    """Return the value at the same relative distance from both bounds of a bucket."""
    if bucket == 0:
        return 0.0
    size = 2 * math.exp((abs(bucket) - _ZERO) * _LOG_GAMMA) / (_GAMMA + 1)
    return size if bucket > 0 else -size
