"""Old records go: whole blobs, oldest first, by the time of their records and by the size of the partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.broker import TopicConfig
    from millstream.log.snapshot import Snapshot
    from millstream.log.topic import Topic


def expire(topic: Topic, partition: int, now: int) -> None:
    """Delete what the topic need not keep at time ``now``.

    As in Kafka, a blob goes when its newest record is too old and nothing before it has to stay, or when what
    remains is still at least ``retention_bytes``.
    """
    with topic.reading() as snapshot:
        begin = _new_begin(snapshot, partition, topic.config, now)

    def change(snapshot: Snapshot) -> None:
        if begin > snapshot.bounds(partition).begin:
            snapshot.drop_before(partition, begin)

    if begin:
        topic.update(change)


def _new_begin(snapshot: Snapshot, partition: int, config: TopicConfig, now: int) -> int:
    """Return the offset before which everything may go, 0 if nothing may."""
    bounds = snapshot.bounds(partition)
    left = bounds.bytes
    begin = 0
    for span in snapshot.spans(partition, bounds.begin):
        too_old = config.retention_ms is not None and span.last_time < now - config.retention_ms
        too_much = config.retention_bytes is not None and left - span.bytes >= config.retention_bytes
        if not (too_old or too_much):
            break
        left -= span.bytes
        begin = span.next_offset
    return begin
