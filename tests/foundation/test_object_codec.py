import dataclasses
import datetime
import decimal
import enum
import math
import subprocess
import sys
import uuid
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millstream.errors import SerdeError
from millstream.foundation.object_codec import OBJECT_CODEC, decode_key, encode_key, use_classes, value_codec
from millstream.serdes import INT64, JSON, RAW, TEXT, Json


class Ride(msgspec.Struct, frozen=True):
    zone: str
    when: datetime.datetime
    tags: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: tuple[float, ...] = ()


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    left: int
    right: str


int64s = st.integers(-(2**63), 2**63 - 1)
big_ints = st.integers(-(2**200), 2**200)
datetimes = st.datetimes(timezones=st.sampled_from([None, datetime.UTC]))
hashable = st.one_of(
    st.none(), st.booleans(), big_ints, st.floats(allow_nan=False), st.text(), st.binary(), st.dates(), datetimes,
    st.decimals(allow_nan=False, allow_infinity=False), st.uuids(), st.sampled_from(Color),
    st.builds(Pair, int64s, st.text()), st.builds(Point, int64s, st.lists(st.floats(allow_nan=False)).map(tuple)),
    st.builds(Ride, st.text(), datetimes, st.frozensets(st.text(), max_size=3)),
)  # fmt: skip
keys = st.recursive(hashable, lambda inner: st.one_of(st.lists(inner).map(tuple), st.frozensets(inner)), max_leaves=5)
values = st.recursive(
    st.one_of(keys, st.binary().map(bytearray), st.timedeltas(), st.times()),
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(keys, inner, max_size=3), st.sets(keys, max_size=3)
    ),
    max_leaves=8,
)


def types(value: Any) -> Any:
    """Return the types of an object and its contents; 1 == True == 1.0 would hide a difference."""
    if isinstance(value, dict):
        return dict, sorted((str((types(key), types(item))) for key, item in value.items()))
    if type(value) in (list, tuple, set, frozenset):
        inner = [str(types(item)) for item in value]
        return type(value), inner if isinstance(value, list | tuple) else sorted(inner)
    return type(value)


@settings(deadline=None)
@given(values)
@example([(1, 2)])
@example([2**64, {-(2**63) - 1: 2**64 - 1}])
@example({"seen": {1, 2}})
@example({(1, (2,)): frozenset({Color.RED})})
def test_every_object_round_trips(value: Any) -> None:
    decoded = OBJECT_CODEC.decode(OBJECT_CODEC.encode(value))
    assert decoded == value
    assert types(decoded) == types(value)


@settings(deadline=None)
@given(keys)
def test_every_key_round_trips(key: Any) -> None:
    decoded = decode_key(encode_key(key))
    assert decoded == key
    assert types(decoded) == types(key)


@given(st.frozensets(st.text(), min_size=2, max_size=5), st.randoms())
def test_equal_sets_are_equal_keys_regardless_of_insertion_order(items: frozenset[str], random: Any) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)
    assert encode_key(frozenset(shuffled)) == encode_key(items)


@pytest.mark.parametrize(
    "kind", [st.text(), int64s, st.binary(), st.floats(allow_nan=False)], ids=["str", "int", "bytes", "float"]
)
def test_the_order_of_bytes_is_the_order_of_keys(kind: st.SearchStrategy[Any]) -> None:
    @given(kind, kind)
    def law(left: Any, right: Any) -> None:
        if left < right:
            assert encode_key(left) < encode_key(right)
        elif type(left) is not float:
            assert (encode_key(left) == encode_key(right)) == (left == right)

    law()


def test_nan_and_infinity_are_valid_keys() -> None:
    assert math.isnan(decode_key(encode_key(math.nan)))
    assert encode_key(-math.inf) < encode_key(-0.0) < encode_key(0.0) < encode_key(math.inf)


def test_keys_that_are_equal_in_python_but_of_different_type_are_different() -> None:
    assert len({encode_key(key) for key in (1, True, 1.0, "1", b"1", decimal.Decimal(1), None)}) == 7


@pytest.mark.parametrize("value", [object(), {"in": object()}, [lambda: 0], type("Local", (msgspec.Struct,), {}), 1j])
def test_objects_that_could_not_be_decoded_are_not_encoded(value: object) -> None:
    with pytest.raises(SerdeError, match=r"cannot store an object of type .*; make it a msgspec.Struct or a dataclass"):
        OBJECT_CODEC.encode(value)


DECODE_ELSEWHERE = """
import sys
from millstream.foundation.object_codec import OBJECT_CODEC
data = [bytes.fromhex(line) for line in sys.stdin.read().split()]
def forbid(event, details):
    if event in ("import", "exec", "compile", "open", "os.system", "subprocess.Popen"):
        raise RuntimeError(f"{event} {details}")
sys.addaudithook(forbid)
print([OBJECT_CODEC.decode(item) for item in data])
"""


def test_without_the_class_plain_data_is_returned_and_nothing_is_imported() -> None:
    ride = Ride("a", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    evil = b"\xc1\x00\x09os:system" + msgspec.msgpack.encode("true")
    module = b"\xc1\x00\x0fantigravity:fly" + msgspec.msgpack.encode(1)
    given = [OBJECT_CODEC.encode(ride), OBJECT_CODEC.encode([Point(1), {2}]), evil, module]
    ran = subprocess.run(
        [sys.executable, "-c", DECODE_ELSEWHERE],
        input="\n".join(data.hex() for data in given), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.strip() == str(
        [{"zone": "a", "when": ride.when, "tags": []}, [{"x": 1, "y": []}, {2}], "true", 1]
    )


def test_declared_types_get_the_fastest_codec() -> None:
    assert [value_codec(serde).name for serde in (TEXT, RAW, INT64, Json(int), JSON, None)] == [
        "str", "bytes", "int64", "msgpack:int", "native", "native",
    ]  # fmt: skip
    codec, ride = value_codec(Json(Ride)), Ride("a", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    assert codec.decode(codec.encode(ride)) == ride


def test_uuid_and_bytearray_are_not_confused_with_their_bytes() -> None:
    number = uuid.UUID(int=1)
    assert [type(OBJECT_CODEC.decode(OBJECT_CODEC.encode(value))) for value in (number, bytearray(b"x"), b"x")] == [
        uuid.UUID, bytearray, bytes,
    ]  # fmt: skip


def test_classes_that_were_sent_to_a_process_decode_objects_until_others_are_used() -> None:
    """A worker gets them with a plan: their module is a notebook, which it cannot import."""
    old = msgspec.defstruct("Cell", [("n", int)], module="notebook")
    new = msgspec.defstruct("Cell", [("n", int), ("note", str, "new")], module="notebook")
    stored = OBJECT_CODEC.encode(old(3))
    assert OBJECT_CODEC.decode(stored) == {"n": 3}
    try:
        for kind in (old, new, old):
            use_classes({"notebook:Cell": kind})
            assert OBJECT_CODEC.decode(stored) == kind(3)
    finally:
        use_classes({})
    assert OBJECT_CODEC.decode(stored) == {"n": 3}


def test_a_tuple_of_plain_values_has_the_bytes_that_stored_keys_have() -> None:
    assert OBJECT_CODEC.encode((1, "a")) == b"\xc1\x00\x05tuple\x92\x01\xa1a"
    assert OBJECT_CODEC.encode((1, (2,))) == b"\xc1\x00\x05tuple\x92\x01\xc7\x0a\x01\xc1\x00\x05tuple\x91\x02"


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
def test_a_tuple_may_hold_integers_of_more_than_64_bits(number: int) -> None:
    assert OBJECT_CODEC.decode(OBJECT_CODEC.encode((number, "a"))) == (number, "a")
