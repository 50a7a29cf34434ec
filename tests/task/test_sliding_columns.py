"""Sliding windows counted by columns give what records give that are added one by one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.task.outcomes import Row
from tests.task.test_loops_agree import KEYS, Build, one_by_one, run

from millstream import Stream, count_of, sliding
from millstream.operators import collected
from millstream.operators.sliding_counts import SlidingCounter
from millstream.serdes import Json
from millstream.windows import SlidingWindows


@pytest.fixture(autouse=True, scope="module")
def small_batches() -> Iterator[None]:
    """Use columns for few records too, so that batches meet windows that columns have stored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collected, "_MIN_RECORDS", 2)
        yield


WINDOWS = {
    "usual": sliding("10 ms", grace="40 ms"),
    "longer than the data": sliding("1 min", grace="5 s"),
    "without grace": sliding("7 ms"),
    "short": sliding("1 ms", grace="30 ms"),
}
PACES = st.sampled_from([1, 3, 20])
STEPS = st.sampled_from([0, 0, 1, 1, 2, 3, 6, 7, 8, 10, 11, 21, 70_000])
DELAYS = st.sampled_from([0] * 30 + [1, 2, 9, 10, 11, 20])


@st.composite
def rows_of(draw: Any, start: int) -> list[Row]:
    """Return records whose times mostly grow: with repeated times, gaps, and some out of order."""
    steps = draw(st.lists(st.tuples(st.integers(0, 3), STEPS, DELAYS), min_size=8, max_size=60))
    has_delays, time, rows = draw(st.booleans()), start, list[Row]()
    pace = draw(PACES)
    for number, (key, step, delay) in enumerate(steps):
        time += step if number % pace == 0 and (step < 1000 or number % 20 == 0) else 0
        rows.append((b"k%d" % key, b"1", max(0, time - delay * has_delays)))
    return rows


def counted(windows: SlidingWindows, *, several: bool = False) -> Build:
    def build(stream: Stream[Any, Any]) -> None:
        groups = stream.group_by_key().windowed_by(windows)
        table = groups.agg(n=count_of(), m=count_of(), name="results") if several else groups.count(name="results")
        table.to_stream(lambda key, _: f"{key.key}@{key.start}-{key.end}").to("out")

    return build


@pytest.mark.parametrize("windows", WINDOWS)
@given(rows=rows_of(start=70_000), cuts=st.sets(st.integers(2, 50), max_size=4), several=st.booleans())
@settings(max_examples=60, deadline=None)
def test_columns_and_single_records_agree(windows: str, rows: list[Row], cuts: set[int], several: bool) -> None:
    build = counted(WINDOWS[windows], several=several)
    columns = run("columns", build, rows, cuts, caching=True)
    assert columns == run("singly", partial(one_by_one, build), rows, cuts, caching=True)


@given(rows=rows_of(start=0), cuts=st.sets(st.integers(2, 50), max_size=2))
@settings(max_examples=10, deadline=None)
def test_records_that_are_earlier_than_a_window_is_long(rows: list[Row], cuts: set[int]) -> None:
    build = counted(WINDOWS["usual"])
    columns = run("columns", build, rows, cuts, caching=True)
    assert columns == run("singly", partial(one_by_one, build), rows, cuts, caching=True)


@pytest.mark.parametrize("cuts", [set[int](), {2}])
def test_a_record_does_not_see_a_window_that_has_just_expired(cuts: set[int]) -> None:
    """The last record would find the window that ends at the first one, had the third one not advanced time so far."""
    times = [("k0", 100), ("k1", 106), ("k1", 107), ("k0", 107)]
    rows: list[Row] = [(key.encode(), b"1", time) for key, time in times]
    build = counted(WINDOWS["without grace"])
    columns = run("columns", build, rows, cuts, caching=True)
    assert columns == run("singly", partial(one_by_one, build), rows, cuts, caching=True)


def test_keys_with_late_records_are_counted_one_by_one() -> None:
    rows: list[Row] = [(b"k%d" % (number % 3), b"1", 100 + number) for number in range(60)]
    late = ("k0", 105), ("k1", 95), ("k8", 105), ("k9", 95)  # some windows have closed, and all
    rows[50:50] = [(key.encode(), b"1", time) for key, time in late]
    build = counted(WINDOWS["usual"])
    columns = run("columns", build, rows, {20}, caching=True)
    assert columns == run("singly", partial(one_by_one, build), rows, {20}, caching=True)
    assert columns.dropped == {"late": 5}


@pytest.mark.parametrize("keys", KEYS)
def test_all_kinds_of_keys(keys: str) -> None:
    rows: list[Row] = [
        (msgspec.json.encode(KEYS[keys](number % 5)), b"1", 100 + number * number % 7 + number) for number in range(150)
    ]
    build = counted(WINDOWS["usual"])
    columns = run("columns", build, rows, {75}, caching=True, key=Json())
    assert columns == run("singly", partial(one_by_one, build), rows, {75}, caching=True, key=Json())


def test_the_comparison_reaches_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above could not fail for columns that are never used."""
    sizes: list[int] = []
    counted_windows, added_singly = SlidingCounter._counted, SlidingCounter._added_singly

    def counting(counter: Any, *arguments: Any) -> Any:
        results = counted_windows(counter, *arguments)
        sizes.append(len(results.keys))
        return results

    def counting_singly(counter: Any, *arguments: Any) -> Any:
        changed = added_singly(counter, *arguments)
        sizes.append(-len(changed))
        return changed

    monkeypatch.setattr(SlidingCounter, "_counted", counting)
    monkeypatch.setattr(SlidingCounter, "_added_singly", counting_singly)
    rows: list[Row] = [(b"k%d" % (number % 5), b"1", 50 + 2 * number) for number in range(200)]
    rows[50] = (b"k0", b"1", 130)
    run("columns", counted(WINDOWS["usual"]), rows, {100}, caching=True)
    assert sizes == [-36, 156, 0, 200]
