"""A bucket of entries against a plain dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.state.entries import Bucket

TIMES = st.integers(0, 12)
PLACES = st.tuples(TIMES, st.integers(0, 2))


@given(st.lists(st.tuples(PLACES, st.sampled_from(["set", "delete", "drop", "move"]))), TIMES, TIMES)
def test_entries_are_found_by_place_and_by_stretches_of_time(
    changes: list[tuple[tuple[int, int], str]], low: int, high: int
) -> None:
    bucket, model = Bucket("k", b"sk", 0), dict[tuple[int, ...], int]()
    for number, (place, change) in enumerate(changes):
        at: tuple[int, ...] = place
        entry = bucket.entry(at)
        assert bucket.find(at) is entry
        entry.value = number if change == "set" else None
        if change == "drop":
            bucket.drop(entry)
            assert bucket.find(at) is None
        model.pop(at, None)
        if change == "set":
            model[at] = number
        if change == "move":
            at = (at[0] + number % 5 - 2, 3 + number)
            bucket.move(entry, at)
            assert bucket.find(at) is entry
            entry.value = model[at] = number
    assert [one.at for one in bucket.entries] == sorted(one.at for one in bucket.entries)
    assert bucket.times == [one.at[0] for one in bucket.entries]
    expected = [(at, value) for at, value in sorted(model.items()) if low <= at[0] <= high]
    assert [(one.at, one.value) for one in bucket.between(low, high)] == expected
