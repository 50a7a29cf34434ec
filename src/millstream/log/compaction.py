"""The last value per key survives, at its own offset; tombstones go after a while.

A snapshot decides which records are superseded. Later appends can only supersede more, so blobs are rewritten one
small transaction after the other, oldest first: at no time can a deleted key seem to come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import pyarrow as pa

from millstream.foundation.blocks import take_rows
from millstream.log.merging import are_unchanged, made_of, replace, runs, with_offsets
from millstream.log.reading import block_at, read_chunks

if TYPE_CHECKING:
    from millstream.foundation.blocks import Block
    from millstream.log.layout import Bounds, Span
    from millstream.log.snapshot import Snapshot
    from millstream.log.topic import Topic


def compact(topic: Topic, partition: int, now: int) -> None:
    """Remove superseded records, and tombstones appended at least ``tombstone_retention_ms`` before ``now``."""
    with topic.reading() as snapshot:
        bounds = snapshot.bounds(partition)
        spans = list(snapshot.spans(partition, bounds.begin))
    latest = _latest_offsets(topic, partition, bounds)
    last_deletion = now - topic.config.tombstone_retention_ms
    for run in runs(spans, topic.config):
        topic.update(partial(_rewrite, partition=partition, run=run, latest=latest, last_deletion=last_deletion))

    def remember(snapshot: Snapshot) -> None:
        snapshot.put_bounds(partition, snapshot.bounds(partition)._replace(compacted_to=bounds.end))

    topic.update(remember)


def is_worthwhile(topic: Topic, partition: int) -> bool:
    """Whether at least half of the partition came since it was compacted, so that the work stays in proportion."""
    with topic.reading() as snapshot:
        bounds = snapshot.bounds(partition)
        fresh = sum(span.bytes for span in snapshot.spans(partition, max(bounds.begin, bounds.compacted_to)))
    return 2 * fresh >= bounds.bytes > 0


def _latest_offsets(topic: Topic, partition: int, bounds: Bounds) -> Mapping[bytes | None, int]:
    """Return the last offset of every key that was written since the last compaction."""
    latest: dict[bytes | None, int] = {}
    for chunk in read_chunks(topic, partition, max(bounds.begin, bounds.compacted_to), bounds.end):
        latest.update(zip(chunk.block.column(0).to_pylist(), chunk.offsets, strict=True))
    latest.pop(None, None)  # records without a key, from before the topic was compacted, are kept
    return latest


def _rewrite(
    snapshot: Snapshot, partition: int, run: list[Span], latest: Mapping[bytes | None, int], last_deletion: int
) -> None:
    if not are_unchanged(snapshot, partition, run):
        return
    blocks = [with_offsets(block_at(snapshot, partition, span), span) for span in run]
    kept = [
        _survivors(block, latest, drop_deletions=span.appended <= last_deletion)
        for block, span in zip(blocks, run, strict=True)
    ]
    block = pa.concat_batches(kept)
    if len(run) > 1 or len(block) < run[0].records:
        replace(snapshot, partition, run, made_of(run, block))


def _survivors(block: Block, latest: Mapping[bytes | None, int], *, drop_deletions: bool) -> Block:
    keys = block.column(0).to_pylist()
    offsets = block.column(4).to_pylist()
    keep = [newest is None or newest <= offset for newest, offset in zip(map(latest.get, keys), offsets, strict=True)]
    deletions = block.column(1).is_null().to_pylist() if drop_deletions else repeat(False, len(keys))
    rows = enumerate(zip(keep, deletions, keys, strict=True))
    return take_rows(block, [row for row, (kept, deleted, key) in rows if kept and not (deleted and key is not None)])
