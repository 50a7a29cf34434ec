"""Old records are deleted in whole blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog

if TYPE_CHECKING:
    from tests.log.conftest import Read, Send


def test_blobs_older_than_the_retention_time_are_deleted(log: EmbeddedLog, send: Send, read: Read) -> None:
    #   time   0 ···· 10 ···· 20 ···· 30
    #   blob   [a     b]     [c     d]     at 61 with a retention of 50: records before 11 expire
    log.create_topic("t", TopicConfig(partitions=2, retention_ms=50))
    send("t", "a", "b", times=[0, 10])
    send("t", "c", "d", times=[20, 30])
    send("t", "e", partition=1, times=[0])
    log.clean("t", now=60)
    assert [offsets.begin for offsets in log.offsets("t")] == [0, 1]
    log.clean("t", now=61)
    assert read("t") == [(2, "c"), (3, "d")]
    log.clean("t", now=1000)
    assert [(offsets.begin, offsets.end) for offsets in log.offsets("t")] == [(4, 4), (1, 1)]
    assert log.topic("t").bytes == (0, 0)


def test_a_young_blob_protects_older_ones_after_it(log: EmbeddedLog, send: Send, read: Read) -> None:
    log.create_topic("t", TopicConfig(partitions=1, retention_ms=50))
    send("t", "young", times=[900])
    send("t", "old", times=[0])
    log.clean(now=940)
    assert [value for _, value in read("t")] == ["young", "old"]


def test_at_least_the_retention_size_is_kept(log: EmbeddedLog, send: Send) -> None:
    log.create_topic("t", TopicConfig(partitions=1))
    for _ in range(10):
        send("t", *["x" * 1000] * 10)
    (total,) = log.topic("t").bytes
    blob = total // 10
    log.alter_topic("t", retention_bytes=blob * 4 + 1)
    log.clean("t")
    assert log.offsets("t")[0].begin == 50
    assert log.topic("t").bytes[0] == blob * 5


def test_without_limits_nothing_is_deleted(log: EmbeddedLog, topic: str, send: Send) -> None:
    send(topic, "a", times=[0])
    log.clean(now=10**15)
    assert log.offsets(topic)[0].begin == 0
