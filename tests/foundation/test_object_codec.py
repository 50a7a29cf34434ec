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
from millstream.foundation.object_codec import OBJECT_CODEC, decode_key, encode_key, value_codec
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


whole = st.integers(-(2**63), 2**63 - 1)
huge = st.integers(-(2**200), 2**200)
moments = st.datetimes(timezones=st.sampled_from([None, datetime.UTC]))
hashable = st.one_of(
    st.none(), st.booleans(), huge, st.floats(allow_nan=False), st.text(), st.binary(), st.dates(), moments,
    st.decimals(allow_nan=False, allow_infinity=False), st.uuids(), st.sampled_from(Color),
    st.builds(Pair, whole, st.text()), st.builds(Point, whole, st.lists(st.floats(allow_nan=False)).map(tuple)),
    st.builds(Ride, st.text(), moments, st.frozensets(st.text(), max_size=3)),
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
    """Return the type of an object and of everything in it; 1 == True == 1.0 would hide a difference."""
    if isinstance(value, dict):
        return dict, sorted((str((types(key), types(item))) for key, item in value.items()))
    if type(value) in (list, tuple, set, frozenset):
        found = [str(types(item)) for item in value]
        return type(value), found if isinstance(value, list | tuple) else sorted(found)
    return type(value)


@settings(deadline=None)
@given(values)
@example([(1, 2)])
@example([2**64, {-(2**63) - 1: 2**64 - 1}])
@example({"seen": {1, 2}})
@example({(1, (2,)): frozenset({Color.RED})})
def test_every_object_comes_back_as_what_it_was(value: Any) -> None:
    found = OBJECT_CODEC.decode(OBJECT_CODEC.encode(value))
    assert found == value
    assert types(found) == types(value)


@settings(deadline=None)
@given(keys)
def test_every_key_comes_back_as_what_it_was(key: Any) -> None:
    found = decode_key(encode_key(key))
    assert found == key
    assert types(found) == types(key)


@given(st.frozensets(st.text(), min_size=2, max_size=5), st.randoms())
def test_equal_sets_are_equal_keys_in_whatever_order_they_were_built(items: frozenset[str], random: Any) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)
    assert encode_key(frozenset(shuffled)) == encode_key(items)


@pytest.mark.parametrize(
    "kind", [st.text(), whole, st.binary(), st.floats(allow_nan=False)], ids=["str", "int", "bytes", "float"]
)
def test_the_order_of_bytes_is_the_order_of_keys(kind: st.SearchStrategy[Any]) -> None:
    @given(kind, kind)
    def law(one: Any, two: Any) -> None:
        if one < two:
            assert encode_key(one) < encode_key(two)
        elif type(one) is not float:
            assert (encode_key(one) == encode_key(two)) == (one == two)

    law()


def test_a_float_that_is_no_number_is_a_key_too() -> None:
    assert math.isnan(decode_key(encode_key(math.nan)))
    assert encode_key(-math.inf) < encode_key(-0.0) < encode_key(0.0) < encode_key(math.inf)


def test_keys_that_are_equal_in_python_but_of_different_type_are_different() -> None:
    assert len({encode_key(key) for key in (1, True, 1.0, "1", b"1", decimal.Decimal(1), None)}) == 7


@pytest.mark.parametrize("value", [object(), {"in": object()}, [lambda: 0], type("Local", (msgspec.Struct,), {}), 1j])
def test_what_could_not_be_decoded_is_not_encoded(value: object) -> None:
    with pytest.raises(SerdeError, match=r"cannot keep an object of type .*; make it a msgspec.Struct or a dataclass"):
        OBJECT_CODEC.encode(value)


DECODE_ELSEWHERE = """
import sys
from millstream.foundation.object_codec import OBJECT_CODEC
data = [bytes.fromhex(line) for line in sys.stdin.read().split()]
def forbid(event, details):
    if event in ("import", "exec", "compile", "open", "os.system", "subprocess.Popen"):
        raise RuntimeError(f"{event} {details}")
sys.addaudithook(forbid)
found = [OBJECT_CODEC.decode(one) for one in data]
print(found)
"""


def test_where_a_class_is_not_known_its_data_is_shown_and_nothing_is_imported() -> None:
    ride = Ride("a", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    evil = b"\xc1\x00\x09os:system" + msgspec.msgpack.encode("true")
    module = b"\xc1\x00\x0fantigravity:fly" + msgspec.msgpack.encode(1)
    given = [OBJECT_CODEC.encode(ride), OBJECT_CODEC.encode([Point(1), {2}]), evil, module]
    ran = subprocess.run(
        [sys.executable, "-c", DECODE_ELSEWHERE],
        input="\n".join(one.hex() for one in given), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.strip() == str(
        [{"zone": "a", "when": ride.when, "tags": []}, [{"x": 1, "y": []}, {2}], "true", 1]
    )


def test_declared_types_are_kept_in_the_quickest_way() -> None:
    assert [value_codec(one).name for one in (TEXT, RAW, INT64, Json(int), JSON, None)] == [
        "str", "bytes", "int64", "msgpack:int", "native", "native",
    ]  # fmt: skip
    codec, ride = value_codec(Json(Ride)), Ride("a", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    assert codec.decode(codec.encode(ride)) == ride


def test_uuid_and_bytearray_are_not_confused_with_their_bytes() -> None:
    one = uuid.UUID(int=1)
    assert [type(OBJECT_CODEC.decode(OBJECT_CODEC.encode(value))) for value in (one, bytearray(b"x"), b"x")] == [
        uuid.UUID, bytearray, bytes,
    ]  # fmt: skip
