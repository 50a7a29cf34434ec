"""The format of shuffle data: the records that a task sends over an edge, one block for each task that reads them.

It is MessagePack, not the Arrow format of topics, since only tasks read it and every record becomes a Python object
at once: that needs a tenth of the time for a few records, half of it for many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from millstream.foundation.blocks import Rows, take_items
from millstream.foundation.key_columns import decode_keys
from millstream.foundation.partitioning import partitions_of
from millstream.operators.runtime import EdgeColumns
from millstream.records import Headers

_MAX_NARROW = 1 << 16


class _ShuffleBlock(msgspec.Struct, array_like=True):
    keys: list[bytes | None]
    """Distinct keys."""
    codes: bytes
    """For each record the index of its key."""
    values: list[bytes | None]
    timestamps: bytes
    headers: dict[int, Headers]
    """By row, for the few records that have headers."""


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
    rows = row_order.tolist()
    keys, values = take_items(columns.keys, key_order.tolist()), take_items(columns.values, rows)
    for task in range(count):
        first_key, last_key = key_bounds[task : task + 2].tolist()
        start, stop = row_bounds[task : task + 2].tolist()
        if start == stop:
            continue
        block = _ShuffleBlock(
            keys=keys[first_key:last_key],
            codes=sorted_codes[start:stop].tobytes(),
            values=values[start:stop],
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


def shuffle_rows(data: bytes) -> Rows:
    """Return the records of a block; each distinct key is decoded once."""
    block = _unpack(data)
    codes = np.frombuffer(block.codes, np.int64)
    keys = decode_keys(block.keys)
    timestamps: list[int] = np.frombuffer(block.timestamps, np.int64).tolist()
    headers = [block.headers.get(row, ()) for row in range(len(timestamps))] if block.headers else None
    return Rows(take_items(keys, codes.tolist()), block.values, timestamps, headers)


def single_records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Divide a block into blocks of one record each; yield the timestamp of the record and its block."""
    block = _unpack(data)
    codes, timestamps = np.frombuffer(block.codes, np.int64), np.frombuffer(block.timestamps, np.int64)
    for row, value in enumerate(block.values):
        single = _ShuffleBlock(
            keys=[block.keys[codes[row]]],
            codes=np.zeros(1, np.int64).tobytes(),
            values=[value],
            timestamps=timestamps[row : row + 1].tobytes(),
            headers={0: block.headers[row]} if row in block.headers else {},
        )
        yield int(timestamps[row]), _pack(single)
