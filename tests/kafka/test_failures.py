"""Which errors of the Kafka client are outages that end by themselves, and which are not."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from millstream.errors import BrokerError, BrokerUnavailableError, UnknownTopicError
from millstream.kafka.failures import to_millstream_error


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TRANSPORT,
        KafkaError._DESTROY_BROKER,
        KafkaError._NOENT,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
    ],
)
def test_the_loss_of_a_broker_or_of_its_disk_is_an_outage(code: int) -> None:
    error = to_millstream_error(KafkaError(code), "read topic 'lines'", "lines")
    assert isinstance(error, BrokerUnavailableError)
    assert error.retryable


@pytest.mark.parametrize("code", [KafkaError.INVALID_CONFIG, KafkaError.INVALID_PARTITIONS])
def test_a_mistake_is_no_outage(code: int) -> None:
    error = to_millstream_error(KafkaError(code), "create topic 'lines'")
    assert isinstance(error, BrokerError)
    assert not error.retryable


def test_an_unknown_topic_is_named() -> None:
    error = to_millstream_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "read topic 'lines'", "lines")
    assert isinstance(error, UnknownTopicError)
    assert "'lines'" in str(error)
