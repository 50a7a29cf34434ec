from typing import Any

from millstream import App
from millstream.testing import TestDriver


def test_the_first_value_is_the_first_result_without_a_call() -> None:
    calls: list[tuple[int, int]] = []

    def largest(so_far: int, value: int) -> int:
        calls.append((so_far, value))
        return max(so_far, value)

    app = App("test")
    app.stream("n", value=int).group_by_key().reduce(largest, name="largest").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe_pairs([("a", 3), ("a", 5), ("b", 1), ("a", 4)])
        assert driver.topic("out").read_key_values() == [("a", 3), ("a", 5), ("b", 1), ("a", 5)]
    assert calls == [(3, 5), (5, 4)]


def test_the_reducer_may_take_the_key() -> None:
    app = App("test")
    app.stream("words", value=str).group_by_key().reduce(
        lambda key, left, right: f"{key}:{left}{right}"
    ).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("words").pipe("x", "y", key="k")
        assert driver.topic("out").read_values() == ["x", "k:xy"]


def test_nulls_are_dropped_and_the_result_stays() -> None:
    app = App("test")
    app.stream("n", value=int).group_by_key().reduce(max, name="largest")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(3, key="a")
        driver.topic("n").pipe(None, key="a")
        assert [report.dropped for report in driver.reports] == [{"largest: null_value": 1}]
        driver.topic("n").pipe(9)
        assert [report.dropped for report in driver.reports] == [{"largest: null_key": 1}]
        assert dict(driver.table("largest").items()) == {"a": 3}


def test_a_result_of_none_deletes_the_row_and_the_next_value_starts_again() -> None:
    """
    record    1@9   2@5        7@4
    result    1@9   null@9     7@4
    """
    app = App("test")
    app.stream("n", value=int).group_by_key().reduce(lambda _, n: None if n == 2 else n, name="last").to_stream().to(
        "out"
    )
    with TestDriver(app) as driver:
        results: list[tuple[Any, int]] = []
        for value, timestamp in [(1, 9), (2, 5), (7, 4)]:
            driver.topic("n").pipe(value, key="k", timestamp=timestamp)
            results += [(record.value, record.timestamp) for record in driver.topic("out").read()]
            assert ("k" in driver.table("last")) == (value != 2)
    assert results == [(1, 9), (None, 9), (7, 4)]
