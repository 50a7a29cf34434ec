"""Merge small blobs into large ones, so that records sent one by one are read as fast as records sent in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.foundation.blocks import SCHEMA, SPARSE_SCHEMA, int_column, to_bytes
from millstream.log.layout import Span
from millstream.log.reading import block_at

if TYPE_CHECKING:
    from millstream.broker import TopicConfig
    from millstream.foundation.blocks import Block
    from millstream.log.snapshot import Snapshot
    from millstream.log.topic import Topic

ENOUGH_RECORDS = 10_000
ENOUGH_BYTES = 4 << 20
_MIN_BLOBS = 8  # the retained records span at least this many blobs, by size and by time


def merge(topic: Topic, partition: int) -> None:
    """Merge adjacent small blobs appended since the last call; offsets and order do not change."""
    with topic.snapshot() as snapshot:
        bounds = snapshot.bounds(partition)
        runs = list(split_into_runs(snapshot.spans(partition, max(bounds.begin, bounds.merged_to)), topic.config))
    for run in runs:
        if len(run) > 1:
            merge_run(topic, partition, run)
    if runs and runs[-1][0].base != bounds.merged_to:
        merged_to = runs[-1][0].base

        def store_progress(snapshot: Snapshot) -> None:
            snapshot.put_bounds(partition, snapshot.bounds(partition)._replace(merged_to=merged_to))

        topic.update(store_progress)


def split_into_runs(spans: Iterable[Span], config: TopicConfig) -> Iterator[list[Span]]:
    """Split spans into runs that can each become one blob, small enough for retention to stay accurate."""
    max_bytes = min(ENOUGH_BYTES, (config.retention_bytes or ENOUGH_BYTES * _MIN_BLOBS) // _MIN_BLOBS)
    max_time = float("inf") if config.retention_ms is None else config.retention_ms / _MIN_BLOBS
    run: list[Span] = []
    records = size = low = high = 0
    for span in spans:
        records, size = records + span.records, size + span.bytes
        low, high = min(low, span.last_time), max(high, span.last_time)
        if run and (records > ENOUGH_RECORDS or size > max_bytes or high - low > max_time):
            yield run
            run = []
        if not run:
            records, size, low, high = span.records, span.bytes, span.last_time, span.last_time
        run.append(span)
    if run:
        yield run


def merge_run(topic: Topic, partition: int, run: Sequence[Span]) -> None:
    """Merge a run into one blob; it is encoded before the write transaction, so that appends do not wait for it."""
    with topic.snapshot() as snapshot:
        if not are_unchanged(snapshot, partition, run):
            return
        blocks = [block_at(snapshot, partition, span) for span in run]
    if not (all(not span.sparse for span in run) and _is_gapless(run)):
        blocks = [with_offsets(block, span) for block, span in zip(blocks, run, strict=True)]
    merged = merged_blob(run, pa.concat_batches(blocks))

    def change(snapshot: Snapshot) -> None:
        if are_unchanged(snapshot, partition, run):
            replace_run(snapshot, partition, run, merged)

    topic.update(change)


def _is_gapless(run: Sequence[Span]) -> bool:
    return all(span.next_offset == following.base for span, following in pairwise(run))


def with_offsets(block: Block, span: Span) -> Block:
    """Return a block with its column of offsets; it is added if the block has none."""
    if span.sparse:
        return block
    offsets = int_column(np.arange(span.base, span.next_offset))
    return pa.RecordBatch.from_arrays([*block.columns, offsets], schema=SPARSE_SCHEMA)


def are_unchanged(snapshot: Snapshot, partition: int, run: Sequence[Span]) -> bool:
    """Whether the blobs of a run are unchanged since they were selected for rewriting."""
    current = snapshot.spans(partition, run[0].base)
    return all(next(current, None) == span for span in run)


def merged_blob(run: Sequence[Span], block: Block) -> tuple[Span, bytes] | None:
    """Return the blob that replaces a run, sparse if the block has offsets; None if the block is empty."""
    if not len(block):
        return None
    data = to_bytes(block)
    times = pc.min_max(block.column(2))
    span = Span(
        base=run[0].base,
        next_offset=run[-1].next_offset,
        records=len(block),
        first_time=times["min"].as_py(),
        last_time=times["max"].as_py(),
        peak_time=run[-1].peak_time,
        appended=max(span.appended for span in run),
        bytes=len(data),
        sparse=not block.schema.equals(SCHEMA),
    )
    return span, data


def replace_run(snapshot: Snapshot, partition: int, run: Sequence[Span], merged: tuple[Span, bytes] | None) -> None:
    """Replace the blobs of a run by the merged blob."""
    for span in run:
        snapshot.delete_blob(partition, span.base)
    if merged is not None:
        snapshot.put_blob(partition, *merged)
    bounds = snapshot.bounds(partition)
    freed, added = sum(span.bytes for span in run), 0 if merged is None else merged[0].bytes
    snapshot.put_bounds(partition, bounds._replace(bytes=bounds.bytes - freed + added))
