"""Left and outer joins that do not wait."""

from typing import Any

import pytest

from millstream import App, join_window
from millstream.testing import TestDriver


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("left_join", ["a-None", "a-b", "a2-b"]),
        ("outer_join", ["a-None", "a-b", "a2-b", "None-c"]),
    ],
)
def test_an_eager_join_forwards_a_record_alone_at_once_and_again_with_each_partner(
    verb: str, expected: list[str]
) -> None:
    app = App("join")
    left, right = app.stream("left", value=str), app.stream("right", value=str)
    join: Any = getattr(left, verb)
    join(right, lambda mine, its: f"{mine}-{its}", within=join_window("1 s", eager=True)).to("out")
    with TestDriver(app) as driver:
        driver.topic("left").pipe("a", key="k", timestamp=0)
        driver.topic("right").pipe("b", key="k", timestamp=10)
        driver.topic("left").pipe("a2", key="k", timestamp=20)
        driver.topic("right").pipe("c", key="other", timestamp=30)
        assert driver.topic("out").read_values() == expected


def test_eager_is_part_of_the_plan_only_if_it_is_used() -> None:
    assert '"eager"' not in _described(eager=False)
    assert '"eager": true' in _described(eager=True)


def _described(*, eager: bool) -> str:
    app = App("join")
    left, right = app.stream("left", value=str), app.stream("right", value=str)
    left.left_join(right, lambda mine, its: mine, within=join_window("1 s", eager=eager)).to("out")
    return app.describe("json")
