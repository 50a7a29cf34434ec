"""A bucket of entries behaves like a plain dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.state.entries import Bucket, Position

TIMES = st.integers(0, 12)
POSITIONS = st.tuples(TIMES, st.integers(0, 2))


@given(st.lists(st.tuples(POSITIONS, st.sampled_from(["set", "delete", "remove", "move"]))), TIMES, TIMES)
def test_entries_are_found_by_position_and_by_time_range(
    changes: list[tuple[tuple[int, int], str]], low: int, high: int
) -> None:
    bucket, model = Bucket("k", b"sk", 0), dict[tuple[int, ...], int]()
    for number, (changed, change) in enumerate(changes):
        position: Position = changed
        entry = bucket.entry(position)
        assert bucket.find(position) is entry
        entry.value = number if change == "set" else None
        if change == "remove":
            bucket.remove(entry)
            assert bucket.find(position) is None
        model.pop(position, None)
        if change == "set":
            model[position] = number
        if change == "move":
            position = (position[0] + number % 5 - 2, 3 + number)
            bucket.move(entry, position)
            assert bucket.find(position) is entry
            entry.value = model[position] = number
    assert [entry.position for entry in bucket.entries] == sorted(entry.position for entry in bucket.entries)
    assert bucket.times == [entry.position[0] for entry in bucket.entries]
    expected = [(position, value) for position, value in sorted(model.items()) if low <= position[0] <= high]
    assert [(entry.position, entry.value) for entry in bucket.between(low, high)] == expected
