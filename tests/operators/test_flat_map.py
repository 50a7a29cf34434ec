from collections.abc import Iterator

from millstream import App
from millstream.config import Config
from millstream.testing import TestDriver


def test_flat_map_returns_no_records_or_many_in_order() -> None:
    app = App("test")
    app.stream("lines", value=str).flat_map(lambda line: [(word, 1) for word in line.split()]).to("out")
    with TestDriver(app) as driver:
        driver.topic("lines").pipe("b a", "", "c", timestamp=4)
        records = driver.topic("out").read()
    assert [(record.key, record.value, record.timestamp) for record in records] == [
        ("b", 1, 4),
        ("a", 1, 4),
        ("c", 1, 4),
    ]


def test_flat_map_accepts_a_generator() -> None:
    def twice(key: str, value: str) -> Iterator[tuple[str, str]]:
        yield key, value
        yield value, key

    app = App("test")
    app.stream("lines", value=str).flat_map(twice).to("out")
    with TestDriver(app) as driver:
        driver.topic("lines").pipe("v", key="k")
        assert driver.topic("out").read_key_values() == [("k", "v"), ("v", "k")]


def test_if_the_function_raises_none_of_its_pairs_is_forwarded() -> None:
    def fails_late(value: int) -> Iterator[tuple[str, int]]:
        yield "first", value
        yield "second", 10 // value

    app = App("test", config=Config(on_error="skip"))
    app.stream("n", value=int).flat_map(fails_late, name="late").to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(0)
        assert [report.dropped for report in driver.reports] == [{"late: error": 1}]
        driver.topic("n").pipe(5)
        assert driver.topic("out").read_key_values() == [("first", 5), ("second", 2)]


def test_an_error_after_a_flat_map_does_not_affect_its_other_elements() -> None:
    app = App("test", config=Config(on_error="skip"))
    app.stream("n", value=int).flat_map_values(lambda n: [n, 0, n]).map_values(lambda n: 10 // n).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(5)
        assert driver.topic("out").read_values() == [2, 2]


def test_flat_map_values_keeps_the_key_and_needs_no_repartition() -> None:
    app = App("test")
    app.stream("lines", value=str).flat_map_values(str.split).group_by_key().count().to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("lines").pipe("a b", "", "c", key="k")
        assert driver.topic("out").read_key_values() == [("k", 1), ("k", 2), ("k", 3)]
    assert app.plan.levels == 1
