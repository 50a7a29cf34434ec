"""Two tables joined by key; the steps of semantics that every Kafka Streams user knows."""

import pytest

from millstream import App
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
        found = []
        for side, value in STEPS:
            driver.topic(side).pipe(value, key="k")
            found.append(driver.topic("out").read_values())
        assert found == expected


def test_the_later_timestamp_counts() -> None:
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
