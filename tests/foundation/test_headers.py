"""Invalid headers concern the records that have them, and no others."""

from pathlib import Path
from typing import Any

import pytest

from millstream import App
from millstream.broker import Output, TopicConfig
from millstream.config import Config
from millstream.consumer import Consumer
from millstream.errors import DefinitionError, ProcessingError, SerdeError
from millstream.foundation.blocks import block_of
from millstream.foundation.headers import MAX_HEADERS, InvalidHeaders, header_pairs, headers_size
from millstream.log import EmbeddedLog
from millstream.processors import Processor
from millstream.records import Headers, Record, TopicPartition
from millstream.testing import TestDriver
from millstream.views.records import read_range

WRONG: Any = (("attempt", 3),)


def test_headers_that_do_not_fit_are_a_dead_letter_and_their_neighbours_are_processed() -> None:
    app = App("test")
    app.stream("n", value=int).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        driver.topic("n").pipe_raw(b"2", headers=WRONG)
        driver.topic("n").pipe(3)
        assert driver.topic("out").read_values() == [1, 3]
        (letter,) = driver.topic("test.dead-letters").read_raw()
        assert letter.value == b"2"
        headers = dict(letter.headers)
        assert b"headers are invalid" in (headers["__streams.errors.message"] or b"")
        assert headers["__millstream.invalid_headers"] == b"\x91\x92\xa7attempt\x03"  # what is stored


def test_the_number_of_headers_is_bounded_on_write_and_on_read() -> None:
    many = [("h", b"")] * (MAX_HEADERS + 1)
    assert len(header_pairs(many[1:])) == MAX_HEADERS
    with pytest.raises(DefinitionError, match="a record has 1,001 headers; at most 1,000 are allowed"):
        header_pairs(many)
    app = App("test")
    app.stream("n", value=int).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe_raw(b"1", headers=tuple(many * 2))  # from another program
        driver.topic("n").pipe(2)
        assert driver.topic("out").read_values() == [2]
        assert [letter.value for letter in driver.topic("test.dead-letters").read_raw()] == [b"1"]


def test_a_consumer_can_seek_past_headers_that_do_not_fit(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path, durability="os") as log:
        log.create_topic("n", TopicConfig(partitions=1))
        headers: list[Headers] = [(("a", b"1"),), WRONG, ()]
        log.append([Output("n", 0, block_of([None] * 3, [b"1", b"2", b"3"], [0] * 3, headers))])
        consumer = Consumer(log, topics="n", stop_at_end=True)
        records = iter(consumer)
        assert next(records).headers == (("a", b"1"),)
        with pytest.raises(SerdeError, match=r"cannot decode the headers of n\[0\]@1; skip"):
            next(records)
        consumer.seek("n", 0, 2)
        assert next(iter(consumer)).value == 3
        kinds = [type(record.headers) for record in read_range(log, TopicPartition("n", 0), 0, 3)]
        assert kinds == [tuple, InvalidHeaders, tuple]  # dashboard and command line still show all records


class Wrap(Processor):
    headers: Any = {"text": "é", "bytes": bytearray(b"x"), "none": None}
    timestamp = 5

    def process(self, record: Record) -> None:
        if record.value == 0:
            self.context.forward(record, headers=self.headers, timestamp=self.timestamp)
        else:
            self.context.forward(record)


def test_forward_takes_headers_as_send_does() -> None:
    app = App("test")
    app.stream("n", value=int).process(Wrap).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(0)
        (record,) = driver.topic("out").read()
        assert record.headers == (("text", "é".encode()), ("bytes", b"x"), ("none", None))


@pytest.mark.parametrize(
    ("headers", "timestamp", "message"),
    [
        ({"a": 3}, 5, "header 'a' has a value of type int"),
        ((("a", b"x", 1),), 5, "not pairs"),
        ((), 2**70, "out of range"),
        ({"a": b"x" * 2_000_000}, 5, "too large for its topic"),
    ],
)
def test_a_processor_that_forwards_what_cannot_be_stored_loses_that_record_only(
    headers: Any, timestamp: int, message: str
) -> None:
    class Wrong(Wrap):
        pass

    Wrong.headers, Wrong.timestamp = headers, timestamp
    for on_error in ("fail", "dead_letter"):
        app = App("test", config=Config(on_error=on_error))
        app.stream("n", value=int).process(Wrong).to("out")
        with TestDriver(app) as driver:
            driver.topic("n").pipe(1)
            if on_error == "fail":
                with pytest.raises(ProcessingError, match=message):
                    driver.topic("n").pipe(0)
                continue
            driver.topic("n").pipe(0, 2)
            assert driver.topic("out").read_values() == [1, 2]
            assert len(driver.topic("test.dead-letters").read_raw()) == 1


def test_the_size_of_headers_is_that_in_a_block() -> None:
    pairs = header_pairs([("a", "1"), ("a", None)])
    block = block_of([None], [None], [0], [pairs])
    assert headers_size(pairs) == len(block.column(3)[0].as_py())
    assert headers_size(()) == 0
