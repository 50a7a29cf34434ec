"""Retention deletes old records: whole blobs, oldest first, by timestamp and by the size of the partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.broker import TopicConfig
    from millstream.log.snapshot import Snapshot
    from millstream.log.topic import Topic


def expire(topic: Topic, partition: int, now: int) -> None:
    """Delete the records whose retention has expired at time ``now``.

    As in Kafka, a blob is deleted if no earlier blob is kept and either its newest record is too old or at least
    ``retention_bytes`` remain without it.
    """
    with topic.snapshot() as snapshot:
        begin = _new_begin(snapshot, partition, topic.config, now)

    def change(snapshot: Snapshot) -> None:
        if begin > snapshot.bounds(partition).begin:
            snapshot.drop_before(partition, begin)

    if begin:
        topic.update(change)


def _new_begin(snapshot: Snapshot, partition: int, config: TopicConfig, now: int) -> int:
    """Return the offset before which all records have expired; 0 if none have."""
    bounds = snapshot.bounds(partition)
    remaining = bounds.bytes
    begin = 0
    for span in snapshot.spans(partition, bounds.begin):
        too_old = config.retention_ms is not None and span.last_time < now - config.retention_ms
        too_large = config.retention_bytes is not None and remaining - span.bytes >= config.retention_bytes
        if not (too_old or too_large):
            break
        remaining -= span.bytes
        begin = span.next_offset
    return begin
