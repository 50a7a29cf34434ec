from typing import Any

import msgspec
import pytest

from millstream import App
from millstream.errors import DefinitionError, ProcessingError, SerdeError
from millstream.testing import TestDriver


class Total(msgspec.Struct):
    amount: float = 0.0
    rides: int = 0


def test_each_key_starts_with_its_own_initial_value() -> None:
    app = App("test")
    app.stream("n", value=int).group_by_key().aggregate(list, lambda seen, n: [*seen, n]).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe_pairs([("a", 1), ("b", 2), ("a", 3)])
        assert driver.topic("out").read_key_values() == [("a", [1]), ("b", [2]), ("a", [1, 3])]


def test_an_aggregate_that_is_changed_in_place_is_kept() -> None:
    def add(total: Total, amount: float) -> Total:
        total.amount += amount
        total.rides += 1
        return total

    app = App("test")
    app.stream("n", value=float).group_by_key().aggregate(Total, add, name="totals").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1.5, 2.0, key="a")
        assert driver.topic("out").read_values() == [{"amount": 1.5, "rides": 1}, {"amount": 3.5, "rides": 2}]
        assert driver.table("totals")["a"] == Total(3.5, 2)


def test_none_deletes_the_row_and_the_next_record_starts_with_its_own_timestamp() -> None:
    """
    record    1@5    2@9     0@3       4@1
    result    1@5    3@9     null@9    4@1
    """
    app = App("test")
    app.stream("n", value=int).group_by_key().aggregate(
        lambda: 0, lambda total, n: total + n if n else None, name="totals"
    ).to_stream().to("out")
    results: list[tuple[Any, int]] = []
    with TestDriver(app) as driver:
        for value, timestamp in [(1, 5), (2, 9), (0, 3), (4, 1)]:
            driver.topic("n").pipe(value, key="k", timestamp=timestamp)
            results += [(record.value, record.timestamp) for record in driver.topic("out").read()]
            assert driver.table("totals").get("k") == results[-1][0]
    assert results == [(1, 5), (3, 9), (None, 9), (4, 1)]


def test_plain_python_objects_are_restored_with_their_types() -> None:
    def add(seen: dict[str, Any], n: int) -> dict[str, Any]:
        return {"all": seen["all"] | {n}, "pairs": [*seen["pairs"], (n, -n)]}

    app = App("test")
    app.stream("n", value=int).group_by_key().aggregate(lambda: {"all": set(), "pairs": []}, add, name="seen")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2, key="k")
        assert driver.table("seen")["k"] == {"all": {1, 2}, "pairs": [(1, -1), (2, -2)]}


def test_an_aggregate_that_cannot_be_stored_is_reported() -> None:
    app = App("test")
    app.stream("n", value=int).group_by_key().aggregate(lambda: 0, lambda _, n: object(), name="odd")
    with (
        TestDriver(app) as driver,
        pytest.raises(SerdeError, match=r"row 'k' of table 'odd' cannot be written .*value="),
    ):
        driver.topic("n").pipe(1, key="k")


def test_an_aggregate_of_another_type_than_declared_is_reported_on_read() -> None:
    app = App("test")

    def mean(a: int, b: int) -> Any:
        return (a + b) / 2

    app.stream("n", value=int).group_by_key().reduce(mean, name="mean")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2, key="k")
        with pytest.raises(SerdeError, match="row 'k' of table 'mean' cannot be read as msgpack:int"):
            driver.topic("n").pipe(3, key="k")


def test_an_error_in_the_adder_names_node_and_record() -> None:
    app = App("test")
    app.stream("n", value=int).group_by_key().aggregate(lambda: 1, lambda total, n: total // n, name="parts")
    with (
        TestDriver(app) as driver,
        pytest.raises(ProcessingError, match=r"node 'parts' failed on record n\[0\]@1 \(key 'k'\)"),
    ):
        driver.topic("n").pipe(1, 0, key="k")


def test_the_initial_value_takes_no_argument() -> None:
    grouped = App("test").stream("n").group_by_key()
    with pytest.raises(
        DefinitionError, match=r"aggregate\(\) cannot call .*<lambda> .*: it takes 1 argument; it must take none"
    ):
        grouped.aggregate(lambda first: first, lambda total, _: total)  # type: ignore[arg-type, misc]
