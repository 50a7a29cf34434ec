"""No record stops an app whose error policy is to continue."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from millstream import App
from millstream.config import Config
from millstream.foundation.object_codec import OBJECT_CODEC, value_codec
from millstream.serdes import JSON, Json, MessagePack
from millstream.task.decoding import column_decoder
from millstream.testing import TestDriver

CONTINUE = Config(on_error="dead_letter")


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


@pytest.mark.parametrize("at", ["1e30", "1e308", "1" + "0" * 30, "9223372036854775808", "-1e30"])
@pytest.mark.parametrize(("on_invalid", "times"), [("skip", [5]), ("partition_time", [5, 5])])
def test_a_time_that_cannot_be_stored_is_no_valid_time(at: str, on_invalid: Any, times: list[int]) -> None:
    app = App("test")
    app.stream("n", timestamp=lambda value: value["at"], on_invalid=on_invalid).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe({"at": 5})
        driver.topic("n").pipe_raw(f'{{"at":{at}}}'.encode())
        assert [record.timestamp for record in driver.topic("out").read_raw()] == times


def test_a_datetime_that_has_no_timestamp_is_no_valid_time() -> None:
    app = App("test")
    app.stream("n", value=int, timestamp=lambda n: datetime(n, 1, 1), on_invalid="skip").to("out")  # noqa: DTZ001 - that is tested
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2000)
        assert driver.topic("out").read_values() == [2000]


@pytest.mark.parametrize("depth", [65, 330, 980, 5000])
def test_json_that_is_nested_too_deeply_is_a_dead_letter(depth: int) -> None:
    app = App("test", config=CONTINUE)
    stream = app.stream("n")
    stream.to("out")
    stream.group_by_key().reduce(lambda _, value: value, name="last")
    with TestDriver(app) as driver:
        for data in (
            b"1",
            nested(depth),
            b'{"a":' + nested(depth - 1) + b"}",
            nested(64),
            b'{"a":"' + b"[" * 99 + b'"}',
        ):
            driver.topic("n").pipe_raw(data, key=b"k")
        assert [record.value for record in driver.topic("out").read_raw()] == [
            b"1",
            nested(64),
            b'{"a":"' + b"[" * 99 + b'"}',
        ]
        assert len(driver.topic("test.dead-letters").read_raw()) == 2


def test_columns_of_json_are_checked_too() -> None:
    flat, deep = b'{"a":[{"b":"' + b"x" * 200 + b'"}]}', b'{"a":' + nested(64) + b"}"
    column: list[bytes | None] = [*[flat] * 100, deep]
    with pytest.raises(ValueError, match="nested more than 64 levels deep"):
        column_decoder(JSON)(column)
    with pytest.raises(ValueError, match="nested more than 64 levels deep"):
        column_decoder(Json(dict[str, Any]))(column)
    assert len(column_decoder(JSON)([flat] * 100)) == 100


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (datetime, b'"0001-01-01T00:00:00+14:00"'),
        (datetime, b'"9999-12-31T23:59:59-14:00"'),
        (int, b"1" + b"0" * 30),
        (list[int], b"[-1" + b"0" * 30 + b"]"),
    ],
)
def test_what_messagepack_cannot_represent_is_stored(kind: Any, data: bytes) -> None:
    for declared in (kind, None):
        app = App("test")
        table = app.table("n", value=kind)
        if declared is None:
            table = app.stream("m", value=kind).map_values(lambda value: value).to_table(name="untyped")
        table.to_stream().to("out")
        with TestDriver(app) as driver:
            driver.topic("m" if declared is None else "n").pipe_raw(data, key=b"k")
            value = driver.table("untyped" if declared is None else "n")["k"]
            assert value == msgspec.json.decode(data, type=kind)
            assert driver.topic("out").read_raw()[0].value == data
    stored = value_codec(Json(kind)).encode(msgspec.json.decode(data, type=kind))
    assert OBJECT_CODEC.decode(stored) == msgspec.json.decode(data)  # how tools read it that do not know the type


def test_messagepack_extensions_are_dead_letters() -> None:
    app = App("test", config=CONTINUE)
    app.table("n", value=MessagePack()).to_stream().to("out")
    with TestDriver(app) as driver:
        extension = msgspec.msgpack.encode({"a": msgspec.msgpack.Ext(5, b"x")})
        for data in (extension, b"\x91" * 65 + b"\x01", msgspec.msgpack.encode("good")):
            driver.topic("n").pipe_raw(data, key=b"k")
        assert driver.table("n")["k"] == "good"
        assert len(driver.topic("test.dead-letters").read_raw()) == 2
    declared = MessagePack(dict[str, msgspec.msgpack.Ext]).decode(extension)
    assert (declared["a"].code, declared["a"].data) == (5, b"x")


@pytest.mark.parametrize("error", [ValueError("\ud800"), UnprintableError(), ValueError(Unprintable())])
def test_an_error_that_cannot_be_printed_is_a_dead_letter(error: Exception) -> None:
    def fail(value: int) -> Any:
        if value == 0:
            raise error
        return value

    app = App("test", config=CONTINUE)
    app.stream("n", value=int).map_values(fail).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 0, 2)
        assert driver.topic("out").read_values() == [1, 2]
        assert len(driver.topic("test.dead-letters").read_raw()) == 1


def test_a_value_that_can_neither_be_encoded_nor_printed_is_a_dead_letter() -> None:
    app = App("test", config=CONTINUE)
    app.stream("n", value=int).map_values(lambda n: n or Unprintable()).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 0, 2)
        assert driver.topic("out").read_values() == [1, 2]
        (letter,) = driver.topic("test.dead-letters").read_raw()
        assert b"its repr raises" in (dict(letter.headers)["__streams.errors.message"] or b"")
