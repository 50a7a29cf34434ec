"""Loops that process records in different ways agree: same results, errors, state and counts.

The innermost loops are written several times, because a call in them costs as much as the step itself: RecordLoop and
``record_by_record`` for single records, ``update`` of aggregations, and ``add`` for windows with prefetched entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.task.outcomes import Outcome, Row, outcome, workspace

from millstream import (
    App,
    Config,
    Processor,
    Record,
    Stream,
    count_of,
    hopping,
    mean_of,
    session,
    sum_of,
    tumbling,
    unlimited,
)
from millstream.operators import time_windows
from millstream.operators.session_counts import SessionCounter
from millstream.operators.spans import MIN_PREFETCH
from millstream.serdes import Json
from millstream.state import counted
from millstream.state.windows import WindowStore
from millstream.windows import Windows

Build = Callable[[Stream[Any, Any]], Any]
Records = list[tuple[int, int, int]]
"""Number of the key, value, and how far the timestamp is off a steady pace."""

DELAYS = st.sampled_from([0] * 20 + [-1, 1, 2, 4, 9, -5, -12, -40])  # few are late: otherwise nothing is prefetched
RECORDS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), DELAYS), min_size=2 * MIN_PREFETCH, max_size=120)


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Let a batch change stored counts in several parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counted, "_PART", 3)
        yield


def with_times(records: Records, *, null_keys: bool = False, null_values: bool = False) -> list[Row]:
    rows: list[Row] = []
    for number, (key, value, delay) in enumerate(records):
        is_null = null_keys and key == 0, null_values and value == 0
        time = 50 + number // 2 + delay
        rows.append((None if is_null[0] else b"k%d" % key, None if is_null[1] else b"%d" % value, time))
    return rows


def cut(topic: str, size: int, cuts: set[int]) -> list[dict[str, tuple[int, int]]]:
    """Return batches that end at the cuts."""
    ends = [0, *sorted(end for end in cuts if 0 < end < size), size]
    return [{topic: (start, stop)} for start, stop in pairwise(ends)]


def failing(key: str, aggregate: Any, value: int) -> Any:
    """Return the aggregate with a value, and fail for some."""
    if value == 7:
        raise ValueError(key)
    return [*(aggregate or []), value]


def failing_downstream(value: Any) -> Any:
    """Fail for some results: the order of errors shows whether results before an error were forwarded before it."""
    if "3" in str(value):
        raise ValueError(value)
    return value


def is_kept(count: int) -> bool:
    """Drop some rows of a table: readers get tombstones."""
    if count == 5:
        raise ValueError(count)
    return count % 4 != 1


def failing_row(key: Any, count: int) -> str:
    """Change the rows of a table, and fail for some."""
    if count == 6:
        raise ValueError(key)
    return f"{count} of {key}"


AGGREGATIONS: dict[str, Callable[[Any], Any]] = {
    "count": lambda groups: groups.count(name="results"),
    "reduce": lambda groups: groups.reduce(lambda old, new: old * 2 + new, name="results"),
    "aggregate with errors": lambda groups: groups.aggregate(list, failing, name="results"),
    "built-in": lambda groups: groups.agg(sum=sum_of(), mean=mean_of(), n=count_of(), name="results"),
    "changed rows": lambda groups: groups.count(name="results").filter(is_kept).map_values(failing_row),
    "several counts": lambda groups: groups.agg(n=count_of(), m=count_of(), name="results"),
}

WINDOWS: dict[str, Windows | None] = {
    "no windows": None,
    "tumbling": tumbling("20 ms", grace="10 ms"),
    "hopping": hopping("20 ms", every="5 ms", grace="10 ms"),
    "hopping, uneven": hopping("21 ms", every="14 ms", grace="30 ms"),
    "unlimited": unlimited(start=10),
}
SESSIONS = {"session": session(gap="3 ms", grace="40 ms"), "session without grace": session(gap="5 ms")}


def aggregated(windows: Windows | None, aggregation: str) -> Build:
    def build(stream: Stream[Any, Any]) -> None:
        groups: Any = stream.group_by_key()
        if windows is not None:
            groups = groups.windowed_by(windows, late_to="late")
        results = AGGREGATIONS[aggregation](groups).to_stream(lambda key, _: str(key))
        results.map_values(failing_downstream).to("out")

    return build


def run(
    name: str, build: Build, rows: list[Row], cuts: set[int], *, caching: bool, headers: bool = False, key: Any = str
) -> Outcome:
    app = App(name, config=Config(on_error="dead_letter", output_prefix=f"{name}-"))
    build(app.stream("n", key=key, value=int))
    with workspace({"n": rows}, headers=headers) as space:
        return outcome(app, space, cut("n", len(rows), cuts), caching=caching)


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("windows", WINDOWS)
@given(
    records=RECORDS,
    cuts=st.sets(st.integers(20, 100), max_size=1),
    caching=st.booleans(),
    special=st.sampled_from(["none"] * 5 + ["null keys", "null values", "headers"]),
)
@settings(max_examples=12, deadline=None)
def test_columns_and_single_records_give_the_same_results_state_and_counts(
    windows: str, aggregation: str, records: Records, cuts: set[int], caching: bool, special: str
) -> None:
    rows = with_times(records, null_keys=special == "null keys", null_values=special == "null values")
    build, options = aggregated(WINDOWS[windows], aggregation), {"caching": caching, "headers": special == "headers"}
    columns = run("columns", build, rows, cuts, **options)
    singly = run("singly", partial(one_by_one, build), rows, cuts, **options)
    assert columns == singly
    assert columns.records_in == len(rows)
    assert columns.rows["results"] == len([key for key in columns.state["results"] if not key.startswith(b"m.")])


@pytest.mark.parametrize("windows", ["tumbling", "hopping", "unlimited"])
def test_the_comparison_reaches_the_loop_with_prefetched_entries(windows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above could not fail for a loop that it never runs."""
    added: list[int] = []
    prefetched_loop = time_windows._prefetched_loop

    def counting(*arguments: Any) -> Any:
        add = prefetched_loop(*arguments)

        def counted(batch: Any, *rest: Any) -> None:
            added.append(len(batch.rows))
            add(batch, *rest)

        return counted

    count = WindowStore.count

    def counting_columns(store: WindowStore, keys: Any, *rest: Any) -> bool:
        was_possible = count(store, keys, *rest)
        added.extend([len(keys)] * was_possible)
        return was_possible

    monkeypatch.setattr(time_windows, "_prefetched_loop", counting)
    monkeypatch.setattr(WindowStore, "count", counting_columns)
    rows = with_times([(number % 5, number % 10, number % 3) for number in range(100)])
    for caching in (False, True):
        run("columns", aggregated(WINDOWS[windows], "count"), rows, set(), caching=caching)
        assert sum(added) == len(rows)
        added.clear()


KEYS: dict[str, Callable[[int], Any]] = {
    "text": lambda number: f"k{number}" * (number + 1),
    "text with line feeds": lambda number: "\n" * number + "é",
    "long text": lambda number: f"{number}" * 600,
    "numbers": lambda number: number * 100 - 200,
    "large numbers": lambda number: number * 2**62,
    "mixed": lambda number: number if number % 2 else str(number),
    "other": lambda number: [number, "a"] if number % 2 else float(number),
}


def counted_and_joined(windows: Windows | None, *, joins: bool) -> Build:
    """Count; with ``joins`` the table is read by each record, before it is counted."""

    def build(stream: Stream[Any, Any]) -> None:
        groups: Any = stream.group_by_key()
        if windows is not None:
            groups = groups.windowed_by(windows)
        table = groups.count(name="results")
        table.to_stream(lambda key, _: str(key)).to("out")
        if joins and windows is None:
            stream.join(table, lambda value, count: f"{value} {count}").to("joined")

    return build


@pytest.mark.parametrize("windows", [*WINDOWS, *SESSIONS])
@pytest.mark.parametrize("keys", KEYS)
@given(records=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), DELAYS), min_size=70, max_size=90))
@settings(max_examples=2, deadline=None)
def test_counts_by_columns_agree_with_counts_by_record_for_all_kinds_of_keys(
    windows: str, keys: str, records: Records
) -> None:
    rows: list[Row] = [
        (msgspec.json.encode(KEYS[keys](number)), value, time)
        for (number, _, _), (_, value, time) in zip(records, with_times(records), strict=True)
    ]
    options: dict[str, Any] = {"caching": True, "key": Json()}
    cuts = {66}  # the second batch adds to what is stored
    for joins in (False, True):
        build = counted_and_joined((WINDOWS | SESSIONS)[windows], joins=joins)
        columns = run("columns", build, rows, cuts, **options)
        singly = run("singly", partial(one_by_one, build), rows, cuts, **options)
        assert columns == singly


@pytest.mark.parametrize("windows", SESSIONS)
@given(
    records=RECORDS,
    cuts=st.sets(st.integers(20, 100), max_size=2),
    is_in_order=st.sampled_from([True, True, False]),
    special=st.sampled_from(["none"] * 5 + ["null keys", "null values", "headers"]),
)
@settings(max_examples=40, deadline=None)
def test_sessions_counted_by_columns_agree_with_those_counted_one_by_one(
    windows: str, records: Records, cuts: set[int], is_in_order: bool, special: str
) -> None:
    rows = with_times(records, null_keys=special == "null keys", null_values=special == "null values")
    if is_in_order:
        times = sorted(time for _, _, time in rows)
        rows = [(key, value, time) for (key, value, _), time in zip(rows, times, strict=True)]
    build, options = counted_and_joined(SESSIONS[windows], joins=False), {"headers": special == "headers"}
    columns = run("columns", build, rows, cuts, caching=True, **options)
    assert columns == run("singly", partial(one_by_one, build), rows, cuts, caching=True, **options)


def test_the_comparison_reaches_the_columns_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    take = SessionCounter._take

    def counting(counter: SessionCounter) -> Any:
        results = take(counter)
        counted.extend([] if results is None else results.values)
        return results

    monkeypatch.setattr(SessionCounter, "_take", counting)
    rows: list[Row] = [(b"k%d" % (number % 5), b"1", 50 + 2 * number) for number in range(200)]
    build = counted_and_joined(session(gap="10 ms"), joins=False)
    run("columns", build, rows, {100}, caching=True)
    assert counted == [20] * 5 + [None, 40] * 5  # the sessions of the first batch are replaced


def one_by_one(build: Build, stream: Stream[Any, Any]) -> Any:
    """Build on a stream whose records are processed one by one, since a function takes the context."""
    return build(stream.filter(lambda _k, _v, _c: True))


class Quiet(Processor):
    """Does nothing; timers are in use because it is there."""

    def process(self, record: Record) -> None:
        pass


ENTRIES: dict[str, Callable[[App], Stream[Any, Any]]] = {
    "one loop for all inputs": lambda app: read(app, "a", "b").filter(lambda _k, _v, _c: True),
    "interleaved inputs": lambda app: (
        read(app, "a").filter(lambda _k, _v, _c: True).merge(read(app, "b").filter(lambda _k, _v, _c: True))
    ),
    "with timers": lambda app: with_timers(read(app, "a", "b").filter(lambda _k, _v, _c: True)),
    "columns": lambda app: read(app, "a", "b").filter(lambda _: True),
    "columns of the input": lambda app: read(app, "a", "b"),
}

TAILS: dict[str, Build] = {
    "records": lambda stream: stream,
    "count": lambda stream: stream.group_by_key().count().to_stream(),
    "tumbling": lambda stream: stream.group_by_key().windowed_by(tumbling("20 ms")).count().to_stream(),
    "hopping": lambda stream: stream.group_by_key().windowed_by(hopping("20 ms", every="5 ms")).count().to_stream(),
    "final": lambda stream: (
        stream.group_by_key().windowed_by(tumbling("20 ms", grace="9 ms")).emit("final").count().to_stream()
    ),
}


def read(app: App, *topics: str) -> Stream[Any, Any]:
    return app.stream(*topics, key=str, value=int)


def with_timers(stream: Stream[Any, Any]) -> Stream[Any, Any]:
    stream.process(Quiet)
    return stream


@pytest.mark.parametrize("tail", TAILS)
@given(
    first=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), DELAYS), max_size=60),
    second=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), DELAYS), min_size=1, max_size=60),
)
@settings(max_examples=12, deadline=None)
def test_all_record_loops_advance_row_and_stream_time_alike(tail: str, first: Records, second: Records) -> None:
    """``context.row`` is the loop variable of each loop, so the context shows whether it points at the right record."""
    topics = {"a": with_times(first), "b": with_times(second)}
    offsets = {topic: (0, len(rows)) for topic, rows in topics.items() if rows}
    results: dict[str, Any] = {}
    with workspace(topics) as space:
        for number, (entry, build) in enumerate(ENTRIES.items()):
            seen: list[tuple[Any, ...]] = []

            def record(key: Any, value: Any, context: Any, seen: list[tuple[Any, ...]] = seen) -> None:
                seen.append((str(key), value, context.topic, context.offset, context.timestamp, context.stream_time))

            app = App(f"entry-{number}")
            TAILS[tail](build(app)).peek(record)
            result = outcome(app, space, [offsets], caching=False)
            results[entry] = seen, result.records_in, result.stream_time, result.dropped
    for entry, result in results.items():
        assert result == results["one loop for all inputs"], entry
    assert results["columns"][1] == len(first) + len(second)
    assert results["columns"][2] == max(time for rows in topics.values() for _, _, time in rows)
