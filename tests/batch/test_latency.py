from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.batch.latency import MAX_LATENCY_MS, LatencyHistogram

latencies = st.lists(st.integers(0, MAX_LATENCY_MS - 1), min_size=1, max_size=60)


def histogram_of(values: list[int]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for value in values:
        histogram = histogram.plus(value)
    return histogram


@given(latencies, st.floats(0, 1))
def test_a_quantile_is_within_a_bucket_of_the_exact_one(values: list[int], share: float) -> None:
    exact = sorted(values)[max(0, min(len(values) - 1, -(-share * len(values) // 1).__int__() - 1))]
    width = 10**0.25
    assert max(1, exact) / width * 0.999 <= histogram_of(values).quantile(share) <= max(1, exact) * width * 1.001


@given(latencies, latencies)
def test_merged_histograms_count_all_batches(left: list[int], right: list[int]) -> None:
    assert histogram_of(left).merged(histogram_of(right)) == histogram_of(left + right)


@given(latencies)
def test_every_batch_is_in_the_last_cumulative_bucket(values: list[int]) -> None:
    buckets = list(histogram_of(values).cumulative())
    assert buckets[-1][1] == len(values)
    assert all(count == sum(1 for value in values if max(1, value) <= end * 1.0001) for end, count in buckets[:3])
