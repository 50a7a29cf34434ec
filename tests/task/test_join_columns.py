"""Streams that are joined by columns give what records give that are joined one by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.task.outcomes import Outcome, Row, outcome, workspace
from tests.task.test_loops_agree import KEYS

from millstream import App, Config, JoinWindow, Stream, join_window
from millstream.operators import join_columns
from millstream.operators.join_columns import JoinColumns
from millstream.serdes import Json

WINDOWS = {
    "both ways": join_window("5 ms", grace="10 ms"),
    "later only": join_window(before="0 ms", after="20 ms"),
    "moved": join_window(before=timedelta(milliseconds=-2), after="9 ms", grace="3 ms"),
    "no longer than the records": join_window("1 min"),
}
STEPS = st.sampled_from([0, 0, 0, 1, 1, 2, 4, 5, 6, 30])
DELAYS = st.sampled_from([0] * 12 + [1, 4, 5, 12, 40])


@st.composite
def rows_of(draw: Any) -> list[Row]:
    """Return records whose times mostly grow, some of them without key or value."""
    size, has_delays, time, rows = draw(st.integers(1, 60)), draw(st.booleans()), 100, list[Row]()
    has_nulls = draw(st.sampled_from([False, False, False, True]))
    for number in range(size):
        key, step, delay = draw(st.integers(0, 3)), draw(STEPS), draw(DELAYS)
        time += step
        is_null = has_nulls and number % 25 == 24
        value = None if is_null and number % 2 else b"%d" % (number % 10)
        rows.append((None if is_null and not number % 2 else b'"k%d"' % key, value, time - delay * has_delays))
    return rows


@pytest.fixture(autouse=True, scope="module")
def small_batches() -> Iterator[None]:
    """Use columns for few records and few pairs too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_columns, "_MIN_RECORDS", 2)
        patch.setattr(join_columns, "_MAX_PAIRS", 7)
        yield


def joined(left: int, right: int) -> str:
    """Fail for some pairs."""
    if left == right == 3:
        raise ValueError(left)
    return f"{left} {right}"


def failing(text: str) -> str:
    if text == "4 5":
        raise ValueError(text)
    return text


def run(
    name: str,
    within: JoinWindow,
    topics: dict[str, list[Row]],
    cuts: set[int],
    *,
    singly: bool,
    by_key: bool = False,
    headers: bool = False,
) -> Outcome:
    app = App(name, config=Config(on_error="dead_letter", output_prefix=f"{name}-"))

    def read(topic: str) -> Stream[Any, int]:
        stream: Stream[Any, int] = app.stream(topic, key=Json(), value=int)
        return stream.filter(lambda _k, _v, _c: True) if singly else stream

    joiner: Any = (lambda key, left, right: f"{key} {joined(left, right)}") if by_key else joined
    pairs = read("left").join(read("right"), joiner, within=within, late_to="late", name="pairs")
    pairs.map_values(failing).map(lambda key, value: (str(key), value)).to("out")
    ends = {topic: [0, *sorted(end for end in cuts if end < len(rows)), len(rows)] for topic, rows in topics.items()}
    size = max(map(len, ends.values()))
    padded = {topic: [*stops, *[stops[-1]] * (size - len(stops))] for topic, stops in ends.items()}
    batches = [dict(zip(padded, ranges, strict=True)) for ranges in zip(*map(pairwise, padded.values()), strict=True)]
    batches = [{topic: span for topic, span in batch.items() if span[0] < span[1]} for batch in batches]
    with workspace(topics, headers=headers) as space:
        return outcome(app, space, [batch for batch in batches if batch], caching=False)


@pytest.mark.parametrize("window", WINDOWS)
@given(
    left=rows_of(),
    right=rows_of(),
    cuts=st.sets(st.integers(1, 50), max_size=4),
    by_key=st.booleans(),
    headers=st.sampled_from([False, False, True]),
)
@settings(max_examples=40, deadline=None)
def test_columns_and_single_records_agree(
    window: str, left: list[Row], right: list[Row], cuts: set[int], by_key: bool, headers: bool
) -> None:
    topics, options = {"left": left, "right": right}, {"by_key": by_key, "headers": headers}
    columns = run("columns", WINDOWS[window], topics, cuts, singly=False, **options)
    assert columns == run("singly", WINDOWS[window], topics, cuts, singly=True, **options)


@pytest.mark.parametrize("keys", KEYS)
def test_all_kinds_of_keys(keys: str) -> None:
    topics: dict[str, list[Row]] = {
        topic: [
            (msgspec.json.encode(KEYS[keys](number % 5)), b"%d" % number, 100 + number // 2) for number in range(90)
        ]
        for topic in ("left", "right")
    }
    columns = run("columns", WINDOWS["both ways"], topics, {40}, singly=False)
    assert columns == run("singly", WINDOWS["both ways"], topics, {40}, singly=True)


def test_the_comparison_reaches_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above could not fail for columns that are never used."""
    sizes: list[int] = []
    join = JoinColumns._join

    def counting(columns: Any, batch: Any, pairs: Any, forward: Any) -> None:
        sizes.append(len(pairs.rows))
        join(columns, batch, pairs, forward)

    monkeypatch.setattr(JoinColumns, "_join", counting)
    topics: dict[str, list[Row]] = {
        topic: [(b'"k%d"' % (number % 5), b"%d" % (number % 3), 100 + number) for number in range(90)]
        for topic in ("left", "right")
    }
    result = run("columns", WINDOWS["both ways"], topics, {40}, singly=False)
    assert sum(sizes) == len(result.outputs["out"]) == 90 + 2 * 85
