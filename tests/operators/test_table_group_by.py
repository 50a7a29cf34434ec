"""A changed row leaves its old group before it enters the new one."""

from millstream import App
from millstream.testing import TestDriver


def test_counts_follow_rows_from_group_to_group() -> None:
    app = App("test")
    app.table("people", value=str).group_by(lambda city: city).count(name="cities").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("people").pipe_pairs([("ann", "Rome"), ("bob", "Rome"), ("ann", "Oslo"), ("bob", None)])
        assert driver.topic("out").read_key_values() == [
            ("Rome", 1), ("Rome", 2), ("Rome", 1), ("Oslo", 1), ("Rome", 0),
        ]  # fmt: skip
        assert dict(driver.table("cities").items()) == {"Rome": 0, "Oslo": 1}


def test_a_change_within_a_group_is_one_update_old_before_new() -> None:
    app = App("test")
    steps: list[str] = []

    def add(total: int, n: int) -> int:
        steps.append(f"+{n}")
        return total + n

    def remove(total: int, n: int) -> int:
        steps.append(f"-{n}")
        return total - n

    app.table("in", value=int).group_by(lambda _: "all").aggregate(int, add, remove).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(5, 7, key="a")
        assert driver.topic("out").read_values() == [5, 7]
    assert steps == ["+5", "-5", "+7"]


def test_a_half_without_group_or_value_is_left_out() -> None:
    app = App("test")
    grouped = app.table("in", value=int).group_by(lambda n: "x" if n > 0 else None, values=lambda n: n or None)
    grouped.reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(-1, 3, -2, key="a")
        assert driver.topic("out").read_key_values() == [("x", 3), ("x", 0)]
