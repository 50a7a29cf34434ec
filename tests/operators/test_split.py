from millstream import App
from millstream.config import Config
from millstream.testing import TestDriver


def test_a_record_takes_the_first_branch_that_matches_and_no_other() -> None:
    app = App("test")
    parts = app.stream("n", value=int).split()
    parts = parts.branch(lambda n: n < 10, lambda small: small.to("small"))
    parts = parts.branch(lambda n: n < 100, lambda medium: medium.to("medium"))
    parts.default(lambda rest: rest.to("large"))
    with TestDriver(app) as driver:
        driver.topic("n").pipe(5, 50, 500)
        assert [driver.topic(name).read_values() for name in ("small", "medium", "large")] == [[5], [50], [500]]


def test_without_default_the_other_records_end_and_are_not_counted_as_dropped() -> None:
    app = App("test")
    app.stream("n", value=int).split().branch(lambda n: n < 10, lambda small: small.to("small"))
    with TestDriver(app) as driver:
        driver.topic("n").pipe(50)
        assert [report.dropped for report in driver.reports] == [{}]
        assert driver.topic("small").read() == []


def test_branches_are_accessed_by_name_or_number() -> None:
    app = App("test")
    parts = app.stream("n", value=int).split().branch(lambda n: n < 10, name="small").branch(lambda n: n < 100)
    parts.default()
    assert list(parts.branches) == ["small", "2", "default"]
    for name, stream in parts.branches.items():
        stream.to(f"out.{name}")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(5, 50, 500)
        branches = [driver.topic(f"out.{name}").read_values() for name in parts.branches]
    assert branches == [[5], [50], [500]]


def test_each_predicate_is_called_once_per_record() -> None:
    asked: list[str] = []

    def first(n: int) -> bool:
        asked.append(f"first {n}")
        return n < 10

    def second(n: int) -> bool:
        asked.append(f"second {n}")
        return n < 100

    app = App("test")
    app.stream("n", value=int).split().branch(first).branch(second).default(lambda rest: rest.to("rest"))
    with TestDriver(app) as driver:
        driver.topic("n").pipe(5, 50)
    assert asked == ["first 5", "first 50", "second 50"]


def test_a_record_whose_predicate_raises_takes_no_branch() -> None:
    app = App("test", config=Config(on_error="skip"))
    app.stream("n", value=int).split().branch(lambda n: 1 // n > 0, lambda it: it.to("out")).default(
        lambda it: it.to("out")
    )
    with TestDriver(app) as driver:
        driver.topic("n").pipe(0)
        assert [report.dropped for report in driver.reports] == [{"n.split: error": 1}]
        assert driver.topic("out").read() == []


def test_a_branch_may_have_several_readers() -> None:
    app = App("test")
    small = app.stream("n", value=int).split().branch(lambda n: n < 10).branches["1"]
    small.to("one")
    small.map_values(lambda n: -n).to("two")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(5)
        assert (driver.topic("one").read_values(), driver.topic("two").read_values()) == ([5], [-5])
