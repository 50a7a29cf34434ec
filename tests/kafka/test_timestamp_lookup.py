"""Timestamps of single records."""

from __future__ import annotations

import pytest
from tests.kafka.conftest import Send, Transact

from millstream.errors import UnknownTopicError
from millstream.kafka import KafkaBroker


def test_the_timestamp_of_the_first_record_of_a_range_is_found(kafka: KafkaBroker, topic: str, send: Send) -> None:
    send(topic, "a", "b", "c", times=[10, 30, 20])
    assert [kafka.timestamp_at(topic, 0, start, 3) for start in range(4)] == [10, 30, 20, None]
    assert kafka.timestamp_at(topic, 1, 0, 0) is None


def test_gaps_are_skipped_up_to_the_end_of_the_range(
    kafka: KafkaBroker, topic: str, send: Send, transact: Transact
) -> None:
    transact(topic, "x", "y").abort_transaction(30)
    after = send(topic, "b", times=[7])
    assert kafka.timestamp_at(topic, 0, 0, after + 1) == 7
    assert kafka.timestamp_at(topic, 0, 0, after) is None


def test_an_unknown_topic_is_named(kafka: KafkaBroker) -> None:
    with pytest.raises(UnknownTopicError, match="nowhere"):
        kafka.timestamp_at("nowhere", 0, 0, 1)
