"""The counters of a suppression agree with the rows in its buffer, whatever batches the records arrive in."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.task.outcomes import Outcome, Row, outcome, workspace

from millstream import App, Config, until_time_limit
from millstream.state.segments import ENTRIES, INDEX, SEGMENT, STREAM_TIME, TIMESTAMP
from millstream.state.task import TaskState

BUFFER = "n.suppress.buffer"
_PLACE_SIZE = 8

RECORDS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"cc", b"ddd"]), st.none() | st.integers(0, 10**9), st.integers(0, 6)),
    min_size=1,
    max_size=40,
)


def run(
    records: list[tuple[bytes, int | None, int]],
    cuts: set[int],
    *,
    max_records: int | None,
    max_bytes: int | None,
    caching: bool,
) -> Outcome:
    app = App("test", config=Config(output_prefix="test-"))
    held_back = until_time_limit("10 ms", max_records=max_records, max_bytes=max_bytes)
    app.table("n", key=str, value=int, name="rows").suppress(held_back, name="n.suppress").to_stream().to("out")
    rows: list[Row] = []
    time = 0
    for key, value, step in records:
        time += step
        rows.append((key, None if value is None else b"%d" % value, time))
    ends = [0, *sorted(end for end in cuts if end < len(rows)), len(rows)]
    with workspace({"n": rows}) as space:
        return outcome(app, space, [{"n": offsets} for offsets in pairwise(ends)], caching=caching)


@given(
    records=RECORDS,
    cuts=st.sets(st.integers(1, 40), max_size=4),
    max_records=st.none() | st.integers(1, 4),
    max_bytes=st.none() | st.integers(60, 120),
    caching=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_counters_are_the_number_and_the_size_of_the_rows_held_back(
    records: list[tuple[bytes, int | None, int]],
    cuts: set[int],
    max_records: int | None,
    max_bytes: int | None,
    caching: bool,
) -> None:
    result = run(records, cuts, max_records=max_records, max_bytes=max_bytes, caching=caching)
    stored = result.state[BUFFER]
    entries = {key: value for key, value in stored.items() if key.startswith(ENTRIES)}
    names = [key[SEGMENT.size : -_PLACE_SIZE] for key in entries]
    size = sum(map(len, names)) + sum(len(value) - TIMESTAMP.size for value in entries.values())
    assert result.rows[BUFFER] == len(entries) == len([key for key in stored if key.startswith(INDEX)])
    assert number(stored, 1) == len(entries)
    assert number(stored, 2) == (0 if max_bytes is None else size)
    assert max_records is None or len(entries) <= max_records
    assert max_bytes is None or size <= max_bytes


def number(stored: dict[bytes, bytes], counter: int) -> int:
    (value,) = TIMESTAMP.unpack(stored[STREAM_TIME + b"%d" % counter])
    return int(value)


def suppressed(max_records: int | None = None, max_bytes: int | None = None) -> App:
    app = App("test", config=Config(output_prefix="test-"))
    table = app.table("n", key=str, value=int, name="rows")
    held_back = until_time_limit("1 h", max_records=max_records, max_bytes=max_bytes)
    table.suppress(held_back, name="n.suppress").to_stream().to("out")
    return app


ROWS: list[Row] = [(b"%d" % number, b"%d" % number, number) for number in range(6)]


def test_rows_are_counted_after_the_bounds_are_removed() -> None:
    """The counters stay on disk, and are not counted as rows."""
    with workspace({"n": ROWS}) as space:
        before = outcome(suppressed(max_records=9), space, [{"n": (0, 2)}], caching=False)
        after = outcome(suppressed(), space, [{"n": (2, 3)}], caching=False)
    assert (before.rows[BUFFER], after.rows[BUFFER]) == (2, 3)
    assert number(after.state[BUFFER], 1) == 3


@pytest.mark.parametrize("before", [{}, {"max_records": 9}])
@pytest.mark.parametrize("now", [{"max_records": 3}, {"max_bytes": 50}])
def test_bounds_that_are_added_later_include_what_is_held_back_already(
    before: dict[str, int], now: dict[str, int]
) -> None:
    with workspace({"n": ROWS}) as space:
        outcome(suppressed(**before), space, [{"n": (0, 4)}], caching=False)
        later = outcome(suppressed(**now), space, [{"n": (4, 6)}], caching=False)
    with workspace({"n": ROWS}) as space:
        always = outcome(suppressed(**now), space, [{"n": (0, 4)}, {"n": (4, 6)}], caching=False)
    assert later.rows[BUFFER] == always.rows[BUFFER] < 6
    assert [number(later.state[BUFFER], counter) for counter in (1, 2)] == [
        number(always.state[BUFFER], counter) for counter in (1, 2)
    ]


def test_the_counters_of_a_version_that_did_not_count_without_bounds_are_made_up_for() -> None:
    with workspace({"n": ROWS}) as space:
        outcome(suppressed(), space, [{"n": (0, 4)}], caching=False)
        (file,) = (space.directory / "test").rglob("data.mdb")
        state = TaskState(file.parent, (BUFFER,))
        assert any(key.startswith(STREAM_TIME + b"1") for key, _ in state.scan(BUFFER))
        state.update(lambda txn: [txn.delete(STREAM_TIME + b"%d" % n, db=state.database(BUFFER)) for n in (1, 2)])
        later = outcome(suppressed(max_records=3), space, [{"n": (4, 5)}], caching=False)
    assert later.rows[BUFFER] == 3
