from collections import Counter

import pytest
from benchmarks.peers.counting import Tally, Update, deviation, totals


def test_a_count_replaces_the_previous_one() -> None:
    tally = Tally()
    for count in (1, 2, 5, 4):
        tally.add(Update(7, 0, count))
    assert (tally.counts, tally.total) == ({(7, 0): 4}, 4)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_a_count_can_be_retracted_before_or_after_the_new_one(order: tuple[int, ...]) -> None:
    updates = [Update(7, 0, 3, diff=1), Update(7, 0, 3, diff=-1), Update(7, 0, 8, diff=1)]
    tally = Tally()
    for number in order:
        tally.add(updates[number])
    assert (tally.counts, tally.total) == ({(7, 0): 8}, 8)


def test_each_sample_includes_the_updates_before_its_end_offsets() -> None:
    updates = [
        (0, 0, Update(1, 0, 1)),
        (0, 1, Update(1, 0, 2)),
        (0, 2, Update(1, 0, 3)),
        (1, 0, Update(2, 0, 10)),
        (1, 4, Update(2, 0, 20)),  # transaction markers occupy offsets
    ]
    rides, tally = totals(updates, [(1, 0), (2, 4), (3, 5)])
    assert rides == [1, 12, 23]
    assert tally.counts == {(1, 0): 3, (2, 0): 20}


def test_missing_rides_do_not_offset_extra_rides() -> None:
    expected = Counter({(1, 0): 6, (2, 0): 4})
    assert deviation({(1, 0): 5, (2, 0): 4, (3, 0): 2}, expected) == (0.1, 0.2)
    assert deviation(expected, expected) == (0, 0)
