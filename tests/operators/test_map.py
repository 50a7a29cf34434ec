from typing import Any

import pytest

from millstream import App
from millstream.errors import ProcessingError
from millstream.testing import TestDriver


def test_map_replaces_key_and_value() -> None:
    app = App("test")
    app.stream("words", value=str).map(lambda key, word: (word, f"{key}:{len(word)}"), value=str).to("out")
    with TestDriver(app) as driver:
        driver.topic("words").pipe("mill", key="k", timestamp=5, headers={"h": b"1"})
        (record,) = driver.topic("out").read()
    assert (record.key, record.value, record.timestamp, record.headers) == ("mill", "k:4", 5, (("h", b"1"),))


@pytest.mark.parametrize("pair", [(None, 1), ("k", None), (None, None)])
def test_map_may_return_nulls(pair: tuple[Any, Any]) -> None:
    app = App("test")
    app.stream("words", value=str).map(lambda _: pair).to("out")
    with TestDriver(app) as driver:
        driver.topic("words").pipe("mill", key="old")
        assert driver.topic("out").read_key_values() == [pair]


def test_map_that_does_not_return_a_pair_is_an_error_of_that_node() -> None:
    app = App("test")
    words = app.stream("words", value=str)
    words.map(lambda word: [word, 1, 2], name="wrong").to("out")  # type: ignore[arg-type, return-value]
    with (
        TestDriver(app) as driver,
        pytest.raises(ProcessingError, match="node 'wrong' failed on record words") as caught,
    ):
        driver.topic("words").pipe("mill")
    assert isinstance(caught.value.__cause__, ValueError)


def test_re_keyed_records_are_processed_by_the_task_of_their_new_key() -> None:
    """With four partitions the words start in different tasks; one count must get them all."""
    app = App("test")
    app.stream("words", value=str).map(lambda word: (word[0], word)).group_by_key().count(name="letters")
    with TestDriver(app, partitions=4) as driver:
        for number in range(20):
            driver.topic("words").pipe("mill", key=f"k{number}")
        assert dict(driver.table("letters").items()) == {"m": 20}
