"""Records in bulk: Arrow batches, the form in which they lie in the log and cross Spark.

A block has one row per record and no schema in its bytes, since all blocks have the same one. Headers are rare, so
they are one binary column of MessagePack, null when there are none. ``offset`` is only filled where offsets have
gaps (after compaction); a dense block is described by the offset of its first record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from millstream.records import Headers

Block: TypeAlias = pa.RecordBatch
Column: TypeAlias = pa.Array
Buffer: TypeAlias = bytes | memoryview
T = TypeVar("T")

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()), ("headers", pa.binary())])
_FEED = b"\n"
_LONGEST_COLUMN = (1 << 31) - 1
SPARSE_SCHEMA = SCHEMA.append(pa.field("offset", pa.int64()))


class Rows(NamedTuple):
    """Records as lists of Python objects, one list per column; ``headers`` is None if no record has any."""

    keys: list[Any]
    """Bytes, unless they come from another stage."""
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers] | None

    def take(self, rows: Sequence[int]) -> Rows:
        """Return some of the records."""
        headers = None if self.headers is None else chosen(self.headers, rows)
        return Rows(chosen(self.keys, rows), chosen(self.values, rows), chosen(self.timestamps, rows), headers)

    def block(self) -> Block:
        """Return the records as a block."""
        return block_of(*self)


def chosen(items: Sequence[T], places: Sequence[int]) -> list[T]:
    """Return the items at some places; the loop over them is C."""
    return list(itemgetter(*places)(items)) if len(places) > 1 else [items[place] for place in places]


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Headers).decode


def block_of(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None] | Column,
    timestamps: Sequence[int],
    headers: Sequence[Headers] | None = None,
) -> Block:
    """Build a block from columns; ``headers=None`` means that no record has any."""
    packed = pa.nulls(len(keys), pa.binary()) if headers is None else pa.array(_packed(headers), pa.binary())
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), column_of(values), pa.array(timestamps, pa.int64()), packed], schema=SCHEMA
    )


def column_of(values: Sequence[bytes | None] | Column) -> Column:
    """Return values as a column of a block."""
    return values if isinstance(values, pa.Array) else pa.array(values, pa.binary())


def column_of_lines(lines: bytes, count: int) -> Column | None:
    """Return lines, each with a line feed at its end, as a column; None if they are not that many or too long.

    >>> column_of_lines(b"a\\nbc\\n", 2).to_pylist()
    [b'a', b'bc']
    """
    feeds = np.flatnonzero(np.frombuffer(lines, np.uint8) == _FEED[0])
    if len(feeds) != count or len(lines) > _LONGEST_COLUMN:
        return None
    ends = np.zeros(count + 1, np.int32)
    ends[1:] = feeds - np.arange(count)
    data = lines.replace(_FEED, b"")
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def longest(column: Column) -> int:
    """Return the number of bytes of the longest item of a column without nulls."""
    return int(np.diff(np.frombuffer(column.buffers()[1], np.int32)[: len(column) + 1]).max(initial=0))


def joined(columns: list[Column]) -> Column:
    """Return columns as one."""
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def _packed(headers: Iterable[Headers]) -> list[bytes | None]:
    return [_pack(one) if one else None for one in headers]


def headers_of(block: Block) -> list[Headers] | None:
    """Return the headers of each record, or None if no record has any."""
    column = block.column(3)
    if column.null_count == len(column):
        return None
    return [() if packed is None else _unpack(packed) for packed in column.to_pylist()]


def rows_of(block: Block) -> Rows:
    """Return the records of a block as Python objects."""
    keys, values, timestamps = (block.column(number).to_pylist() for number in range(3))
    return Rows(keys, values, timestamps, headers_of(block))


def to_bytes(block: Block) -> bytes:
    """Return the block as Arrow IPC bytes, without the schema."""
    return block.serialize().to_pybytes()  # type: ignore[no-any-return]


def from_bytes(data: Buffer, schema: Any = SCHEMA) -> Block:
    """Read a block without copying: it lives as long as ``data`` does."""
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)
