import pytest

from millstream import App
from millstream.testing import TestDriver


def test_peek_sees_each_record_and_forwards_it_whatever_it_returns() -> None:
    seen: list[tuple[str, int]] = []
    app = App("test")
    app.stream("n", value=int).peek(lambda key, n: seen.append((key, n))).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2, key="k")
        assert driver.topic("out").read_key_values() == seen == [("k", 1), ("k", 2)]


def test_foreach_ends_the_stream() -> None:
    seen: list[int] = []
    app = App("test")
    app.stream("n", value=int).foreach(seen.append)
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2)
    assert seen == [1, 2]


def test_readers_get_a_record_in_definition_order() -> None:
    seen: list[str] = []
    app = App("test")
    numbers = app.stream("n", value=int)
    numbers.peek(lambda _: seen.append("first")).foreach(lambda _: seen.append("first, further down"))
    numbers.foreach(lambda _: seen.append("second"))
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
    assert seen == ["first", "first, further down", "second"]


@pytest.mark.parametrize(("label", "line"), [(None, "'k': 1\n"), ("n", "[n] 'k': 1\n")])
def test_print_shows_key_and_value(label: str | None, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    app = App("test")
    app.stream("n", value=int).print(label)
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, key="k")
    assert capsys.readouterr().out == line
