"""Two tables joined by key; the steps of semantics that every Kafka Streams user knows."""

import pytest

from millstream import App, tumbling
from millstream.errors import DefinitionError
from millstream.testing import TestDriver

L, R = "left", "right"
STEPS = [(L, "A"), (R, "a"), (L, "B"), (R, None), (L, None), (R, "b"), (R, None)]


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("join", [[], ["A-a"], ["B-a"], [None], [], [], []]),
        ("left_join", [["A-None"], ["A-a"], ["B-a"], ["B-None"], [None], [], []]),
        ("outer_join", [["A-None"], ["A-a"], ["B-a"], ["B-None"], [None], ["None-b"], [None]]),
    ],
)
@pytest.mark.parametrize("name", [None, "joined"])
def test_each_change_is_joined_with_the_other_side(
    verb: str, expected: list[list[str | None]], name: str | None
) -> None:
    app = App("test")
    left, right = app.table(L, value=str), app.table(R, value=str)
    getattr(left, verb)(right, lambda a, b: f"{a}-{b}", name=name).to_stream().to("out")
    with TestDriver(app) as driver:
        results = []
        for side, value in STEPS:
            driver.topic(side).pipe(value, key="k")
            results.append(driver.topic("out").read_values())
        assert results == expected


def test_the_result_has_the_later_timestamp() -> None:
    app = App("test")
    app.table(L, value=str).join(app.table(R, value=str), lambda a, b: a + b).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic(L).pipe("a", key="k", timestamp=9)
        driver.topic(R).pipe("b", key="k", timestamp=3)
        assert [record.timestamp for record in driver.topic("out").read()] == [9]


def test_only_tables_can_be_joined_with_a_table() -> None:
    app = App("test")
    with pytest.raises(DefinitionError, match="expects a table"):
        app.table(L).join(app.stream(R), lambda a, b: a)  # type: ignore[call-overload]


def test_a_deleted_result_of_a_join_has_no_timestamp() -> None:
    """The deleted row of the first join must not pass its timestamp to the second join in the same batch."""
    app = App("test")
    left, right = app.table(L, value=str), app.table(R, value=str)
    gone = left.outer_join(right, lambda a, b: None, name="gone")
    left.left_join(gone, lambda a, b: f"{a}-{b}").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic(R).pipe("b", key="k", timestamp=9)
        driver.topic(L).pipe("a", key="k", timestamp=3)
        assert [(record.value, record.timestamp) for record in driver.topic("out").read()] == [
            ("a-None", 9),
            ("a-None", 3),
        ]


def test_a_filtered_side_stores_its_source_table_and_sends_no_needless_tombstones() -> None:
    app = App("test")
    left, right = app.table(L, value=str, name="left"), app.table(R, value=str)
    kept = right.filter(lambda value: value == "kept")
    left.left_join(kept, lambda a, b: f"{a}-{b}").to_stream().to("out")
    kept.filter_not(lambda value: value == "x", name="rest")
    with TestDriver(app) as driver:
        driver.topic(L).pipe("a", key="k")
        driver.topic(R).pipe("kept", "dropped", "dropped too", key="k")
        assert driver.topic("out").read_values() == ["a-None", "a-kept", "a-None"]


def test_a_final_window_joined_with_itself_finds_itself() -> None:
    app = App("test")
    counts = app.stream("n", value=int).group_by_key().windowed_by(tumbling("10 ms", grace="10 ms")).emit("final")
    table = counts.count()
    table.outer_join(table, lambda a, b: f"{a}-{b}").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, key="k", timestamp=0)
        driver.topic("n").pipe(1, key="k", timestamp=20)
        assert driver.topic("out").read_values() == ["1-1", "1-1"]
