"""Compaction keeps the last value per key at its offset, and removes tombstones after their retention time.

A snapshot determines the superseded records. Later appends can only supersede more of them, so blobs are rewritten in
small transactions, oldest first: a deleted key never reappears.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import pyarrow as pa

from millstream.foundation.blocks import take_rows
from millstream.log.merging import are_unchanged, merged_blob, replace_run, split_into_runs, with_offsets
from millstream.log.reading import block_at, read_chunks

if TYPE_CHECKING:
    from millstream.foundation.blocks import Block
    from millstream.log.layout import Bounds, Span
    from millstream.log.snapshot import Snapshot
    from millstream.log.topic import Topic


def compact(topic: Topic, partition: int, now: int) -> None:
    """Remove superseded records, and tombstones appended at least ``tombstone_retention_ms`` before ``now``."""
    with topic.snapshot() as snapshot:
        bounds = snapshot.bounds(partition)
        spans = list(snapshot.spans(partition, bounds.begin))
    latest = _latest_offsets(topic, partition, bounds)
    tombstone_horizon = now - topic.config.tombstone_retention_ms
    rewrite = partial(_rewrite, partition=partition, latest=latest, tombstone_horizon=tombstone_horizon)
    for run in split_into_runs(spans, topic.config):
        topic.update(partial(rewrite, run=run))

    def store_progress(snapshot: Snapshot) -> None:
        snapshot.put_bounds(partition, snapshot.bounds(partition)._replace(compacted_to=bounds.end))

    topic.update(store_progress)


def needs_compaction(topic: Topic, partition: int) -> bool:
    """Whether at least half of the partition is new since its last compaction, which keeps the work proportional."""
    with topic.snapshot() as snapshot:
        bounds = snapshot.bounds(partition)
        new_bytes = sum(span.bytes for span in snapshot.spans(partition, max(bounds.begin, bounds.compacted_to)))
    return 2 * new_bytes >= bounds.bytes > 0


def _latest_offsets(topic: Topic, partition: int, bounds: Bounds) -> Mapping[bytes | None, int]:
    """Return the last offset of every key written since the last compaction."""
    latest: dict[bytes | None, int] = {}
    for chunk in read_chunks(topic, partition, max(bounds.begin, bounds.compacted_to), bounds.end):
        latest.update(zip(chunk.block.column(0).to_pylist(), chunk.offsets, strict=True))
    latest.pop(None, None)  # records without a key predate the compact setting and are kept
    return latest


def _rewrite(
    snapshot: Snapshot, partition: int, run: list[Span], latest: Mapping[bytes | None, int], tombstone_horizon: int
) -> None:
    if not are_unchanged(snapshot, partition, run):
        return
    blocks = [with_offsets(block_at(snapshot, partition, span), span) for span in run]
    kept = [
        _survivors(block, latest, drop_tombstones=span.appended <= tombstone_horizon)
        for block, span in zip(blocks, run, strict=True)
    ]
    block = pa.concat_batches(kept)
    if len(run) > 1 or len(block) < run[0].records:
        replace_run(snapshot, partition, run, merged_blob(run, block))


def _survivors(block: Block, latest: Mapping[bytes | None, int], *, drop_tombstones: bool) -> Block:
    keys = block.column(0).to_pylist()
    offsets = block.column(4).to_pylist()
    keep = [newest is None or newest <= offset for newest, offset in zip(map(latest.get, keys), offsets, strict=True)]
    tombstones = block.column(1).is_null().to_pylist() if drop_tombstones else repeat(False, len(keys))
    flags = enumerate(zip(keep, tombstones, keys, strict=True))
    rows = [row for row, (kept, is_tombstone, key) in flags if kept and not (is_tombstone and key is not None)]
    return take_rows(block, rows)
