"""Shuffle data: records arrive unchanged at another stage, each at the task of its key."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.key_columns import decode_keys, hashable_keys
from millstream.foundation.object_codec import encode_key
from millstream.foundation.partitioning import partition_of
from millstream.operators.runtime import EdgeColumns
from millstream.serdes import READABLE
from millstream.task.shuffle_format import shuffle_blocks, shuffle_columns

Sent = list[tuple[str | None, bytes | None, int, bool]]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.text(max_size=2)),
            st.one_of(st.none(), st.binary(max_size=4)),
            st.integers(-(2**63), 2**63 - 1),
            st.booleans(),
        ),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 4),
)
def test_a_block_contains_the_records_of_its_task_in_order(sent: Sent, tasks: int) -> None:
    columns = EdgeColumns()
    numbers = columns.numbers(str.encode)
    for key, value, timestamp, has_headers in sent:
        columns.codes.append(numbers[encode_key(key) if key is None else key])
        columns.values.append(value)
        columns.timestamps.append(timestamp)
        if has_headers:
            columns.set_headers((("h", b"1"),))
    expected: dict[int, Sent] = {}
    for record in sent:
        task = partition_of((record[0] or "").encode(), tasks)
        expected.setdefault(task, []).append(record)
    rows_by_task = {}
    for task, block in shuffle_blocks(columns, tasks):
        rows = shuffle_columns(block).rows()
        headers = rows.headers or [()] * len(rows.keys)
        assert set(headers) <= {(), (("h", b"1"),)}
        rows_by_task[task] = list(zip(rows.keys, rows.values, rows.timestamps, map(bool, headers), strict=True))
    assert rows_by_task == expected


@pytest.mark.parametrize(
    "keys",
    [["b", "a", "b", "é"], [3, -1, 3, 2**63 - 1, -(2**63)], [2**70, 1], ["1", 1, True, 1.0, b"1", None, "1"], []],
)
def test_numbers_of_many_keys_are_those_of_each_key(keys: list[Any]) -> None:
    handles = hashable_keys(keys)
    together, alone = EdgeColumns(), EdgeColumns()
    assert together.numbers(READABLE.encode).of_all(handles) == [
        alone.numbers(READABLE.encode)[handle] for handle in handles
    ]
    assert (together.keys, together.routes) == (alone.keys, alone.routes)
    decoded = decode_keys(together.keys)
    assert [(type(key), key) for key in decoded] == list(dict.fromkeys((type(key), key) for key in keys))


def test_keys_that_cannot_be_encoded_leave_no_number() -> None:
    columns = EdgeColumns()
    with pytest.raises(UnicodeEncodeError):
        columns.numbers(READABLE.encode).of_all(["a", "\ud800"])
    assert (columns.keys, columns.routes) == ([], [])
    assert columns.numbers(READABLE.encode).of_all(["b"]) == [0]
