from dataclasses import replace

import pytest
from benchmarks.peers.running import Side
from benchmarks.peers.throughput import Look, is_done

SIDE = Side("a side", "caching", "none", lambda _: [], quiet_seconds=5)
LOOKS = [Look(moment=100, ends=(3, 4), processor=1)]


def read_all() -> bool:
    return True


def not_yet() -> bool:
    return False


def test_a_side_that_has_read_all_is_done_when_it_is_silent() -> None:
    assert not is_done(SIDE, LOOKS, 104, read_all)
    assert is_done(SIDE, LOOKS, 105, read_all)


def test_silence_is_a_pause_while_there_is_more_to_read() -> None:
    assert not is_done(SIDE, LOOKS, 200, not_yet)


def test_a_side_that_does_not_tell_what_it_has_read_is_taken_by_its_silence() -> None:
    side = replace(SIDE, commits=False, quiet_seconds=10)
    assert not is_done(side, LOOKS, 105, not_yet)
    assert is_done(side, LOOKS, 110, not_yet)


@pytest.mark.parametrize("commits", [True, False])
def test_silence_before_the_first_count_is_the_start(commits: bool) -> None:
    assert not is_done(replace(SIDE, commits=commits), [], 200, read_all)


def test_a_slow_side_takes_fewer_records_but_never_more_than_there_are() -> None:
    slow = replace(SIDE, most_records=50)
    assert [side.records(given) for side in (SIDE, slow) for given in (20, 80)] == [20, 80, 20, 50]
