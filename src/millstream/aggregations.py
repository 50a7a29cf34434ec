"""Ready aggregations as data: what is kept of the values of a group, and what is shown of it.

What is kept is made of numbers, text, lists and dicts, so that state stays small and any process can read it. It is
never changed in place: a table still needs the old one. None means that no value has come yet; nulls are never added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import msgspec

from millstream.foundation.object_codec import encode_key

QUANTILE_ERROR = 0.01
"""A quantile is at most this far from the right value, relative to it."""

_GAMMA = (1 + QUANTILE_ERROR) / (1 - QUANTILE_ERROR)
_LOG_GAMMA = math.log(_GAMMA)
_ZERO = 1 << 16
"""Added to the number of a bucket, so that those of positive numbers are above 0; floats have some ±37,000 buckets."""


class Aggregation(msgspec.Struct, frozen=True, tag=str.lower):
    """One way to aggregate values; ``add``, ``remove`` and ``merge`` return what is to be kept."""

    stays: ClassVar[str] = ""
    """Why a value that was added cannot be taken out again; empty if it can."""

    def add(self, kept: Any, value: Any, /) -> Any:
        raise NotImplementedError

    def remove(self, kept: Any, value: Any, /) -> Any:
        """Take a value out again."""
        raise NotImplementedError(self.stays)

    def merge(self, one: Any, other: Any, /) -> Any:
        """Put together what was kept of two sessions, the earlier one first."""
        raise NotImplementedError

    def finish(self, kept: Any) -> Any:
        """Return what users see; None is an aggregation to which nothing was added."""
        return kept


class Count(Aggregation, frozen=True):
    """How many values there were."""

    def add(self, kept: int | None, _value: Any, /) -> int:
        return 1 if kept is None else kept + 1

    def remove(self, kept: int, _value: Any, /) -> int:
        return kept - 1

    def merge(self, one: int, other: int, /) -> int:
        return one + other

    def finish(self, kept: int | None) -> int:
        return kept or 0


class Sum(Aggregation, frozen=True):
    """The sum, of whatever can be added."""

    def add(self, kept: Any, value: Any, /) -> Any:
        return +value if kept is None else kept + value  # +True is 1, and +"text" is refused

    def remove(self, kept: Any, value: Any, /) -> Any:
        return kept - value

    def merge(self, one: Any, other: Any, /) -> Any:
        return one + other


class Mean(Aggregation, frozen=True):
    """The arithmetic mean; sum and number are kept."""

    def add(self, kept: list[Any] | None, value: Any, /) -> list[Any]:
        return [+value, 1] if kept is None else [kept[0] + value, kept[1] + 1]

    def remove(self, kept: list[Any], value: Any, /) -> list[Any]:
        return [kept[0] - value, kept[1] - 1]

    def merge(self, one: list[Any], other: list[Any], /) -> list[Any]:
        return [one[0] + other[0], one[1] + other[1]]

    def finish(self, kept: list[Any] | None) -> Any:
        return None if kept is None else kept[0] / kept[1]


class Min(Aggregation, frozen=True):
    """The smallest value; of equal ones the first. NaN is smaller than nothing and is left out."""

    stays: ClassVar[str] = "only the smallest value is kept, so the next one would not be known"

    def add(self, kept: Any, value: Any, /) -> Any:
        if kept is None:
            return value if value == value else None  # NaN differs from itself
        return min(kept, value)

    def merge(self, one: Any, other: Any, /) -> Any:
        return min(one, other)


class Max(Aggregation, frozen=True):
    """The greatest value; of equal ones the first. NaN is greater than nothing and is left out."""

    stays: ClassVar[str] = "only the greatest value is kept, so the next one would not be known"

    def add(self, kept: Any, value: Any, /) -> Any:
        if kept is None:
            return value if value == value else None  # NaN differs from itself
        return max(kept, value)

    def merge(self, one: Any, other: Any, /) -> Any:
        return max(one, other)


class First(Aggregation, frozen=True):
    """The value that came first."""

    stays: ClassVar[str] = "only the first value is kept, so the next one would not be known"

    def add(self, kept: Any, value: Any, /) -> Any:
        return value if kept is None else kept

    def merge(self, one: Any, _other: Any, /) -> Any:
        return one


class Last(Aggregation, frozen=True):
    """The value that came last."""

    stays: ClassVar[str] = "only the last value is kept, so the one before would not be known"

    def add(self, _kept: Any, value: Any, /) -> Any:
        return value

    def merge(self, _one: Any, other: Any, /) -> Any:
        return other


class Collect(Aggregation, frozen=True):
    """All values, in the order in which they came; of equal ones the first is taken out."""

    def add(self, kept: list[Any] | None, value: Any, /) -> list[Any]:
        return [value] if kept is None else [*kept, value]

    def remove(self, kept: list[Any], value: Any, /) -> list[Any]:
        place = kept.index(value)
        return kept[:place] + kept[place + 1 :]

    def merge(self, one: list[Any], other: list[Any], /) -> list[Any]:
        return one + other

    def finish(self, kept: list[Any] | None) -> list[Any]:
        return kept or []


class CollectSet(Aggregation, frozen=True):
    """Each value once, in the order in which they first came; kept by its handle, or with None if it is its own."""

    stays: ClassVar[str] = "each value is kept once, so it would not be known whether another row has it"

    def add(self, kept: dict[Any, Any] | None, value: Any, /) -> dict[Any, Any]:
        handle = _handle(value)
        if kept is None:
            kept = {}
        return kept if handle in kept else {**kept, handle: None if handle is value else value}

    def merge(self, one: dict[Any, Any], other: dict[Any, Any], /) -> dict[Any, Any]:
        return one | {handle: value for handle, value in other.items() if handle not in one}

    def finish(self, kept: dict[Any, Any] | None) -> list[Any]:
        return [handle if value is None else value for handle, value in kept.items()] if kept else []


class CountDistinct(Aggregation, frozen=True):
    """How many different values there were, exactly; the handle of each is kept."""

    stays: ClassVar[str] = CollectSet.stays

    def add(self, kept: dict[Any, Any] | None, value: Any, /) -> dict[Any, Any]:
        handle = _handle(value)
        if kept is None:
            return {handle: None}
        return kept if handle in kept else {**kept, handle: None}

    def merge(self, one: dict[Any, Any], other: dict[Any, Any], /) -> dict[Any, Any]:
        return one | other

    def finish(self, kept: dict[Any, Any] | None) -> int:
        return len(kept or ())


class Top(Aggregation, frozen=True):
    """The ``n`` greatest values, the greatest first; of equal ones the first. ``ranked``: of pairs."""

    n: int
    ranked: bool = False
    stays: ClassVar[str] = "only the greatest values are kept, so the next one would not be known"

    def add(self, kept: list[Any] | None, value: Any, /) -> list[Any]:
        rank = value[0] if self.ranked else value
        ranks = [one[0] for one in kept or ()] if self.ranked else kept or []
        if len(ranks) == self.n and not rank > ranks[-1]:
            assert kept is not None
            return kept
        place = sum(1 for one in ranks if not rank > one)
        return [*(kept or ())[:place], value, *(kept or ())[place : self.n - 1]]

    def merge(self, one: list[Any], other: list[Any], /) -> list[Any]:
        for value in other:
            one = self.add(one, value)
        return one

    def finish(self, kept: list[Any] | None) -> list[Any]:
        return [value for _, value in kept or ()] if self.ranked else kept or []


class Quantile(Aggregation, frozen=True):
    """About the value that the share ``q`` of all values does not exceed, from a DDSketch of them.

    Values fall into buckets whose bounds grow by a constant factor, so that any value of a bucket stands for all of it
    with a relative error of ``QUANTILE_ERROR``. What is kept is the number of values in each bucket.
    """

    q: float

    def add(self, kept: dict[int, int] | None, value: Any, /) -> dict[int, int] | None:
        if value != value:  # NaN has no place among other numbers
            return kept
        bucket = _bucket(value)
        kept = kept or {}
        return {**kept, bucket: kept.get(bucket, 0) + 1}

    def remove(self, kept: dict[int, int] | None, value: Any, /) -> dict[int, int] | None:
        if value != value or kept is None:
            return kept
        bucket = _bucket(value)
        rest = {**kept, bucket: kept[bucket] - 1}
        return rest if rest[bucket] else {one: count for one, count in rest.items() if count}

    def merge(self, one: dict[int, int], other: dict[int, int], /) -> dict[int, int]:
        return one | {bucket: one.get(bucket, 0) + count for bucket, count in other.items()}

    def finish(self, kept: dict[int, int] | None) -> float | None:
        if not kept:
            return None
        left = self.q * (sum(kept.values()) - 1)
        for bucket in sorted(kept):
            left -= kept[bucket]
            if left < 0:
                return _middle(bucket)
        return _middle(max(kept))


class Counted(Aggregation, frozen=True):
    """An aggregation of rows that come and go: when the last value has gone, nothing is kept any more."""

    of: AnyAggregation

    def add(self, kept: list[Any] | None, value: Any, /) -> list[Any]:
        return [1, self.of.add(None, value)] if kept is None else [kept[0] + 1, self.of.add(kept[1], value)]

    def remove(self, kept: list[Any] | None, value: Any, /) -> list[Any] | None:
        return None if kept is None or kept[0] == 1 else [kept[0] - 1, self.of.remove(kept[1], value)]

    def finish(self, kept: list[Any] | None) -> Any:
        return self.of.finish(None if kept is None else kept[1])


class Several(Aggregation, frozen=True):
    """Several aggregations at once; a value is a list, of which each takes one item, unless it is null."""

    names: tuple[str, ...]
    parts: tuple[AnyAggregation, ...]
    places: tuple[int, ...]

    def add(self, kept: list[Any] | None, values: list[Any], /) -> list[Any]:
        kept = kept or [None] * len(self.parts)
        return [
            one if (value := values[place]) is None else part.add(one, value)
            for part, one, place in zip(self.parts, kept, self.places, strict=True)
        ]

    def remove(self, kept: list[Any] | None, values: list[Any], /) -> list[Any]:
        kept = kept or [None] * len(self.parts)
        return [
            one if (value := values[place]) is None else part.remove(one, value)
            for part, one, place in zip(self.parts, kept, self.places, strict=True)
        ]

    def merge(self, one: list[Any], other: list[Any], /) -> list[Any]:
        return [
            mine if theirs is None else theirs if mine is None else part.merge(mine, theirs)
            for part, mine, theirs in zip(self.parts, one, other, strict=True)
        ]

    def finish(self, kept: list[Any] | None) -> dict[str, Any]:
        kept = kept or [None] * len(self.parts)
        return {name: part.finish(one) for name, part, one in zip(self.names, self.parts, kept, strict=True)}


AnyAggregation: TypeAlias = (
    Count | Sum | Mean | Min | Max | First | Last | Collect | CollectSet | CountDistinct | Top | Quantile | Counted
    | Several
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


def finisher(ready: Aggregation, build: Callable[..., Any] | None = None) -> Callable[[Any], Any]:
    """Return what turns what is kept into what users see; ``build`` makes an object of several results."""
    finish = ready.finish
    if build is None:
        return lambda kept: None if kept is None else finish(kept)
    return lambda kept: None if kept is None else build(**finish(kept))


def _handle(value: Any) -> Any:
    """Text and whole numbers are their own handles; other values are told apart by their bytes, as True == 1 == 1.0."""
    kind = type(value)
    return value if kind is str or kind is int else encode_key(value)


def _bucket(value: Any) -> int:
    """Return the number of the bucket of a value; numbers of buckets are in the order of their values."""
    if value > 0:
        return _ZERO + math.ceil(math.log(value) / _LOG_GAMMA)
    return -_ZERO - math.ceil(math.log(-value) / _LOG_GAMMA) if value < 0 else 0


def _middle(bucket: int) -> float:
    """Return the value that is equally far from both bounds of a bucket, relative to them."""
    if bucket == 0:
        return 0.0
    size = 2 * math.exp((abs(bucket) - _ZERO) * _LOG_GAMMA) / (_GAMMA + 1)
    return size if bucket > 0 else -size
