"""The distribution of the latency of batches: counts in fixed buckets, which can be stored, added and exported."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

MAX_LATENCY_MS = 3_600_000
"""An older record was not sent recently: its timestamp is event time, or the app is catching up with the past."""

_BUCKETS_PER_DECADE = 4
_LAST = math.ceil(math.log10(MAX_LATENCY_MS) * _BUCKETS_PER_DECADE)


class LatencyHistogram(msgspec.Struct, frozen=True, kw_only=True):
    """How many batches had which latency; bucket ``n`` ends at ``10 ** (n / 4)`` milliseconds.

    >>> histogram = LatencyHistogram().plus(8).plus(90).plus(95)
    >>> histogram.count, round(histogram.quantile(0.5)), histogram.sum_ms
    (3, 65, 193)
    """

    counts: dict[int, int] = {}
    sum_ms: int = 0

    def plus(self, latency: int) -> LatencyHistogram:
        """Return the histogram with one more batch."""
        bucket = math.ceil(math.log10(max(1, latency)) * _BUCKETS_PER_DECADE)
        counts = {**self.counts, bucket: self.counts.get(bucket, 0) + 1}
        return LatencyHistogram(counts=counts, sum_ms=self.sum_ms + latency)

    def merged(self, other: LatencyHistogram) -> LatencyHistogram:
        """Return the sum of two histograms."""
        counts = dict(self.counts)
        for bucket, count in other.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        return LatencyHistogram(counts=counts, sum_ms=self.sum_ms + other.sum_ms)

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float:
        """Return a quantile in milliseconds, interpolated within its bucket; 0 if there are no batches."""
        rank, passed = share * self.count, 0
        for bucket, count in sorted(self.counts.items()):
            if passed + count >= rank and count:
                return _end_of(bucket - 1 + (rank - passed) / count)
            passed += count
        return 0.0

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield the end of each bucket in milliseconds, and how many batches were at most that slow."""
        passed = 0
        for bucket in range(_LAST + 1):
            passed += self.counts.get(bucket, 0)
            yield _end_of(bucket), passed


def _end_of(bucket: float) -> float:
    return math.pow(10.0, bucket / _BUCKETS_PER_DECADE)
