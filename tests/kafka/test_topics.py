"""Topics of a cluster and their settings."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest
from confluent_kafka.admin import AdminClient

from millstream.broker import Offsets, TopicConfig
from millstream.errors import DefinitionError, InvalidNameError, TopicExistsError, UnknownTopicError
from millstream.kafka import KafkaBroker
from millstream.kafka.address import KafkaAddress
from millstream.kafka.clients import Clients
from millstream.kafka.topics import KafkaTopics

T = TypeVar("T")


def test_a_topic_has_the_settings_it_was_created_with(kafka: KafkaBroker, name: str) -> None:
    config = TopicConfig(
        partitions=3,
        timestamps="append",
        retention_ms=60_000,
        compact=True,
        tombstone_retention_ms=5,
        max_record_bytes=9_000,
    )
    kafka.create_topic(name, config)
    assert kafka.topic(name).config == config
    assert kafka.topic(name).offsets == (Offsets(0, 0),) * 3


def test_the_default_settings_delete_nothing(kafka: KafkaBroker, topic: str) -> None:
    assert kafka.topic(topic).config == TopicConfig(partitions=2)


def test_kafkas_internal_topics_are_not_listed(kafka: KafkaBroker, topic: str) -> None:
    kafka.commit(topic, {})
    names = kafka.topic_names()
    assert topic in names
    assert not [name for name in names if name.startswith("__")]


def test_a_topic_cannot_be_created_twice(kafka: KafkaBroker, topic: str) -> None:
    with pytest.raises(TopicExistsError, match=topic):
        kafka.create_topic(topic, TopicConfig())


def test_settings_change_and_partitions_grow(kafka: KafkaBroker, topic: str) -> None:
    assert kafka.alter_topic(topic, partitions=4, retention_ms=1000).config == TopicConfig(
        partitions=4, retention_ms=1000
    )
    with pytest.raises(DefinitionError, match="cannot shrink"):
        kafka.alter_topic(topic, partitions=1)


def test_a_deleted_topic_no_longer_exists(kafka: KafkaBroker, topic: str) -> None:
    kafka.delete_topic(topic)
    with pytest.raises(UnknownTopicError):
        kafka.topic(topic)
    assert topic not in kafka.topic_names()


def test_describing_an_unknown_topic_suggests_a_similar_name_and_does_not_create_it(
    kafka: KafkaBroker, topic: str
) -> None:
    with pytest.raises(UnknownTopicError, match=f"did you mean '{topic}'"):
        kafka.topic(topic + "x")
    assert topic + "x" not in kafka.topic_names()


class LaggingClients(Clients):
    """Clients of a cluster with a broker that learns of new topics late, and answers some requests."""

    lagging_answers = 0

    def request(
        self, send: Callable[[AdminClient], Future[T]], action: str, topic: str | None = None, **options: Any
    ) -> T:
        if self.lagging_answers and action.startswith(("describe", "read")):
            self.lagging_answers -= 1
            raise UnknownTopicError(f"there is no topic {topic!r}")
        return super().request(send, action, topic, **options)


def test_a_new_topic_is_known_although_some_broker_does_not_know_it_yet(kafka: KafkaBroker, name: str) -> None:
    clients = LaggingClients(KafkaAddress.parse(kafka.url))
    topics = KafkaTopics(clients)
    topics.create(name, TopicConfig())
    clients.lagging_answers = 2
    assert topics.config(name) == TopicConfig()
    topics.delete(name)
    with pytest.raises(UnknownTopicError):
        topics.config(name)


def test_an_invalid_name_is_never_sent_to_kafka(kafka: KafkaBroker) -> None:
    with pytest.raises(InvalidNameError):
        kafka.create_topic("a/b", TopicConfig())
