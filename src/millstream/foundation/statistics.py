"""Aggregations of statistics: variance and standard deviation, correlation, and counts by value."""

from __future__ import annotations

import math
from typing import Any, Literal

from millstream.foundation.aggregation import Aggregation


class Moments(Aggregation, frozen=True):
    """Variance or standard deviation, of a sample or of all values; the state is count, sum and sum of squares."""

    result: Literal["var_samp", "var_pop", "stddev_samp", "stddev_pop"]

    def add(self, state: list[Any] | None, value: Any, /) -> list[Any]:
        count, total, squares = state or (0, 0, 0)
        return [count + 1, total + value, squares + value * value]

    def remove(self, state: list[Any], value: Any, /) -> list[Any]:
        count, total, squares = state
        return [count - 1, total - value, squares - value * value]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        return [mine + its for mine, its in zip(earlier, later, strict=True)]

    def finish(self, state: list[Any] | None) -> float:
        count, total, squares = state or (0, 0, 0)
        divisor = count - 1 if self.result.endswith("samp") else count
        if divisor < 1:
            return 0.0
        variance = max(0.0, float(squares - total * total / count) / divisor)
        return math.sqrt(variance) if self.result.startswith("stddev") else variance


class Correlation(Aggregation, frozen=True):
    """Pearson's correlation of pairs; the state is count, sums, sums of squares and sum of products."""

    def add(self, state: list[Any] | None, value: list[Any], /) -> list[Any]:
        return self._changed(state, value, 1)

    def remove(self, state: list[Any], value: list[Any], /) -> list[Any]:
        return self._changed(state, value, -1)

    @staticmethod
    def _changed(state: list[Any] | None, value: list[Any], sign: int) -> list[Any]:
        x, y = value
        if x is None or y is None:
            return state or [0, 0, 0, 0, 0, 0]
        change = (1, x, y, x * x, y * y, x * y)
        return [sum_ + sign * part for sum_, part in zip(state or (0,) * 6, change, strict=True)]

    def merge(self, earlier: list[Any], later: list[Any], /) -> list[Any]:
        return [mine + its for mine, its in zip(earlier, later, strict=True)]

    def finish(self, state: list[Any] | None) -> float:
        count, x, y, xx, yy, xy = map(float, state or (0,) * 6)
        spread = (count * xx - x * x) * (count * yy - y * y)
        return math.nan if spread <= 0 else (count * xy - x * y) / math.sqrt(spread)


class Histogram(Aggregation, frozen=True):
    """How often each text occurs; of at most ``limit`` different texts."""

    limit: int

    def add(self, state: dict[str, int] | None, value: str, /) -> dict[str, int]:
        state = state or {}
        if value not in state and len(state) >= self.limit:
            return state
        return {**state, value: state.get(value, 0) + 1}

    def remove(self, state: dict[str, int] | None, value: str, /) -> dict[str, int]:
        counts = {**(state or {}), value: (state or {}).get(value, 1) - 1}
        return {text: count for text, count in counts.items() if count}

    def merge(self, earlier: dict[str, int], later: dict[str, int], /) -> dict[str, int]:
        merged = earlier | {text: earlier.get(text, 0) + count for text, count in later.items()}
        return dict(list(merged.items())[: self.limit])

    def finish(self, state: dict[str, int] | None) -> dict[str, int]:
        return state or {}
