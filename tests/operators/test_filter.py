import pytest

from millstream import App
from millstream.testing import TestDriver


def test_filter_keeps_matching_records_and_filter_not_the_others() -> None:
    app = App("test")
    numbers = app.stream("numbers", value=int)
    numbers.filter(lambda n: n % 2 == 0).to("even")
    numbers.filter_not(lambda n: n % 2 == 0).to("odd")
    with TestDriver(app) as driver:
        driver.topic("numbers").pipe(1, 2, 3, 4)
        assert driver.topic("even").read_values() == [2, 4]
        assert driver.topic("odd").read_values() == [1, 3]


def test_a_predicate_may_return_any_object() -> None:
    app = App("test")
    app.stream("lines", value=str).filter(str.strip).to("out")
    with TestDriver(app) as driver:
        driver.topic("lines").pipe("", " ", "a")
        assert driver.topic("out").read_values() == ["a"]


@pytest.mark.parametrize(("key", "value"), [(None, "v"), ("k", None), (None, None)])
def test_the_predicate_sees_null_keys_and_values(key: str | None, value: str | None) -> None:
    seen: list[object] = []

    def note(key: str | None, value: str | None) -> bool:
        seen.append((key, value))
        return True

    app = App("test")
    app.stream("lines", value=str).filter(note).to("out")
    with TestDriver(app) as driver:
        driver.topic("lines").pipe(value, key=key)
        assert driver.topic("out").read_key_values() == [(key, value)]
    assert seen == [(key, value)]


def test_a_record_that_passes_is_unchanged() -> None:
    app = App("test")
    app.stream("lines", value=str).filter(lambda _: True).to("out")
    with TestDriver(app) as driver:
        driver.topic("lines").pipe("a", key="k", timestamp=7, headers={"h": b"1"})
        (record,) = driver.topic("out").read()
    assert (record.key, record.value, record.timestamp, record.headers) == ("k", "a", 7, (("h", b"1"),))


def test_a_record_that_is_filtered_out_is_not_counted_as_dropped() -> None:
    app = App("test")
    app.stream("lines", value=str).filter(lambda _: False).to("out")
    with TestDriver(app) as driver:
        driver.topic("lines").pipe("a")
        assert [report.dropped for report in driver.reports] == [{}]
        assert driver.topic("out").read() == []
