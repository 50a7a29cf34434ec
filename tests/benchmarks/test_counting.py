from collections import Counter

import pytest
from benchmarks.peers.counting import Tally, Update, faults, totals


def test_a_count_replaces_the_one_before() -> None:
    tally = Tally()
    for count in (1, 2, 5, 4):
        tally.add(Update(7, 0, count))
    assert (tally.counts, tally.total) == ({(7, 0): 4}, 4)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_a_count_that_is_taken_back_is_gone_wherever_it_stands_beside_the_new_one(order: tuple[int, ...]) -> None:
    updates = [Update(7, 0, 3, diff=1), Update(7, 0, 3, diff=-1), Update(7, 0, 8, diff=1)]
    tally = Tally()
    for number in order:
        tally.add(updates[number])
    assert (tally.counts, tally.total) == ({(7, 0): 8}, 8)


def test_each_look_has_what_was_before_the_ends_it_saw() -> None:
    updates = [
        (0, 0, Update(1, 0, 1)),
        (0, 1, Update(1, 0, 2)),
        (0, 2, Update(1, 0, 3)),
        (1, 0, Update(2, 0, 10)),
        (1, 4, Update(2, 0, 20)),  # marks of transactions take up offsets
    ]
    seen, tally = totals(updates, [(1, 0), (2, 4), (3, 5)])
    assert seen == [1, 12, 23]
    assert tally.counts == {(1, 0): 3, (2, 0): 20}


def test_what_is_missing_does_not_make_up_for_what_is_too_much() -> None:
    expected = Counter({(1, 0): 6, (2, 0): 4})
    assert faults({(1, 0): 5, (2, 0): 4, (3, 0): 2}, expected) == (0.1, 0.2)
    assert faults(expected, expected) == (0, 0)
