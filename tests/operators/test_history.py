"""Tables with history: how joins, groupings and stateless steps handle out-of-order updates."""

import pytest

from millstream import App, until_time_limit
from millstream.errors import DefinitionError
from millstream.testing import TestDriver

# side, value, timestamp; the same steps as in Kafka Streams' own test, one key
STEPS = [
    ("L", None, 1), ("R", None, 2), ("L", "A", 3), ("R", "a", 4), ("L", "B", 5), ("R", "b", 6), ("L", None, 7),
    ("R", None, 8), ("L", "C", 9), ("R", "c", 10), ("R", None, 11), ("L", None, 12), ("R", None, 13), ("R", "d", 7),
    ("L", "D", 6), ("L", None, 2), ("R", None, 3), ("R", "e", 14), ("L", "E", 15), ("L", None, 10), ("R", None, 9),
    ("L", "F", 4), ("R", "f", 3),
]  # fmt: skip


def results(app: App) -> dict[int, list[str]]:
    """Return the output of each step that has any, by its number from 1."""
    results_by_step: dict[int, list[str]] = {}
    with TestDriver(app) as driver:
        for number, (side, value, timestamp) in enumerate(STEPS, 1):
            driver.topic(side).pipe(value, key="0", timestamp=timestamp)
            out = [f"{record.value}@{record.timestamp}" for record in driver.topic("out").read()]
            if out:
                results_by_step[number] = out
    return results_by_step


def test_a_stream_is_joined_with_the_row_of_its_time() -> None:
    app = App("test")
    table = app.table("R", value=str, history="5 min")
    app.stream("L", value=str).join(table, lambda left, right: f"{left}-{right}").to("out")
    assert results(app) == {5: ["B-a@5"], 15: ["D-b@6"], 19: ["E-e@15"], 22: ["F-a@4"]}


def test_steps_without_a_store_have_the_versions_of_the_table_upstream() -> None:
    app = App("test")
    table = app.table("R", value=str, history="5 min").filter(lambda value: value != "b").map_values(str.upper)
    app.stream("L", value=str).left_join(table, lambda left, right: f"{left}-{right}").to("out")
    results_by_step = results(app)
    assert (results_by_step[5], results_by_step[15], results_by_step[22]) == (["B-A@5"], ["D-None@6"], ["F-A@4"])


INNER_BOTH = {4: ["A-a@4"], 5: ["B-a@5"], 6: ["B-b@6"], 7: ["None@7"], 10: ["C-c@10"], 11: ["None@11"], 19: ["E-e@15"]}


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("5 min", "5 min", INNER_BOTH),
        ("5 min", None, {**INNER_BOTH, 21: ["None@15"], 23: ["E-f@15"]}),
        (None, "5 min", {**INNER_BOTH, 20: ["None@14"], 22: ["F-e@14"]}),
    ],
)
def test_table_joins_ignore_out_of_order_updates(
    left: str | None, right: str | None, expected: dict[int, list[str]]
) -> None:
    app = App("test")
    first, second = app.table("L", value=str, history=left), app.table("R", value=str, history=right)
    first.join(second, lambda a, b: f"{a}-{b}").to_stream().to("out")
    assert results(app) == expected


def test_out_of_order_updates_are_counted_by_joins_and_not_by_groupings() -> None:
    app = App("test")
    left, right = app.table("L", value=str, history="5 min"), app.table("R", value=str)
    left.join(right, lambda a, b: a + b, name="both")
    left.group_by(lambda value: value).count(name="groups").to_stream().to("out")
    left.to_stream().to("all")
    with TestDriver(app) as driver:
        driver.topic("L").pipe("x", key="k", timestamp=10)
        driver.topic("L").pipe("y", key="k", timestamp=5)
        assert driver.dropped == {"both: out_of_order": 1}
        assert driver.topic("out").read_key_values() == [("x", 1)]
        assert driver.topic("all").read_values() == ["x", "y"]


def test_records_older_than_the_history_are_dropped_and_counted() -> None:
    app = App("test")
    app.table("t", value=str, history="10 ms", name="t").to_stream().to("out")
    with TestDriver(app) as driver:
        for value, timestamp in (("a", 100), ("b", 90), ("c", 89)):
            driver.topic("t").pipe(value, key="k", timestamp=timestamp)
        assert driver.topic("out").read_values() == ["a", "b"]
        assert driver.dropped == {"t: late": 1}
        assert driver.table("t")["k"] == "a"


def test_results_of_joins_and_counts_can_keep_a_history_too() -> None:
    app = App("test")
    left, right = app.table("L", value=str), app.table("R", value=str)
    joined = left.join(right, lambda a, b: a + b, history="5 min", name="joined")
    left.group_by(lambda value: value).count(history="5 min", name="counts")
    app.stream("s", value=str).join(joined, lambda a, b: f"{a} {b}").to("out")
    with TestDriver(app) as driver:
        driver.topic("R").pipe("r", key="k", timestamp=0)
        driver.topic("L").pipe("one", key="k", timestamp=10)
        driver.topic("L").pipe("two", key="k", timestamp=20)
        driver.topic("s").pipe("at 15:", key="k", timestamp=15)
        assert driver.topic("out").read_values() == ["at 15: oner"]
        counts = driver.table("counts")
        assert [counts.get_as_of("one", time) for time in (5, 15, 25)] == [None, 1, 0]


def test_a_join_with_grace_waits_for_late_updates_and_keeps_headers() -> None:
    app = App("test")
    table = app.table("t", value=str, history="5 min")
    app.stream("s", value=str).left_join(table, lambda a, b: f"{a}-{b}", grace="10 ms").to("out")
    with TestDriver(app) as driver:
        stream = driver.topic("s")
        stream.pipe("b", key="b", timestamp=100, headers={"n": b"1"})
        stream.pipe("a", key="a", timestamp=100, headers={"n": b"2"})
        stream.pipe("no key", timestamp=101)
        assert driver.topic("out").read_values() == ["no key-None"]
        driver.topic("t").pipe("late", key="a", timestamp=99)
        stream.pipe("c", key="c", timestamp=110)
        records = driver.topic("out").read()
        assert [(record.value, record.timestamp, record.headers) for record in records] == [
            ("a-late", 100, (("n", b"2"),)),
            ("b-None", 100, (("n", b"1"),)),
        ]
        stream.pipe("too late to wait", key="a", timestamp=99)
        assert driver.topic("out").read_values() == ["too late to wait-late"]


def test_a_grace_needs_a_history_that_is_long_enough() -> None:
    app = App("test")
    stream, plain = app.stream("s", value=str), app.table("t", value=str)
    with pytest.raises(DefinitionError, match="needs a table that keeps its history"):
        stream.join(plain, max, grace="1 s")
    kept = app.table("u", value=str, history="1 s").filter(bool)
    with pytest.raises(DefinitionError, match="cannot wait 2000 ms for a table with a history of 1000 ms"):
        stream.join(kept, max, grace="2 s")
    with pytest.raises(DefinitionError, match="needs a table that keeps its history"):
        stream.join(kept.filter(bool, name="stored"), max, grace="1 s")


def test_a_join_that_keeps_a_history_needs_a_name() -> None:
    app = App("test")
    with pytest.raises(DefinitionError, match="needs a name"):
        app.table("a").join(app.table("b"), max, history="1 s")


def test_suppress_rejects_a_table_with_history() -> None:
    table = App("test").table("a", history="1 s").map_values(str)
    with pytest.raises(DefinitionError, match="cannot hold back changes of a table with history"):
        table.suppress(until_time_limit("1 s"))
