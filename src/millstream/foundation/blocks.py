"""Blocks of records as Arrow record batches: the format of the log and the outbox, and the source of DataFrames.

Shuffle data has a different format, see ``task/shuffle_format.py``. A block has one row per record. All blocks have
the same schema, so it is not part of their bytes. Headers are rare: they are one binary column of MessagePack, null
for a record without headers. ``offset`` is only present where offsets have gaps (after compaction); a dense block is
described by the offset of its first record.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
import pyarrow as pa

from millstream.foundation.headers import pack_headers, unpack_headers
from millstream.records import Headers

Block: TypeAlias = pa.RecordBatch
Column: TypeAlias = pa.Array
Buffer: TypeAlias = bytes | memoryview
T = TypeVar("T")

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()), ("headers", pa.binary())])
SPARSE_SCHEMA = SCHEMA.append(pa.field("offset", pa.int64()))
_BINARY, _INT64 = pa.binary(), pa.int64()
_FEW = 50
"""Below this many items, a Python loop is faster than numpy."""
_LINE_FEED = b"\n"
_OPENING, _CLOSING = b"{}"
_MAX_COLUMN_BYTES = (1 << 31) - 1
"""Arrow's offsets into a binary column are 32-bit."""


class Rows(NamedTuple):
    """Records as lists of Python objects, one list per column; ``headers`` is None if no record has any."""

    keys: Sequence[Any]
    """Bytes, unless the records come from another stage."""
    values: Sequence[bytes | None]
    timestamps: list[int]
    headers: list[Headers] | None

    def take(self, rows: Sequence[int]) -> Rows:
        """Return the records at the given indexes."""
        headers = None if self.headers is None else take_items(self.headers, rows)
        keys, values = take_items(self.keys, rows), take_items(self.values, rows)
        return Rows(keys, values, take_items(self.timestamps, rows), headers)

    def block(self) -> Block:
        """Return the records as a block."""
        return block_of(*self)


class TimedRows(Rows):
    """Records whose timestamps are also an array."""

    times: Any


def timed_rows(keys: Sequence[Any], values: Sequence[bytes | None], times: Any, headers: list[Headers] | None) -> Rows:
    """Return records, given an array of their timestamps."""
    rows = TimedRows(keys, values, times.tolist(), headers)
    rows.times = times
    return rows


class LazyItems(Sequence[bytes | None]):
    """The items of a binary column; they become Python objects when the first of them is needed."""

    __slots__ = ("_items", "column")

    def __init__(self, column: Column) -> None:
        self.column = column
        self._items: list[bytes | None] | None = None

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes | None]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes | None] | None:
        return self._all[index]

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self._all)

    @property
    def _all(self) -> list[bytes | None]:
        if self._items is None:
            self._items = self.column.to_pylist()
        return self._items

    @property
    def are_null(self) -> bool:
        """Whether there are only nulls."""
        return bool(self.column.null_count == len(self.column))


def take_items(items: Sequence[T], indexes: Sequence[int]) -> list[T]:
    """Return the items at the given indexes; the loop runs in C."""
    return list(itemgetter(*indexes)(items)) if len(indexes) > 1 else [items[index] for index in indexes]


def block_of(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None] | Column,
    timestamps: Sequence[int],
    headers: Sequence[Headers] | None = None,
) -> Block:
    """Build a block from columns; ``headers=None`` means that no record has headers."""
    packed = (
        pa.nulls(len(keys), _BINARY) if headers is None else binary_column([pack_headers(pairs) for pairs in headers])
    )
    columns = [binary_column(keys), binary_column(values), int_column(timestamps), packed]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def binary_column(items: Sequence[bytes | None] | Column) -> Column:
    """Return items as a binary column of a block.

    ``pyarrow.array`` does the same but imports pandas, which takes longer than most batches.

    >>> binary_column([b"a", None, b"bc"]).to_pylist()
    [b'a', None, b'bc']
    """
    if isinstance(items, pa.Array):
        return items
    try:
        data, present = b"".join(items), None  # type: ignore[arg-type]
        lengths: Iterable[int] = map(len, items)
    except TypeError:  # faster than checking for None first
        data = b"".join(filter(None, items))
        present = pa.py_buffer(np.packbits([item is not None for item in items], bitorder="little"))
        lengths = [0 if item is None else len(item) for item in items]
    if len(data) > _MAX_COLUMN_BYTES:
        raise OverflowError(f"a column of {len(data)} bytes is too long for a block")
    if len(items) < _FEW:
        ends: Any = array("i", accumulate(lengths, initial=0))
    else:
        ends = np.zeros(len(items) + 1, np.int32)
        np.cumsum(np.fromiter(lengths, np.int32, len(items)), out=ends[1:])
    return pa.Array.from_buffers(_BINARY, len(items), [present, pa.py_buffer(ends), pa.py_buffer(data)])


def int_column(items: Sequence[int] | Any) -> Column:
    """Return integers, which may be an int64 array, as a column of a block."""
    if not isinstance(items, np.ndarray):
        items = array("q", items) if len(items) < _FEW else np.array(items, np.int64)
    return pa.Array.from_buffers(_INT64, len(items), [None, pa.py_buffer(items)])


def numbers_of(column: Column) -> Any:
    """Return a column of integers without nulls as an array; ``to_numpy`` does the same but imports pandas."""
    data = column.buffers()[1] if len(column) else b""
    return np.frombuffer(data, np.int64, len(column), column.offset * 8 if len(column) else 0)


def slices_of(column: Column) -> tuple[Any, Any, Any]:
    """Return the starts and lengths of the items of a binary column, and the bytes that they are slices of."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    whole = np.frombuffer(b"" if data is None else data, np.uint8)
    return ends[:-1], np.diff(ends), whole


def column_from_lines(lines: bytes, count: int) -> Column | None:
    """Return lines that end with a line feed as a column; None if there are not ``count`` lines or they are too long.

    >>> column_from_lines(b"a\\nbc\\n", 2).to_pylist()
    [b'a', b'bc']
    """
    feeds = np.flatnonzero(np.frombuffer(lines, np.uint8) == _LINE_FEED[0])
    if len(feeds) != count or len(lines) > _MAX_COLUMN_BYTES:
        return None
    ends = np.zeros(count + 1, np.int32)
    ends[1:] = feeds - np.arange(count)
    data = lines.replace(_LINE_FEED, b"")
    return pa.Array.from_buffers(_BINARY, count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def max_item_length(column: Column) -> int:
    """Return the length in bytes of the longest item of a column without nulls."""
    return int(np.diff(np.frombuffer(column.buffers()[1], np.int32)[: len(column) + 1]).max(initial=0))


def take_rows(block: Block, rows: Sequence[int] | Any) -> Block:
    """Return the records of a block at the indexes ``rows``, in that order."""
    return block.take(int_column(rows))


def concat_columns(columns: list[Column]) -> Column:
    """Concatenate columns."""
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def headers_of(block: Block) -> list[Headers] | None:
    """Return the headers of each record, ``InvalidHeaders`` if they cannot be decoded; None if no record has any."""
    column = block.column(3)
    if column.null_count == len(column):
        return None
    return [() if packed is None else unpack_headers(packed) for packed in column.to_pylist()]


def rows_of(block: Block) -> Rows:
    """Return the records of a block as Python objects."""
    keys, values, timestamps = (block.column(number).to_pylist() for number in range(3))
    return Rows(keys, values, timestamps, headers_of(block))


def lazy_rows_of(block: Block) -> Rows:
    """Return the records of a block; keys and values become Python objects when they are needed."""
    keys, values = LazyItems(block.column(0)), LazyItems(block.column(1))
    return timed_rows(keys, values, numbers_of(block.column(2)), headers_of(block))


def join_objects(column: Column) -> Any:
    """Return the JSON objects of a column as lines, in a buffer; None if the lines could mean something else.

    No line feed is part of an item, and each begins and ends with a brace: ``}\\n{`` occurs in JSON only between two
    values, so no value spans two lines.

    >>> join_objects(binary_column([b'{"a":1}', b"{}"])).to_pybytes()
    b'{"a":1}\\n{}'
    >>> join_objects(binary_column([b"1", b"{}"])) is None
    True
    """
    if column.null_count or not len(column):
        return None
    starts, lengths, data = slices_of(column)
    if not lengths.all():
        return None
    first, last = int(starts[0]), int(starts[-1] + lengths[-1])
    has_braces = (data[starts] == _OPENING).all() and (data[starts + lengths - 1] == _CLOSING).all()
    if not has_braces or (data[first:last] == _LINE_FEED[0]).any() or last - first + len(column) > _MAX_COLUMN_BYTES:
        return None
    from pyarrow import compute  # importing it takes longer than a small batch

    bounds = pa.Array.from_buffers(pa.int32(), 2, [None, pa.py_buffer(array("i", (0, len(column))))])
    line_feed = binary_column([_LINE_FEED])[0]
    return compute.binary_join(pa.ListArray.from_arrays(bounds, column), line_feed)[0].as_buffer()


def to_bytes(block: Block) -> bytes:
    """Return the block as Arrow IPC bytes, without the schema."""
    return block.serialize().to_pybytes()  # type: ignore[no-any-return]


def to_buffer(block: Block) -> memoryview:
    """Return what ``to_bytes`` returns, without the last copy; it cannot be pickled."""
    return memoryview(block.serialize())


def from_bytes(data: Buffer, schema: Any = SCHEMA) -> Block:
    """Read a block without copying it; the block keeps ``data`` alive."""
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)
