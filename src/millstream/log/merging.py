"""Small blobs become large ones, so that records sent one by one are read as fast as records sent in bulk."""

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
_PARTS = 8  # a blob is at most this part of what a topic keeps, by size and by time


def merge(topic: Topic, partition: int) -> None:
    """Join neighbouring small blobs that came since the last time; offsets and order stay."""
    with topic.reading() as snapshot:
        bounds = snapshot.bounds(partition)
        found = list(runs(snapshot.spans(partition, max(bounds.begin, bounds.merged_to)), topic.config))
    for run in found:
        if len(run) > 1:
            join(topic, partition, run)
    if found and found[-1][0].base != bounds.merged_to:
        merged_to = found[-1][0].base

        def remember(snapshot: Snapshot) -> None:
            snapshot.put_bounds(partition, snapshot.bounds(partition)._replace(merged_to=merged_to))

        topic.update(remember)


def runs(spans: Iterable[Span], config: TopicConfig) -> Iterator[list[Span]]:
    """Cut spans into runs that may become one blob each, small enough for retention to keep its promise."""
    most_bytes = min(ENOUGH_BYTES, (config.retention_bytes or ENOUGH_BYTES * _PARTS) // _PARTS)
    most_time = float("inf") if config.retention_ms is None else config.retention_ms / _PARTS
    run: list[Span] = []
    records = size = low = high = 0
    for span in spans:
        records, size = records + span.records, size + span.bytes
        low, high = min(low, span.last_time), max(high, span.last_time)
        if run and (records > ENOUGH_RECORDS or size > most_bytes or high - low > most_time):
            yield run
            run = []
        if not run:
            records, size, low, high = span.records, span.bytes, span.last_time, span.last_time
        run.append(span)
    if run:
        yield run


def join(topic: Topic, partition: int, run: Sequence[Span]) -> None:
    """Make one blob of a run; it is made ready first, so that nobody who appends has to wait for that."""
    with topic.reading() as snapshot:
        if not are_unchanged(snapshot, partition, run):
            return
        blocks = [block_at(snapshot, partition, span) for span in run]
    if not (all(not span.sparse for span in run) and _is_gapless(run)):
        blocks = [with_offsets(block, span) for block, span in zip(blocks, run, strict=True)]
    made = made_of(run, pa.concat_batches(blocks))

    def change(snapshot: Snapshot) -> None:
        if are_unchanged(snapshot, partition, run):
            replace(snapshot, partition, run, made)

    topic.update(change)


def _is_gapless(run: Sequence[Span]) -> bool:
    return all(one.next_offset == other.base for one, other in pairwise(run))


def with_offsets(block: Block, span: Span) -> Block:
    """Return a block with a column of offsets, whether it had one or not."""
    if span.sparse:
        return block
    offsets = int_column(np.arange(span.base, span.next_offset))
    return pa.RecordBatch.from_arrays([*block.columns, offsets], schema=SPARSE_SCHEMA)


def are_unchanged(snapshot: Snapshot, partition: int, run: Sequence[Span]) -> bool:
    """Whether the blobs are still there as they were when the plan to rewrite them was made."""
    found = snapshot.spans(partition, run[0].base)
    return all(next(found, None) == span for span in run)


def made_of(run: Sequence[Span], block: Block) -> tuple[Span, bytes] | None:
    """Return what stands in the place of a run of blobs, sparse if the block has offsets; None if it is empty."""
    if not len(block):
        return None
    data = to_bytes(block)
    times = pc.min_max(block.column(2))
    merged = Span(
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
    return merged, data


def replace(snapshot: Snapshot, partition: int, run: Sequence[Span], made: tuple[Span, bytes] | None) -> None:
    """Put what was made of a run of blobs in its place."""
    for span in run:
        snapshot.delete_blob(partition, span.base)
    if made is not None:
        snapshot.put_blob(partition, *made)
    bounds = snapshot.bounds(partition)
    freed, added = sum(span.bytes for span in run), 0 if made is None else made[0].bytes
    snapshot.put_bounds(partition, bounds._replace(bytes=bounds.bytes - freed + added))
