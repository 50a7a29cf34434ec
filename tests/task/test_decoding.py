import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.serdes import INT64, JSON, RAW, READABLE, TEXT, Json, Serde
from millstream.task.decoding import column_decoder


class Point(msgspec.Struct):
    x: int = 0


def outcome(decode: Any, *arguments: Any) -> Any:
    try:
        return decode(*arguments)
    except Exception:
        return "refused"


def check(serde: Serde, items: list[bytes | None]) -> None:
    """A column must be decoded like its items, or rejected if one of them is."""
    singly = outcome(lambda: [None if item is None else serde.decode(item) for item in items])
    assert outcome(column_decoder(serde), items) == singly


TEXTS = st.text(st.characters(codec="utf-8") | st.just("\n"), max_size=4)
PIECES = st.text('{}[]",:1\n \\a', max_size=8).map(str.encode)
OBJECTS = st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=2).map(
    lambda value: json.dumps(value).encode()
)


@settings(deadline=None)
@given(st.lists(PIECES | OBJECTS | st.none(), max_size=5))
def test_json_is_decoded_as_in_each_single_record_whatever_its_neighbours_are(items: list[bytes | None]) -> None:
    check(JSON, items)


@pytest.mark.parametrize(
    "items",
    [
        [b'{"x":1}', b'{"x":2}'],
        [b'{"x":1}', None, b'{"x":2}'],
        [b'{"x":1}', b"", b'{"x":2} {"x":3}'],  # three objects in three records, but not one in each
        [b'{"x":1}{"x":2}', b'{"a":[{}', b"{}]}"],
        [b'{"a":[{}', b'{}]}{"x":1}'],
        [b'{"x":\n1}', b'{"x":2}'],
        [b'{"x":"1"}'],
        [b"{", b"}"],
        [],
    ],
)
def test_ambiguous_objects_are_decoded_one_by_one(items: list[bytes | None]) -> None:
    check(Json(Point), items)
    check(JSON, items)


@settings(deadline=None)
@given(
    st.lists(
        st.binary(max_size=4) | TEXTS.map(str.encode) | st.none(),
        max_size=4,
    )
)
def test_text_that_is_not_valid_utf_8_is_rejected(items: list[bytes | None]) -> None:
    check(TEXT, items)
    check(READABLE, items)


def test_other_serdes_decode_each_item() -> None:
    check(RAW, [b"a", None])
    check(INT64, [b"\0" * 8, None])
    check(INT64, [b"\0"])
