"""Finding offsets by timestamp: the first record with that timestamp or later, in any order of timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.log.conftest import Send


from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog


def test_the_first_record_with_a_timestamp_or_later_is_found(log: EmbeddedLog, topic: str, send: Send) -> None:
    #  offset     0   1   2     3   4
    send(topic, *"abc", times=[10, 50, 20])
    send(topic, *"de", times=[30, 60])
    expected = {0: 0, 10: 0, 11: 1, 50: 1, 51: 4, 60: 4, 61: None}
    assert {time: log.offset_at(topic, 0, time) for time in expected} == expected


def test_deleted_records_are_not_found(log: EmbeddedLog, topic: str, send: Send) -> None:
    send(topic, *"abc", times=[90, 10, 20])
    log.delete_before(topic, 0, 1)
    assert log.offset_at(topic, 0, 15) == 2
    assert [log.timestamp_at(topic, 0, start, 3) for start in (1, 2, 3)] == [10, 20, None]
    assert log.offset_at(topic, 0, 80) is None


def test_a_deleted_record_from_the_future_does_not_hide_later_ones(log: EmbeddedLog, send: Send) -> None:
    log.create_topic("short", TopicConfig(partitions=1, retention_bytes=1))
    send("short", "a", times=[10**12])
    for time in range(5):
        send("short", "b", times=[time])
    log.delete_before("short", 0, 1)
    assert log.offset_at("short", 0, 3) == 4


def test_an_empty_partition_has_no_timestamps(log: EmbeddedLog, topic: str) -> None:
    assert log.offset_at(topic, 1, 0) is None
