"""Whole columns of rows are decoded and encoded as the rows themselves."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.object_codec import OBJECT_CODEC
from millstream.operators.sinks import encoded_column
from millstream.sql.rows.formats import JsonRows, KafkaRows
from millstream.sql.types import BIGINT, BOOLEAN, DOUBLE, STRING, array
from millstream.task.decoding import column_decoder

COLUMNS = {"ID": BIGINT, "NAME": STRING, "PRICE": DOUBLE, "OK": BOOLEAN, "TAGS": array(STRING)}
texts = st.text('ab\n"{}é😀', max_size=4)
rows = st.fixed_dictionaries(
    {
        "ID": st.none() | st.integers(-(2**63), 2**63 - 1),
        "NAME": st.none() | texts,
        "PRICE": st.none() | st.floats(),
        "OK": st.none() | st.booleans(),
        "TAGS": st.none() | st.lists(texts, max_size=3),
    }
)


def data(row: dict[str, Any], case: str) -> bytes:
    """Return a row as another program may write it."""
    if case == "missing":
        row = dict(list(row.items())[:-1])
    names = str.lower if case == "lower" else str.title if case == "title" else str
    return msgspec.json.encode({names(name): value for name, value in row.items()})


@given(st.lists(st.tuples(rows, st.sampled_from(["upper", "lower", "title", "missing"])), max_size=5))
def test_columns_are_decoded_as_their_rows(items: list[tuple[dict[str, Any], str]]) -> None:
    lines: list[bytes | None] = [data(row, case) for row, case in items]
    for column in (lines, [*lines, None]):
        one_by_one = [None if line is None else JsonRows(COLUMNS).decode(line) for line in column]
        assert repr(column_decoder(JsonRows(COLUMNS))(column)) == repr(one_by_one)  # NaN differs from itself


@pytest.mark.parametrize("case", ["upper", "lower"])
def test_columns_of_one_case_need_no_single_decoding(case: str) -> None:
    serde = JsonRows(COLUMNS)
    row = {"ID": 1, "NAME": "a", "PRICE": 0.5, "OK": True, "TAGS": ["x"]}
    assert serde.decode_lines(b"\n".join([data(row, case)] * 3)) == [row] * 3


@given(st.lists(rows, min_size=64, max_size=70))
def test_columns_are_encoded_as_their_rows(items: list[dict[str, Any]]) -> None:
    serde = JsonRows(COLUMNS)
    column: Any = encoded_column(serde, items)
    assert (column if isinstance(column, list) else column.to_pylist()) == [serde.encode(row) for row in items]


def test_doubles_that_json_does_not_have_are_text() -> None:
    serde = JsonRows({"X": DOUBLE})
    column: Any = encoded_column(serde, [{"X": 1.5}, {"X": math.inf}, {"X": None}] * 30)
    assert list(column)[:3] == [b'{"X":1.5}', b'{"X":"Infinity"}', b'{"X":null}']


def test_text_keys_are_decoded_like_text() -> None:
    serde = KafkaRows({"K": STRING}, is_key=True)
    assert column_decoder(serde)([b"a", None, b""]) == ["a", None, ""]


@given(st.lists(st.lists(st.none() | st.integers() | st.floats() | texts | st.lists(st.integers(), max_size=2))))
def test_lists_are_encoded_together_as_one_by_one(items: list[list[Any]]) -> None:
    assert OBJECT_CODEC.encode_column(items) == [OBJECT_CODEC.encode(item) for item in items]
