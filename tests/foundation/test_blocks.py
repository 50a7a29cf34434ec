import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.blocks import (
    SCHEMA,
    SPARSE_SCHEMA,
    block_of,
    column_from_lines,
    from_bytes,
    headers_of,
    max_item_length,
    to_bytes,
)
from millstream.records import Headers

maybe_bytes = st.none() | st.binary(max_size=20)
timestamps = st.integers(-(2**63), 2**63 - 1)
some_headers = st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple)
rows = st.lists(st.tuples(maybe_bytes, maybe_bytes, timestamps, some_headers), max_size=120)


@given(rows)
def test_a_block_round_trips_through_bytes(rows: list[tuple[bytes | None, bytes | None, int, Headers]]) -> None:
    keys, values = [row[0] for row in rows], [row[1] for row in rows]
    times, headers = [row[2] for row in rows], [row[3] for row in rows]
    block = from_bytes(to_bytes(block_of(keys, values, times, headers)))
    assert block.column(0).to_pylist() == keys
    assert block.column(1).to_pylist() == values
    assert block.column(2).to_pylist() == times
    assert (headers_of(block) or [()] * len(rows)) == headers


def test_headers_of_records_without_headers_are_none() -> None:
    assert headers_of(block_of([b"k"], [b"v"], [0])) is None
    assert headers_of(block_of([b"k"], [b"v"], [0], [()])) is None


def test_headers_may_repeat_and_keep_their_order() -> None:
    headers: Headers = (("trace", b"1"), ("trace", None), ("a", b""))
    block = block_of([None, None], [b"v", b"w"], [0, 1], [(), headers])
    assert headers_of(from_bytes(to_bytes(block))) == [(), headers]


def test_an_empty_block_round_trips() -> None:
    block = from_bytes(to_bytes(block_of([], [], [])))
    assert (block.num_rows, block.schema) == (0, SCHEMA)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        block_of([b"k"], [b"v", b"w"], [0, 1])


def test_reading_does_not_copy() -> None:
    data = pa.py_buffer(to_bytes(block_of([b"k" * 100], [b"v" * 100], [0])))
    values = from_bytes(memoryview(data)).column(1).buffers()[2]
    assert data.address <= values.address < data.address + data.size


def test_a_sparse_block_has_an_offset_column() -> None:
    assert [*SCHEMA.names, "offset"] == SPARSE_SCHEMA.names


@given(st.lists(st.binary(max_size=20).map(lambda item: item.replace(b"\n", b"")), max_size=30))
def test_lines_become_a_column(items: list[bytes]) -> None:
    column = column_from_lines(b"".join(item + b"\n" for item in items), len(items))
    assert column is not None
    assert column.to_pylist() == items
    assert max_item_length(column) == max(map(len, items), default=0)
    block = from_bytes(to_bytes(block_of([None] * len(items), column, [0] * len(items))))
    assert block.column(1).to_pylist() == items


def test_more_lines_than_expected_return_none() -> None:
    assert column_from_lines(b"a\nb\n", 1) is None
