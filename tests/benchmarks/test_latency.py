from benchmarks.peers.latency import latencies, percentiles

NEVER = float("inf")


def test_latency_ends_with_the_first_count_that_includes_the_ride() -> None:
    sent = {(1, 0): [(10.0, True), (11.0, True), (12.0, False), (13.0, True)]}
    assert latencies(sent, {(1, 0): [(20.0, 2), (30.0, 4)]}) == [10, 9, 17]


def test_a_retracted_count_is_ignored() -> None:
    sent = {(1, 0): [(10.0, True), (11.0, True), (12.0, True)]}
    assert latencies(sent, {(1, 0): [(20.0, 1), (30.0, 3), (30.0, 1)]}) == [10, 19, 18]


def test_rides_that_were_never_seen_have_infinite_latency() -> None:
    sent = {(1, 0): [(10.0, True), (11.0, True)], (2, 0): [(12.0, True)]}
    measured = latencies(sent, {(1, 0): [(20.0, 1)]})
    assert measured == [10, NEVER, NEVER]
    assert percentiles(measured) == {"p50_ms": None, "p95_ms": None, "p99_ms": None}
    assert percentiles([0.001] * 97 + [NEVER] * 3) == {"p50_ms": 1, "p95_ms": 1, "p99_ms": None}
