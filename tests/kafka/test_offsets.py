"""Offsets by timestamp."""

from __future__ import annotations

from tests.kafka.conftest import Send

from millstream.kafka import KafkaBroker


def test_the_first_record_with_a_timestamp_or_later_is_found(kafka: KafkaBroker, topic: str, send: Send) -> None:
    send(topic, "a", "b", "c", times=[10, 30, 20])
    assert [kafka.offset_at(topic, 0, time) for time in (0, 10, 11, 20, 30, 31)] == [0, 0, 1, 1, 1, None]
    assert kafka.offset_at(topic, 1, 0) is None
