"""Two tables joined by key; the steps of semantics that every Kafka Streams user knows."""

import pytest
from tests.task.outcomes import Row, outcome, workspace

from millstream import App, Config, tumbling
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


@pytest.mark.parametrize("caching", [True, False])
def test_windows_that_expire_before_the_batch_ends_are_joined(caching: bool) -> None:
    """
    0      10     20        1000
    |------|------|-- ... --|---    windows of 10 ms, kept for 20 ms
     l r                     l r    one batch
    """
    app = App("windows", config=Config(output_prefix="windows-"))
    stream = app.stream("n", value=str)
    windows = tumbling("10 ms", grace="10 ms")
    left = stream.filter(lambda value: value == "left").group_by_key().windowed_by(windows).count(name="left")
    right = stream.filter(lambda value: value == "right").group_by_key().windowed_by(windows).count(name="right")
    joined = left.join(right, lambda n, m: n + m)
    joined.to_stream(lambda window, _: f"{window.key} {window.start}").to("out")
    records: list[Row] = [
        (b"k%d" % key, side, time + key) for time in (0, 1000) for side in (b"left", b"right") for key in range(3)
    ]
    with workspace({"n": records}) as space:
        results = outcome(app, space, [{"n": (0, len(records))}], caching=caching).outputs["out"]
    assert {key for key, *_ in results} == {b"k%d %d" % (key, time) for time in (0, 1000) for key in range(3)}
