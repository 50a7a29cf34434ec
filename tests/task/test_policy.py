"""Error policies: fail, skip or dead letter, for errors in user code and in decoding."""

import json
import re
from typing import Any

import pytest

from millstream import App, session
from millstream.config import Config
from millstream.errors import ProcessingError, SerdeError
from millstream.records import Record
from millstream.testing import TestDriver


def dividing(**config: Any) -> App:
    app = App("test", config=Config(**config))
    app.stream("n", value=int).map_values(lambda n: 10 // n, name="divide").to("out")
    return app


def letter(driver: TestDriver) -> Record:
    (dead_letter,) = driver.topic("test.dead-letters").read()
    return dead_letter


def test_fail_stops_at_the_record_and_reports_its_position() -> None:
    with TestDriver(dividing()) as driver:
        driver.topic("n").pipe(5)
        with pytest.raises(
            ProcessingError,
            match=r"node 'divide' failed on record n\[0\]@1 \(key 'k'\): ZeroDivisionError: .*test_policy.py:\d+ in",
        ) as caught:
            driver.topic("n").pipe(0, key="k")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    facts = dict(caught.value.facts)
    assert re.search(r"test_policy\.py:\d+ in <lambda>$", facts.pop("line"))
    assert facts == {"node": "divide", "topic": "n", "partition": 0, "offset": 1}
    assert 'on_error="dead_letter" or "skip"' in str(caught.value)


def test_an_error_inside_a_package_is_reported_at_the_line_that_called_it() -> None:
    app = App("test")
    app.stream("n", value=str).map_values(lambda text: json.loads(text)).to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match=r"test_policy\.py:\d+ in <lambda>\)"):
        driver.topic("n").pipe("{")


def test_an_error_in_a_builtin_has_no_line() -> None:
    app = App("test")
    app.stream("n", value=str).map_values(int).to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError) as caught:
        driver.topic("n").pipe("x")
    assert caught.value.facts["line"] is None


def test_fail_writes_one_dead_letter_if_their_topic_is_configured() -> None:
    app = dividing(dead_letter_topic="morgue")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(5)
        for _ in range(2):
            with pytest.raises(ProcessingError, match="divide"):
                driver.topic("n").pipe(0, key="k", timestamp=7)
        (dead_letter,) = driver.topic("morgue").read()
        assert driver.topic("out").read_values() == [2]
    assert (dead_letter.key, dead_letter.value, dead_letter.timestamp) == ("k", 0, 7)
    assert dict(dead_letter.headers)["__streams.errors.offset"] == b"1"


def test_fail_writes_the_dead_letter_of_a_record_that_cannot_be_decoded_too() -> None:
    with TestDriver(dividing(on_decode_error="fail", dead_letter_topic="morgue")) as driver:
        with pytest.raises(SerdeError, match="cannot be decoded"):
            driver.topic("n").pipe_raw(b"five")
        assert [record.value for record in driver.topic("morgue").read_raw()] == [b"five"]


def test_dead_letters_have_the_headers_with_which_the_record_arrived() -> None:
    app = App("test", config=Config(on_error="dead_letter"))
    sessions = app.stream("n", value=int).group_by_key().windowed_by(session(gap="1 s")).count()
    sessions.to_stream().map_values(lambda _: 1 // 0).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, key="k", headers={"h": b"1"})
        assert letter(driver).headers[0] == ("h", b"1")


def test_skip_continues_without_the_record_and_counts_it() -> None:
    with TestDriver(dividing(on_error="skip")) as driver:
        driver.topic("n").pipe(0)
        assert [(report.dropped, report.dead_letters) for report in driver.reports] == [({"divide: error": 1}, 0)]
        driver.topic("n").pipe(5)
        assert driver.topic("out").read_values() == [2]
        assert driver.topics == ["n", "out"]


def test_a_dead_letter_is_the_raw_record_with_its_headers_and_the_error() -> None:
    with TestDriver(dividing(on_error="dead_letter")) as driver:
        driver.topic("n").pipe(5)
        driver.topic("n").pipe(0, key="k", timestamp=7, headers={"h": b"1"})
        assert [(report.dropped, report.dead_letters) for report in driver.reports] == [({"divide: error": 1}, 1)]
        dead_letter = letter(driver)
    assert (dead_letter.key, dead_letter.value, dead_letter.timestamp) == ("k", 0, 7)
    assert [name for name, _ in dead_letter.headers] == [
        "h", "__streams.errors.exception", "__streams.errors.message", "__streams.errors.stacktrace",
        "__streams.errors.topic", "__streams.errors.partition", "__streams.errors.offset",
        "__millstream.errors.stage", "__millstream.errors.node",
    ]  # fmt: skip
    facts = dict(dead_letter.headers)
    assert facts["__streams.errors.exception"] == b"builtins.ZeroDivisionError"
    assert facts["__streams.errors.message"] == b"integer division or modulo by zero"
    assert b"lambda n: 10 // n" in (facts["__streams.errors.stacktrace"] or b"")
    assert (facts["__streams.errors.stacktrace"] or b"").count(b"  File ") == 1, "only the frame of the user"
    where = [facts[f"__streams.errors.{name}"] for name in ("topic", "partition", "offset")]
    assert where == [b"n", b"0", b"1"]
    assert (facts["__millstream.errors.stage"], facts["__millstream.errors.node"]) == (b"n", b"divide")


def test_the_innermost_step_fails_and_its_siblings_still_get_the_record() -> None:
    app = App("test", config=Config(on_error="dead_letter"))
    numbers = app.stream("n", value=int)
    numbers.to("before")
    numbers.map_values(lambda n: 10 // n).to("never")
    numbers.to("after")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(0)
        values = [driver.topic(name).read_values() for name in ("before", "never", "after", "test.dead-letters")]
    assert values == [[0], [], [0], [0]]


def test_after_a_repartition_the_dead_letter_is_encoded_as_in_a_topic() -> None:
    app = App("test", config=Config(on_error="dead_letter", dead_letter_topic="morgue"))
    app.stream("n", value=int).group_by(lambda n: f"key {n}").aggregate(lambda: 1, lambda _, n: 10 // n, name="divide")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(0, timestamp=3)
        (dead_letter,) = driver.topic("morgue").read_raw()
    assert (dead_letter.key, dead_letter.value, dead_letter.timestamp) == (b"key 0", b"0", 3)
    assert dict(dead_letter.headers)["__streams.errors.topic"] == b"divide-repartition"


def test_with_caching_an_error_after_a_table_occurs_at_the_end_of_the_batch() -> None:
    app = App("test", config=Config(on_error="dead_letter"))
    app.stream("n", value=int).group_by_key().count().to_stream().map_values(lambda count: 1 // 0).to("out")
    with TestDriver(app, caching=True) as driver:
        driver.topic("n").pipe(1, key="k", timestamp=5)
        dead_letter = letter(driver)
    assert (dead_letter.key, dead_letter.value, dead_letter.timestamp) == (None, None, 5)
    facts = dict(dead_letter.headers)
    assert (facts["__streams.errors.partition"], facts["__streams.errors.offset"]) == (b"-1", b"-1")


@pytest.mark.parametrize("first", [False, True])
def test_by_default_records_that_cannot_be_decoded_become_dead_letters(first: bool) -> None:
    with TestDriver(dividing()) as driver:
        if not first:
            driver.topic("n").pipe(5)
        driver.topic("n").pipe_raw(b"five", key=b"k", timestamp=4)
        assert [(report.dropped, report.dead_letters, report.records_in) for report in driver.reports] == [
            ({"n: error": 1}, 1, 1)
        ]
        (dead_letter,) = driver.topic("test.dead-letters").read_raw()
    assert (dead_letter.key, dead_letter.value, dead_letter.timestamp) == (b"k", b"five", 4)


def test_decode_errors_can_fail_or_be_skipped() -> None:
    message = r"record n\[0\]@0 cannot be decoded as json:int.*dead_letter"
    with TestDriver(dividing(on_decode_error="fail")) as driver, pytest.raises(SerdeError, match=message):
        driver.topic("n").pipe_raw(b"five")
    with TestDriver(dividing(on_decode_error="skip")) as driver:
        driver.topic("n").pipe_raw(b"five")
        assert [(report.dropped, report.dead_letters) for report in driver.reports] == [({"n: error": 1}, 0)]
        assert driver.topics == ["n", "out"]


def test_records_whose_key_cannot_be_decoded_are_bad_too() -> None:
    app = App("test")
    app.stream("n", key=int, value=int).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe_raw(b"1", key=b"one")
        driver.topic("n").pipe(2, key=1)
        assert driver.topic("out").read_key_values() == [(1, 2)]


def test_the_error_policy_applies_to_records_that_cannot_be_encoded() -> None:
    app = App("test", config=Config(on_error="dead_letter"))
    app.stream("n", value=int).map_values(lambda n: object() if n == 0 else n).to("out", name="end")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(0, 1)
        assert driver.topic("out").read_values() == [1]
        dead_letter = letter(driver)
    assert dead_letter.value == 0
    assert dict(dead_letter.headers)["__streams.errors.exception"] == b"millstream.errors.SerdeError"
    assert dict(dead_letter.headers)["__millstream.errors.node"] == b"end"


def test_the_error_policy_applies_to_records_that_cannot_be_encoded_for_an_edge() -> None:
    app = App("test", config=Config(on_error="skip"))
    app.stream("n", value=int).map(lambda n: (object() if n == 0 else n, n)).group_by_key().reduce(max, name="largest")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(0)
        assert [report.dropped for report in driver.reports if report.dropped] == [{"largest-repartition: error": 1}]
        driver.topic("n").pipe(3)
        assert dict(driver.table("largest").items()) == {3: 3}
