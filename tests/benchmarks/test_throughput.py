from dataclasses import replace

import pytest
from benchmarks.peers.running import Side
from benchmarks.peers.throughput import Sample, is_done

SIDE = Side("a side", "caching", "none", lambda _: [], quiet_seconds=5)
SAMPLES = [Sample(moment=100, ends=(3, 4), cpu_seconds=1)]


def has_read_all() -> bool:
    return True


def has_not_read_all() -> bool:
    return False


def test_a_side_that_has_read_all_records_is_done_when_it_is_quiet() -> None:
    assert not is_done(SIDE, SAMPLES, 104, has_read_all)
    assert is_done(SIDE, SAMPLES, 105, has_read_all)


def test_a_quiet_side_is_not_done_before_it_has_read_all_records() -> None:
    assert not is_done(SIDE, SAMPLES, 200, has_not_read_all)


def test_a_side_without_committed_offsets_is_done_when_it_is_quiet() -> None:
    side = replace(SIDE, commits=False, quiet_seconds=10)
    assert not is_done(side, SAMPLES, 105, has_not_read_all)
    assert is_done(side, SAMPLES, 110, has_not_read_all)


@pytest.mark.parametrize("commits", [True, False])
def test_a_side_is_not_done_before_its_first_count(commits: bool) -> None:
    assert not is_done(replace(SIDE, commits=commits), [], 200, has_read_all)


def test_a_slow_side_processes_a_limited_number_of_the_available_records() -> None:
    slow = replace(SIDE, max_records=50)
    assert [side.records(available) for side in (SIDE, slow) for available in (20, 80)] == [20, 80, 20, 50]
