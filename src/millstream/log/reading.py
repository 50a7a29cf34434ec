"""Read blobs as chunks of records.

A chunk owns its memory: blobs are copied out of the map once, since LMDB's buffers are only valid during the
transaction, and no transaction stays open while the caller processes a chunk. ``view_chunks`` does not copy at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.broker import RecordChunk
from millstream.foundation.blocks import SCHEMA, SPARSE_SCHEMA, from_bytes
from millstream.log.snapshot import out_of_range

if TYPE_CHECKING:
    from millstream.foundation.blocks import Block
    from millstream.log.layout import Bounds, Span
    from millstream.log.snapshot import Snapshot
    from millstream.log.topic import Topic

_FETCH_BYTES = 8 << 20
_FETCH_RECORDS = 50_000
_CHUNK_RECORDS = 10_000
_SMALL_RECORDS = 2_048  # smaller blocks are merged, since the overhead per block would dominate


class Piece(NamedTuple):
    """A stored block, or the requested part of it."""

    block: Block
    offsets: Sequence[int]
    next_offset: int


def read_chunks(
    topic: Topic, partition: int, start: int, end: int, *, fetch_records: int = _FETCH_RECORDS
) -> Iterator[RecordChunk]:
    """Yield the records with ``start <= offset < end`` in chunks of suitable size, read some more at a time."""
    while start < end:
        with topic.snapshot() as snapshot:
            check_start(snapshot, topic.name, partition, start)
            fetched = list(_fetch(snapshot, partition, start, end, fetch_records))
        if not fetched:
            return
        yield from _to_chunks(_pieces(fetched, start, end))
        start = fetched[-1][0].next_offset


@contextmanager
def view_chunks(topic: Topic, partition: int, start: int, end: int) -> Iterator[Iterator[RecordChunk]]:
    """Return the records as views into the map, without a copy; valid only inside the block."""
    with topic.snapshot(buffers=True) as snapshot:
        check_start(snapshot, topic.name, partition, start)
        spans = _spans_between(snapshot, partition, start, end)
        fetched = ((span, snapshot.blob(partition, span)) for span in spans)
        yield (RecordChunk(*piece) for piece in _pieces(fetched, start, end))


def offset_at(topic: Topic, partition: int, timestamp: int) -> int | None:
    """Return the offset of the first record with ``timestamp`` or later."""
    with topic.snapshot() as snapshot:
        bounds = snapshot.bounds(partition)
        for span in snapshot.spans(partition, _first_candidate(snapshot, partition, bounds, timestamp)):
            if span.last_time >= timestamp:
                for piece in _pieces([(span, snapshot.blob(partition, span))], bounds.begin, bounds.end):
                    rows = np.flatnonzero(piece.block.column(2).to_numpy() >= timestamp)
                    if len(rows):
                        return int(piece.offsets[int(rows[0])])
    return None


def _first_candidate(snapshot: Snapshot, partition: int, bounds: Bounds, timestamp: int) -> int:
    """Return the first offset whose blob has ``peak_time >= timestamp``; earlier blobs cannot contain the record."""
    low, high = bounds.begin, bounds.end
    while low < high:
        middle = (low + high) // 2
        span = next(snapshot.spans(partition, middle), None)
        if span is None or span.peak_time >= timestamp:
            high = middle
        else:
            low = span.next_offset
    return low


def check_start(snapshot: Snapshot, topic: str, partition: int, start: int) -> None:
    """Refuse to read deleted records or beyond the end."""
    bounds = snapshot.bounds(partition)
    if not bounds.begin <= start <= bounds.end:
        raise out_of_range(topic, partition, start, bounds)


def block_at(snapshot: Snapshot, partition: int, span: Span) -> Block:
    """Return a stored block, with its offsets if they have gaps."""
    return from_bytes(snapshot.blob(partition, span), _schema(span))


def _schema(span: Span) -> Any:
    return SPARSE_SCHEMA if span.sparse else SCHEMA


def _spans_between(snapshot: Snapshot, partition: int, start: int, end: int) -> Iterator[Span]:
    for span in snapshot.spans(partition, start):
        if span.base >= end:
            return
        yield span


def _fetch(snapshot: Snapshot, partition: int, start: int, end: int, max_records: int) -> Iterator[tuple[Span, bytes]]:
    size = records = 0
    for span in _spans_between(snapshot, partition, start, end):
        yield span, snapshot.blob(partition, span)
        size += span.bytes
        records += span.records
        if size >= _FETCH_BYTES or records >= max_records:
            return


def _pieces(fetched: Iterable[tuple[Span, Any]], start: int, end: int) -> Iterator[Piece]:
    for span, data in fetched:
        block = from_bytes(data, _schema(span))
        next_offset = min(end, span.next_offset)
        if span.sparse:
            first, last = np.searchsorted(block.column(4).to_numpy(), (start, end))
            part = block.slice(first, last - first)
            offsets: Sequence[int] = part.column(4).to_pylist()
            block = part.select(SCHEMA.names)
        else:
            offsets = range(max(start, span.base), next_offset)
            if len(offsets) != len(block):
                block = block.slice(offsets.start - span.base, len(offsets))
        if offsets:
            yield Piece(block, offsets, next_offset)


def _to_chunks(pieces: Iterable[Piece]) -> Iterator[RecordChunk]:
    pending: list[Piece] = []
    records = 0
    for piece in pieces:
        is_small = len(piece.block) < _SMALL_RECORDS
        if pending and (not is_small or records >= _CHUNK_RECORDS):
            yield _concat(pending)
            pending, records = [], 0
        if is_small:
            pending.append(piece)
            records += len(piece.block)
        else:
            yield RecordChunk(*piece)
    if pending:
        yield _concat(pending)


def _concat(pieces: Sequence[Piece]) -> RecordChunk:
    if len(pieces) == 1:
        return RecordChunk(*pieces[0])
    last = pieces[-1]
    block = pa.concat_batches([piece.block for piece in pieces])
    offsets: Sequence[int] = range(pieces[0].offsets[0], last.offsets[-1] + 1)
    if len(offsets) != len(block):
        offsets = [offset for piece in pieces for offset in piece.offsets]
    return RecordChunk(block, offsets, last.next_offset)
