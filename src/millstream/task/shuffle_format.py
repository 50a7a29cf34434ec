"""The format of shuffle data: the records that a task sends over an edge, one block for each task that reads them.

It is MessagePack, not the Arrow format of topics, since only tasks read it and every record becomes a Python object
at once: that needs a tenth of the time for a few records, half of it for many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from millstream.foundation.blocks import Rows, take_items, timed_rows
from millstream.foundation.key_columns import decode_keys
from millstream.foundation.partitioning import partitions_of
from millstream.operators.runtime import EdgeColumns
from millstream.records import Headers

_MAX_NARROW = 1 << 16


class _ShuffleBlock(msgspec.Struct, array_like=True):
    keys: list[bytes | None]
    """Distinct keys."""
    codes: bytes
    """For each record the index of its key, in two or eight bytes."""
    values: list[bytes | None] | None
    """None: only their presence matters, and all are present."""
    timestamps: bytes
    headers: dict[int, Headers]
    """By row, for the few records that have headers."""


class ShuffleColumns(NamedTuple):
    """The records of a block as columns."""

    keys: list[Any]
    """Distinct keys."""
    codes: Any
    """For each record the index of its key."""
    values: list[bytes | None] | None
    """None: only their presence matters, and all are present."""
    times: Any
    headers: dict[int, Headers]

    def rows(self) -> Rows:
        """Return the records as lists."""
        count = len(self.times)
        headers = [self.headers.get(row, ()) for row in range(count)] if self.headers else None
        values = [b""] * count if self.values is None else self.values
        return timed_rows(take_items(self.keys, self.codes.tolist()), values, self.times, headers)


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_ShuffleBlock).decode


def shuffle_blocks(columns: EdgeColumns, count: int) -> Iterator[tuple[int, bytes]]:
    """Split the records of an edge among ``count`` tasks; yield each task that gets some, with its block.

    Keys and records are sorted by task once, so that the cost of a task is that of its records.
    """
    key_tasks = partitions_of(columns.routes, count)
    codes = np.array(columns.codes, np.int64)
    key_order, key_bounds = _by_task(key_tasks, count)
    row_order, row_bounds = _by_task(key_tasks[codes], count)
    new_codes = np.empty(len(key_tasks), np.int64)
    new_codes[key_order] = np.arange(len(key_tasks)) - np.repeat(key_bounds[:-1], np.diff(key_bounds))
    sorted_codes, times = new_codes[codes[row_order]], np.array(columns.timestamps, np.int64)[row_order]
    rows: list[int] = row_order.tolist() if columns.values or columns.headers or columns.null_rows else []
    keys, sent_values = take_items(columns.keys, key_order.tolist()), _values(columns)
    values = None if sent_values is None else take_items(sent_values, rows)
    for task in range(count):
        first_key, last_key = key_bounds[task : task + 2].tolist()
        start, stop = row_bounds[task : task + 2].tolist()
        if start == stop:
            continue
        block = _ShuffleBlock(
            keys=keys[first_key:last_key],
            codes=_packed_codes(sorted_codes[start:stop], last_key - first_key),
            values=None if values is None else values[start:stop],
            timestamps=times[start:stop].tobytes(),
            headers=_headers(columns, rows[start:stop]) if columns.headers else {},
        )
        yield task, _pack(block)


def _by_task(tasks: Any, count: int) -> tuple[Any, Any]:
    """Return the indexes of items in the order of their tasks, and where the items of each task begin and end."""
    narrow = tasks.astype(np.uint16) if count <= _MAX_NARROW else tasks  # numpy sorts short numbers by radix
    return np.argsort(narrow, kind="stable"), np.concatenate(([0], np.cumsum(np.bincount(tasks, minlength=count))))


def _headers(columns: EdgeColumns, rows: list[int]) -> dict[int, Headers]:
    return {new_row: columns.headers[row] for new_row, row in enumerate(rows) if row in columns.headers}


def _values(columns: EdgeColumns) -> list[bytes | None] | None:
    """Return the values of an edge; None if only their presence matters, and all are present."""
    if columns.values or not columns.null_rows:
        return columns.values or None
    values: list[bytes | None] = [b""] * len(columns)
    for row in columns.null_rows:
        values[row] = None
    return values


def _packed_codes(codes: Any, keys: int) -> bytes:
    packed: bytes = (codes.astype(np.uint16) if keys <= _MAX_NARROW else codes).tobytes()
    return packed


def shuffle_columns(data: bytes) -> ShuffleColumns:
    """Return the records of a block; each distinct key is decoded once."""
    block = _unpack(data)
    times = np.frombuffer(block.timestamps, np.int64)
    return ShuffleColumns(decode_keys(block.keys), _codes(block), block.values, times, block.headers)


def _codes(block: _ShuffleBlock) -> Any:
    is_narrow = len(block.codes) < len(block.timestamps)
    return np.frombuffer(block.codes, np.uint16).astype(np.int64) if is_narrow else np.frombuffer(block.codes, np.int64)


def single_records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Divide a block into blocks of one record each; yield the timestamp of the record and its block."""
    block = _unpack(data)
    codes, timestamps = _codes(block), np.frombuffer(block.timestamps, np.int64)
    for row in range(len(timestamps)):
        single = _ShuffleBlock(
            keys=[block.keys[codes[row]]],
            codes=np.zeros(1, np.int64).tobytes(),
            values=None if block.values is None else [block.values[row]],
            timestamps=timestamps[row : row + 1].tobytes(),
            headers={0: block.headers[row]} if row in block.headers else {},
        )
        yield int(timestamps[row]), _pack(single)
