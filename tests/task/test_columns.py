"""Steps that process column batches give the same results, state and counts as with single records."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import pytest
from msgspec import Raw
from tests.task.outcomes import Outcome, Row, Workspace, outcome, rows, workspace

from millstream import (
    App,
    Config,
    Processor,
    Record,
    Stream,
    Table,
    collect_of,
    count_of,
    hopping,
    mean_of,
    session,
    sliding,
    tumbling,
    unlimited,
)  # fmt: skip
from millstream.broker import Output
from millstream.errors import ProcessingError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.plan.select import CompiledSelection, NoteError, SelectRekeyed
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.runner import run_task
from millstream.task.task_input import Range, TaskInput
from millstream.windows import Windows

MakeEnv = Callable[..., TaskEnvironment]
Chain = Callable[[Stream], Any]
OnError = Literal["dead_letter", "fail"]


def failing_at(remainder: int, error: type[Exception] = ValueError) -> Callable[[Any, Any], None]:
    """Return a check that raises for the keys (``k3``) whose number modulo 11 is ``remainder``."""

    def check(key: Any, _value: Any) -> None:
        if key is not None and int(str(key)[1:]) % 11 == remainder:
            raise error("no")

    return check


def flaky(check: Callable[[Any, Any], None], result: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(key: Any, value: Any) -> Any:
        check(key, value)
        return result(key, value)

    return function


def no_pair(key: Any, value: int) -> Any:
    return 5 if key == "k4" else (f"k{value % 10}", value)


def two_readers(stream: Stream) -> None:
    counts = stream.group_by_key().count()
    counts.to_stream().to("out")
    counts.to_stream().map_values(lambda n: -n).to("out")


def independent_readers(stream: Stream) -> None:
    """Each reader gets whole column batches; stream time must start from the first record for each of them."""
    grouped = stream.group_by_key()
    grouped.windowed_by(tumbling("100 ms"), late_to="late").count(name="windows").to_stream().to("windows")
    stream.filter(lambda n: n % 3).map_values(lambda _key, n, context: [n, context.offset]).to("offsets")
    stream.map_values(flaky(failing_at(2), lambda _, n: n + 1)).group_by_key().max(name="most").to_stream().to("out")
    session_windows = grouped.windowed_by(session(gap="20 ms", grace="100 ms")).emit("final")
    session_windows.agg(values=collect_of(), name="sessions").to_stream().to("sessions")


def readers_of_one_topic(stream: Stream) -> None:
    """The results of a record stay together."""
    stream.filter(lambda n: n % 2).to("out")
    stream.map_values(lambda n: -n).to("out")
    stream.group_by_key().count(name="seen").to_stream().to("out")


def readers_of_a_computed_topic(stream: Stream) -> None:
    """A computed topic may be the one that another reader writes to."""
    stream.filter(lambda n: n % 2).to("out")
    stream.map_values(lambda n: -n).to(lambda n: "out" if n % 3 else "other")


class RepeatedValues:
    """A selection that repeats values; some records get no key, and some of these fail."""

    query = "repeated"
    replaces_values = True

    def expression_of(self, part: str) -> str:
        return part

    def compile(self, *, structs: bool = False) -> CompiledSelection:
        assert not structs
        return CompiledSelection(None, self._keys, None, self._explode, skips_null_keys=True)

    def _keys(self, _keys: Sequence[Any], values: Sequence[Any], _times: Sequence[int], _note: NoteError) -> list[Any]:
        return [f"k{n % 7}" if n % 3 else None for n in values]

    def _explode(self, _keys: Sequence[Any], values: Sequence[Any], _times: Sequence[int], note: NoteError) -> Any:
        for row, n in enumerate(values):
            if n % 5 == 0:
                note("x", ValueError(n), row)
        return [[n] * (n % 4) for n in values]


def selected(stream: Stream) -> None:
    Stream(stream._draft, SelectRekeyed(source=stream._node, selection=RepeatedValues(), name="picked")).to("out")


def values_changed_later(stream: Stream) -> None:
    """The first reader changes the value of an earlier record; the second one must not see that."""
    lists = stream.map_values(lambda n: [n])
    lists.group_by_key().reduce(append_all, name="all").to_stream().to("all")
    lists.map_values(len).to("out")


def append_all(seen: list[int], more: list[int]) -> list[int]:
    seen.extend(more)
    return seen


def joined_with_itself(counts: Table) -> None:
    """Join each result with the table as it is at that moment."""
    counts.to_stream().join(counts, lambda result, row: [result, row]).to("out")


def collected(windows: Windows) -> Chain:
    """Collect values in windows; some keys fail."""

    def chain(stream: Stream) -> None:
        grouped = stream.group_by_key().windowed_by(windows)
        grouped.aggregate(
            list,
            lambda key, seen, n: flaky(failing_at(2), lambda _k, n: [*seen, n])(key, n),
            merge=lambda _, a, b: a + b,
        ).to_stream().map(lambda window, seen: (f"k{window.start}", [window.key, seen])).to("out")

    return chain


CHAINS: dict[str, Chain] = {
    "filter": lambda s: s.filter(lambda n: n % 3).filter_not(lambda n: n % 5 == 0).to("out"),
    "errors at each step": lambda s: (
        s.filter(flaky(failing_at(1), lambda _, n: n > 3))
        .map_values(flaky(failing_at(2), lambda _, n: n + 1))
        .select_key(flaky(failing_at(3, StopIteration), lambda _, n: f"k{n}"))
        .map_values(flaky(failing_at(4), lambda _, n: n * 2))
        .to("out")
    ),
    "results that are not pairs": lambda s: s.map(no_pair).to("out"),
    "flat maps": lambda s: (
        s.flat_map_values(flaky(failing_at(5), lambda _, n: [n] * (n % 3)))
        .flat_map(flaky(failing_at(6, StopIteration), lambda key, n: [(key, n), (f"k{n % 7}", -n)]))
        .to("out")
    ),
    "values that cannot be encoded": lambda s: s.map_values(lambda n: n if n % 4 else object()).to("out"),
    "raw JSON": lambda s: s.map_values(lambda n: Raw(b"[%d,\n%d]" % (n, n))).to("out"),
    "tombstones among values": lambda s: s.map_values(lambda n: n if n % 4 else None).to("out"),
    "too large for the topic": lambda s: s.map_values(lambda n: "x" * (2_000_000 if n % 10 == 0 else 3)).to("out"),
    "a step with context": lambda s: s.filter(lambda n: n % 2).map_values(lambda k, n, c: [n, c.offset]).to("out"),
    "an action": lambda s: s.filter(lambda n: n % 2).peek(failing_at(7)).map_values(lambda n: n + 1).to("out"),
    "two readers": lambda s: s.filter(lambda n: n % 2).merge(s.map_values(lambda n: -n)).to("out"),
    "independent readers": independent_readers,
    "readers of one topic": readers_of_one_topic,
    "readers of a computed topic": readers_of_a_computed_topic,
    "a selection of SQL": selected,
    "to another stage": lambda s: (
        s.filter(lambda n: n % 2).select_key(lambda n: n % 3).group_by_key().count().to_stream().to("out")
    ),
    "count": lambda s: s.group_by_key().count().to_stream().map_values(lambda n: n + 1).to("out"),
    "reduce": lambda s: s.group_by_key().reduce(lambda a, b: a - 2 * b).to_stream().to("out"),
    "aggregate with errors": lambda s: (
        s.group_by_key()
        .aggregate(list, lambda key, seen, n: flaky(failing_at(2), lambda _, n: [*seen, n])(key, n))
        .to_stream()
        .map_values(flaky(failing_at(3), lambda _, seen: [sum(seen), len(seen)]))
        .to("out")
    ),
    "built-in aggregation": lambda s: s.group_by_key().agg(mean=mean_of(), n=count_of()).to_stream().to("out"),
    "two readers of a table": two_readers,
    "a table that is looked up": lambda s: joined_with_itself(s.group_by_key().count(name="counts")),
    "tumbling": collected(tumbling("100 ms", grace="300 ms")),
    "hopping": collected(hopping("100 ms", every="30 ms", grace="300 ms")),
    "unlimited": collected(unlimited(start=100)),
    "sliding": collected(sliding("50 ms", grace="300 ms")),
    "sessions": collected(session(gap="20 ms", grace="300 ms")),
    "late records": lambda s: (
        s.group_by_key().windowed_by(tumbling("100 ms"), late_to="late").count().to_stream().to("out")
    ),
    "final": lambda s: (
        s.group_by_key()
        .windowed_by(hopping("50 ms", every="25 ms", grace="500 ms"))
        .emit("final")
        .count()
        .to_stream()
        .to("out")
    ),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("kind", ["plain", "nearly in order", "some without key", "with headers"])
@pytest.mark.parametrize("caching", [False, True])
def test_columns_give_the_same_as_single_records(name: str, kind: str, caching: bool) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    keyless = 0.0 if kind in ("plain", "nearly in order") else 0.1
    records = numbered(random.Random(seed), keyless, 45 if kind == "nearly in order" else 100)
    with workspace({"n": records}, headers=kind == "with headers") as space:
        columns = run(CHAINS[name], space, "columns", caching=caching)
        # a function that takes the context is called record by record, and so is everything after it
        singly = run(lambda s: CHAINS[name](s.map_values(lambda _k, n, _c: n)), space, "singly", caching=caching)
    assert columns == singly
    assert columns.records_in == len(records)
    assert len(columns.outputs.get("out", [])) > 5 or columns.shuffle_blocks


def numbered(pick: random.Random, keyless: float, disorder: int) -> list[Row]:
    """Return records out of order, at round times, since windows end there; a share of them has no key."""
    keys = [None if pick.random() < keyless else b"k%d" % pick.randrange(20) for _ in range(200)]
    return [(key, b"%d" % pick.randrange(1, 40), (row + pick.randrange(disorder)) * 10) for row, key in enumerate(keys)]


def test_a_reader_does_not_see_how_another_one_changes_a_value_later() -> None:
    """If the app stops at an error, aggregates are changed in place, without a copy."""
    records: list[Row] = [(b"k%d" % (row % 3), b"1", row) for row in range(200)]
    with workspace({"n": records}, headers=False) as space:
        result = run(values_changed_later, space, "columns", caching=False, on_error="fail")
    assert [value for _, value, *_ in result.outputs["out"]] == [b"1"] * 200


def run(
    chain: Chain,
    space: Workspace,
    name: str,
    *,
    caching: bool,
    on_error: OnError = "dead_letter",
) -> Outcome:
    """Run a chain in three batches."""
    app = App(name, config=Config(on_error=on_error, output_prefix=f"{name}-"))
    chain(app.stream("n", key=str, value=int))
    batches = [{"n": offsets} for offsets in [(0, 150), (150, 190), (190, 200)]]
    return outcome(app, space, batches, caching=caching)


def test_headers_of_earlier_records_are_not_kept(log: EmbeddedLog, make_env: MakeEnv) -> None:
    """Updates that wait for the end of the batch have the headers of the last update, even if it has none."""
    app = App("headers", config=Config(output_prefix="headers-"))
    counted = app.stream("n", key=str, value=int).group_by_key().windowed_by(tumbling("1 h")).count()
    counted.to_stream().map(lambda window, n: (window.key, n)).to("out")
    env = make_env(app, caching=True)
    many = 3_000  # small blocks are read as one
    for marks in ([(("h", b"x"),)] * many, None):
        log.append([Output("n", 0, block_of([b"k"] * many, [b"1"] * many, [0] * many, marks))])
    run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 2 * many),)))
    assert rows(log, "headers-out") == [(b"k", b"6000", 0, None)]


def test_the_error_names_the_first_record_that_fails(log: EmbeddedLog, make_env: MakeEnv) -> None:
    """The first one fails in the second step, a later one in the first step."""
    app = App("test")
    app.stream("n", value=int).map_values(lambda n: 1 // n, name="first").map_values(lambda n: 1 // (n - 1)).to("out")
    env = make_env(app)
    log.append([Output("n", 0, block_of([b"k"] * 3, [b"5", b"1", b"0"], [0, 0, 0]))])
    with pytest.raises(ProcessingError, match=r"record n\[0\]@1 "):
        run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 3),)))


def test_each_function_is_called_once_per_record_even_if_some_fail(log: EmbeddedLog, make_env: MakeEnv) -> None:
    app, seen = App("test", config=Config(on_error="skip")), list[int]()

    def record(number: int) -> int:
        seen.append(number)
        return number

    app.stream("n", value=int).map_values(record).map_values(lambda n: 1 // n).to("out")
    env = make_env(app)
    log.append([Output("n", 0, block_of([b"k"] * 4, [b"5", b"0", b"7", b"0"], [0] * 4))])
    run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 4),)))
    assert seen == [5, 0, 7, 0]


def append_in_place(seen: list[int], number: int) -> list[int]:
    seen.append(number)
    return seen


@pytest.mark.parametrize("windows", [None, tumbling("1 s"), hopping("1 s", every="500 ms")])
@pytest.mark.parametrize("ready", [False, True])
def test_each_update_is_forwarded_before_the_next_one_changes_it_in_place(
    windows: Windows | None, ready: bool, log: EmbeddedLog, make_env: MakeEnv
) -> None:
    app = App("test")
    groups: Any = app.stream("n", value=int).group_by_key()
    groups = groups if windows is None else groups.windowed_by(windows)
    table = groups.agg(all=collect_of()) if ready else groups.aggregate(list, append_in_place)
    table.to_stream().to("out")
    env = make_env(app, caching=False)
    log.append([Output("n", 0, block_of([b"k"] * 3, [b"1", b"2", b"3"], [0] * 3))])
    run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 3),)))
    lists = [b"[1]", b"[1,2]", b"[1,2,3]"]
    values = [value for _, value, _, _ in rows(log, "out")]
    assert values == ([b'{"all":%s}' % each for each in lists] if ready else lists)


@pytest.mark.parametrize("windows", [None, tumbling("1 s")])
def test_a_column_batch_without_remaining_records(windows: Windows | None, log: EmbeddedLog, make_env: MakeEnv) -> None:
    app = App("test")
    groups: Any = app.stream("n", value=int).filter(lambda n: n > 5).group_by_key()
    (groups if windows is None else groups.windowed_by(windows)).count().to_stream().to("out")
    env = make_env(app)
    log.append([Output("n", 0, block_of([b"k"] * 2, [b"1", b"2"], [0, 0]))])
    report, _ = run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 2),)))
    assert (report.records_in, report.records_out) == (2, 0)


class StreamTimes(Processor):
    """Collects stream time at each record."""

    seen: ClassVar[list[int]] = []

    def process(self, record: Record) -> None:
        self.seen.append(self.context.stream_time)


def test_records_that_are_filtered_out_advance_stream_time(log: EmbeddedLog, make_env: MakeEnv) -> None:
    app = App("test")
    app.stream("n", value=int).filter(lambda n: n > 0).process(StreamTimes)
    env = make_env(app)
    log.append([Output("n", 0, block_of([b"k"] * 4, [b"1", b"0", b"1", b"0"], [1, 9, 2, 12]))])
    StreamTimes.seen.clear()
    report, _ = run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 4),)))
    assert StreamTimes.seen == [1, 9]
    assert report.stream_time == 12
