"""Row formats: bytes of a topic to columns and back."""

import datetime as dt
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import SerdeError
from millstream.sql.compiled import parse_type
from millstream.sql.rows.formats import DelimitedRows, JsonRows, KafkaRows, NoRows
from millstream.sql.types import BIGINT, DOUBLE, INTEGER, STRING, array, decimal

VALUES: dict[str, Any] = {
    "BOOLEAN": st.booleans(),
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
    "DECIMAL(9, 3)": st.decimals(-99999, 99999, places=3, allow_nan=False),
    "STRING": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), min_size=1),
    "BYTES": st.binary(min_size=1),
    "DATE": st.dates(dt.date(1900, 1, 1)),
    "TIME": st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    "TIMESTAMP": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(dt.UTC)).map(  # noqa: DTZ001
        lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    ),
}
NESTED: dict[str, Any] = {
    "ARRAY<DATE>": st.lists(st.none() | VALUES["DATE"]),
    "MAP<STRING, DECIMAL(9, 3)>": st.dictionaries(VALUES["STRING"], VALUES["DECIMAL(9, 3)"]),
    "STRUCT<`A` TIMESTAMP, `B` ARRAY<INTEGER>>": st.fixed_dictionaries(
        {"A": st.none() | VALUES["TIMESTAMP"], "B": st.none() | st.lists(VALUES["INTEGER"])}
    ),
}


def rows_of(values: dict[str, Any]) -> Any:
    return st.fixed_dictionaries({name: st.none() | strategy for name, strategy in values.items()})


@settings(max_examples=25)
@given(rows_of(VALUES | NESTED))
def test_json_rows_are_read_as_they_were_written(row: dict[str, Any]) -> None:
    serde = JsonRows({name: parse_type(name) for name in row})
    assert serde.decode(serde.encode(row)) == row


@settings(max_examples=25)
@given(rows_of(VALUES))
def test_delimited_rows_are_read_as_they_were_written(row: dict[str, Any]) -> None:
    serde = DelimitedRows({name: parse_type(name) for name in row}, delimiter="|")
    assert serde.decode(serde.encode(row)) == row


def test_json_matches_names_in_any_case_and_converts_what_fits() -> None:
    serde = JsonRows({"A": INTEGER, "B": STRING, "C": decimal(4, 2)})
    assert serde.decode(b'{"a": "12", "b": {"x": 1}, "c": 1.5, "z": 0}') == {
        "A": 12,
        "B": '{"x":1}',
        "C": Decimal("1.50"),
    }


@pytest.mark.parametrize("data", [b'{"A": "x"}', b'{"A": 3000000000}', b'{"A": true}', b"[1]", b"{"])
def test_json_refuses_what_does_not_fit(data: bytes) -> None:
    with pytest.raises((ValueError, msgspec.DecodeError)):
        JsonRows({"A": INTEGER}).decode(data)


def test_keys_are_values_tuples_or_nothing() -> None:
    assert JsonRows({"A": INTEGER}, is_key=True, is_wrapped=False).decode(b"5") == 5
    assert JsonRows({"A": INTEGER, "B": STRING}, is_key=True).decode(b'{"A": 5, "B": "x"}') == (5, "x")
    assert KafkaRows({"A": BIGINT}, is_key=True).encode(1) == bytes(7) + b"\x01"
    assert KafkaRows({"A": DOUBLE}).decode(KafkaRows({"A": DOUBLE}).encode({"A": 0.5})) == {"A": 0.5}
    assert NoRows({}, is_key=True).decode(b"anything") is None


def test_delimited_refuses_another_number_of_columns() -> None:
    with pytest.raises(SerdeError, match="has 3 columns, but 2 are declared"):
        DelimitedRows({"A": INTEGER, "B": INTEGER}).decode(b"1,2,3")


@pytest.mark.parametrize(
    "data",
    [
        b'{"A": 1, "B": "x", "C": [1.5, null]}',
        b'{"a": 1, "b": "x", "c": [1.5, null]}',
        b'{"c": [1.5, null], "A": 1, "b": "x", "z": 0}',
        b'{"A": "1", "B": "x", "C": ["1.5", null]}',
    ],
)
def test_all_ways_to_write_a_row_give_the_same_row(data: bytes) -> None:
    serde = JsonRows({"A": INTEGER, "B": STRING, "C": array(DOUBLE)})
    for _ in range(3):  # the fast path remembers how the last row was written
        assert serde.decode(b'{"A": 2, "B": "y", "C": []}') == {"A": 2, "B": "y", "C": []}
        assert serde.decode(data) == {"A": 1, "B": "x", "C": [1.5, None]}
        assert serde.decode(b'{"a": 3}') == {"A": 3, "B": None, "C": None}


def test_rows_that_always_miss_the_fast_path_are_still_read() -> None:
    serde = JsonRows({"A": INTEGER, "B": STRING})
    for number in range(1500):
        assert serde.decode(b'{"A": %d}' % number) == {"A": number, "B": None}
