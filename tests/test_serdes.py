import dataclasses
import math
import pickle
from typing import Any, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import DefinitionError, SerdeError
from millstream.serdes import (
    FLOAT64,
    INT32,
    INT64,
    JSON,
    RAW,
    READABLE,
    TEXT,
    Binary,
    Json,
    MessagePack,
    Serde,
    encode_error,
    serde_for,
    type_name,
)


class Ride(msgspec.Struct):
    ride_id: str
    amount: float


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Row(TypedDict):
    city: str


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(json_values)
def test_json_and_messagepack_round_trip(value: Any) -> None:
    for serde in (JSON, MessagePack()):
        assert serde.decode(serde.encode(value)) == value


@pytest.mark.parametrize(
    ("type", "value", "data"),
    [
        (int, 3, b"3"),
        (float, 2.5, b"2.5"),
        (bool, True, b"true"),
        (str, "naïve", "naïve".encode()),
        (bytes, b"\x00\xff", b"\x00\xff"),
        (list[int], [1, 2], b"[1,2]"),
        (Ride, Ride("a", 9.5), b'{"ride_id":"a","amount":9.5}'),
        (Point, Point(1, 2), b'{"x":1,"y":2}'),
        (Row, {"city": "Ulm"}, b'{"city":"Ulm"}'),
    ],
)
def test_a_type_selects_its_serde(type: Any, value: Any, data: bytes) -> None:
    serde = serde_for(type)
    assert serde is not None
    assert serde.encode(value) == data
    assert serde.decode(data) == value


def test_none_selects_no_serde_and_a_serde_selects_itself() -> None:
    assert serde_for(None) is None
    assert serde_for(INT64) is INT64


class Opaque:
    pass


@pytest.mark.parametrize("unsupported", [Opaque, 7, [int], "int"])
def test_an_unsupported_type_is_rejected_when_it_is_declared(unsupported: Any) -> None:
    with pytest.raises(DefinitionError, match="cannot be used as a type of keys or values"):
        serde_for(unsupported)


@pytest.mark.parametrize(
    ("type", "data"), [(int, b'"3"'), (Ride, b'{"ride_id":1}'), (list[int], b"[null]"), (dict, b"{")]
)
def test_bytes_of_another_type_fail_to_decode(type: Any, data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Json(type).decode(data)


@pytest.mark.parametrize(
    ("key", "data"),
    [("u17", b"u17"), (b"\xff", b"\xff"), (17, b"17"), (True, b"true"), (["a", 1], b'["a",1]'), ("", b"")],
)
def test_readable_keys_are_encoded_without_quotes(key: Any, data: bytes) -> None:
    assert READABLE.encode(key) == data


@given(st.text())
def test_readable_and_text_decode_to_text(key: str) -> None:
    assert READABLE.decode(READABLE.encode(key)) == TEXT.decode(TEXT.encode(key)) == key


@pytest.mark.parametrize(
    ("serde", "number", "data"),
    [
        (INT32, -2, b"\xff\xff\xff\xfe"),
        (INT64, 1, b"\0\0\0\0\0\0\0\x01"),
        (FLOAT64, -1.5, b"\xbf\xf8\0\0\0\0\0\0"),
        (FLOAT64, math.inf, b"\x7f\xf0\0\0\0\0\0\0"),
    ],
)
def test_binary_numbers_match_the_java_serializers(serde: Binary, number: float, data: bytes) -> None:
    assert serde.encode(number) == data
    assert serde.decode(data) == number


@pytest.mark.parametrize(
    ("serde", "value"), [(TEXT, 5), (TEXT, b"x"), (RAW, 5), (RAW, "x"), (INT32, 2**31), (INT64, "1"), (JSON, object())]
)
def test_an_object_of_another_type_fails_to_encode(serde: Serde, value: Any) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        serde.encode(value)
    error = encode_error("value", value, serde, caught.value)
    assert isinstance(error, SerdeError)
    assert (error.facts, error.hint is None) == ({"serde": serde.name}, False)


@pytest.mark.parametrize("serde", [TEXT, READABLE])
def test_text_must_be_utf8(serde: Serde) -> None:
    with pytest.raises(UnicodeDecodeError):
        serde.decode(b"\xff")


@pytest.mark.parametrize("serde", [TEXT, RAW, JSON, READABLE, INT32, INT64, FLOAT64, Json(Ride), MessagePack(Ride)])
def test_serdes_can_be_pickled(serde: Serde) -> None:
    copy = pickle.loads(pickle.dumps(serde))
    assert isinstance(copy, Serde)
    assert copy.name == serde.name


def test_type_names_are_stable() -> None:
    assert [type_name(int), type_name(list[int]), type_name(Ride).rpartition(".")[2]] == ["int", "list[int]", "Ride"]
    assert (JSON.name, Json(int).name, MessagePack().name) == ("json", "json:int", "msgpack")
