"""Small blobs become large ones, so that records sent one by one are read as fast as records sent in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.blocks import SCHEMA, SPARSE_SCHEMA, to_bytes
from millstream.log.layout import Span
from millstream.log.reading import block_at

if TYPE_CHECKING:
    from millstream.blocks import Block
    from millstream.log.snapshot import Snapshot
    from millstream.log.topic import Topic

ENOUGH_RECORDS = 10_000
ENOUGH_BYTES = 4 << 20


def merge(topic: Topic, partition: int) -> None:
    """Join neighbouring small blobs that came since the last time; offsets and order stay."""
    with topic.reading() as snapshot:
        bounds = snapshot.bounds(partition)
        runs = list(_runs(snapshot.spans(partition, max(bounds.begin, bounds.merged_to))))
    for run in runs:
        if len(run) > 1:
            topic.update(partial(_join, partition=partition, run=run))
    if runs:
        merged_to = runs[-1][0].base

        def remember(snapshot: Snapshot) -> None:
            snapshot.put_bounds(partition, snapshot.bounds(partition)._replace(merged_to=merged_to))

        topic.update(remember)


def _runs(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Cut spans into runs that may become one blob each."""
    run: list[Span] = []
    records = size = 0
    for span in spans:
        records += span.records
        size += span.bytes
        if run and (records > ENOUGH_RECORDS or size > ENOUGH_BYTES):
            yield run
            run, records, size = [], span.records, span.bytes
        run.append(span)
    if run:
        yield run


def _join(snapshot: Snapshot, partition: int, run: Sequence[Span]) -> None:
    if not are_unchanged(snapshot, partition, run):
        return
    dense = all(not span.sparse for span in run) and _is_gapless(run)
    blocks = [block_at(snapshot, partition, span) for span in run]
    if not dense:
        blocks = [with_offsets(block, span) for block, span in zip(blocks, run, strict=True)]
    replace(snapshot, partition, run, pa.concat_batches(blocks))


def _is_gapless(run: Sequence[Span]) -> bool:
    return all(one.next_offset == other.base for one, other in pairwise(run))


def with_offsets(block: Block, span: Span) -> Block:
    """Return a block with a column of offsets, whether it had one or not."""
    if span.sparse:
        return block
    offsets = pa.array(np.arange(span.base, span.next_offset))
    return pa.RecordBatch.from_arrays([*block.columns, offsets], schema=SPARSE_SCHEMA)


def are_unchanged(snapshot: Snapshot, partition: int, run: Sequence[Span]) -> bool:
    """Whether the blobs are still there as they were when the plan to rewrite them was made."""
    found = snapshot.spans(partition, run[0].base)
    return all(next(found, None) == span for span in run)


def replace(snapshot: Snapshot, partition: int, run: Sequence[Span], block: Block) -> None:
    """Put one block, sparse if it has offsets, in the place of a run of blobs; nothing if it is empty."""
    freed = sum(span.bytes for span in run)
    added = 0
    for span in run:
        snapshot.delete_blob(partition, span.base)
    if len(block):
        sparse = not block.schema.equals(SCHEMA)
        data = to_bytes(block)
        added = len(data)
        times = pc.min_max(block.column(2))
        merged = Span(
            base=run[0].base,
            next_offset=run[-1].next_offset,
            records=len(block),
            first_time=times["min"].as_py(),
            last_time=times["max"].as_py(),
            peak_time=run[-1].peak_time,
            appended=max(span.appended for span in run),
            bytes=added,
            sparse=sparse,
        )
        snapshot.put_blob(partition, merged, data)
    bounds = snapshot.bounds(partition)
    snapshot.put_bounds(partition, bounds._replace(bytes=bounds.bytes - freed + added))
