"""One consumer in a share group of Kafka (KIP-932), by the client's share consumer, which is a preview.

The client must answer for all records of a poll before the next one, and may return more records than asked for: those
are kept here until they are asked for. A lock cannot be renewed, nor a release delayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaError, KafkaException, Message
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from millstream.broker import Acquired, Answer, Refusal
from millstream.errors import BrokerError, MillstreamError
from millstream.foundation.names import check_name
from millstream.kafka.failures import to_millstream_error, translate_kafka_errors
from millstream.kafka.reading import chunk_of
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.broker import Output, ShareSettings
    from millstream.kafka.clients import Clients

_ACKNOWLEDGE = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "unread": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}
_ANSWER_SECONDS = 20.0
_LOST = {KafkaError.INVALID_RECORD_STATE, KafkaError.SHARE_SESSION_NOT_FOUND, KafkaError.INVALID_SHARE_SESSION_EPOCH}
Append = Callable[[Sequence["Output"]], object]


class KafkaShareMember:
    """One consumer in a share group, used by one thread."""

    def __init__(self, clients: Clients, group: str, settings: ShareSettings, append: Append) -> None:
        self._group = check_name("group", group)
        self._clients = clients
        self._append = append
        self._ahead: list[Message] = []
        self._held: set[tuple[str, int, int]] = set()
        _configure(clients, group, settings)
        self._consumer = clients.share_consumer(group)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics from now on."""
        names = [check_name("topic", topic) for topic in topics]
        with translate_kafka_errors(self._action):
            self._consumer.subscribe(names) if names else self._consumer.unsubscribe()

    def poll(self, answers: Sequence[Answer], max_records: int, timeout: float) -> tuple[list[Acquired], list[Refusal]]:
        """Send answers and acquire records; acquire none if an answer was refused."""
        refused = self.answer(answers)
        if refused:
            return [], refused
        deadline = monotonic() + timeout
        while not self._ahead and not self._held:
            messages = self._fetch(max(0.0, deadline - monotonic()))
            self._ahead += messages
            if not messages and monotonic() >= deadline:
                break
        taken, self._ahead = self._ahead[:max_records], self._ahead[max_records:]
        self._held.update(map(_position, taken))
        return list(_acquired(taken)), []

    def answer(self, answers: Sequence[Answer]) -> list[Refusal]:
        """Send answers and wait for Kafka's response."""
        if not answers:
            return []
        refused = [refusal for answer in answers for refusal in self._acknowledge(answer)]
        with translate_kafka_errors(self._action):
            results: Mapping[Any, KafkaException | None] = self._consumer.commit_sync(timeout=_ANSWER_SECONDS)
        failed = {
            TopicPartition(key.topic, key.partition): error.args[0]
            for key, error in results.items()
            if error is not None
        }
        refused += [
            Refusal(answer, self._error(answer, failed[answer.partition]))
            for answer in answers
            if answer.partition in failed
        ]
        return refused

    def publish(self, letters: Mapping[tuple[TopicPartition, int], Output]) -> None:
        """Append the dead letters; a crash before their records are archived repeats them."""
        self._append(list(letters.values()))

    def leave(self, answers: Sequence[Answer]) -> list[Refusal]:
        """Send answers, release all other records and leave the group."""
        try:
            return self.answer(answers)
        finally:
            with translate_kafka_errors(self._action):
                self._consumer.close()

    def _fetch(self, timeout: float) -> list[Message]:
        self._clients.check_authentication(self._action)
        with translate_kafka_errors(self._action):
            messages = list(self._consumer.poll(timeout=timeout))
        for message in messages:
            error = message.error()
            if error is not None and not error.retriable() and error.code() not in _WAITS_FOR_TOPIC:
                raise to_millstream_error(error, self._action)
        return [message for message in messages if message.error() is None]

    def _acknowledge(self, answer: Answer) -> Iterable[Refusal]:
        topic, partition = answer.partition.topic, answer.partition.partition
        for offset in range(answer.first, answer.last + 1):
            if (topic, partition, offset) not in self._held:
                continue  # the range has a gap
            self._held.discard((topic, partition, offset))
            try:
                self._consumer.acknowledge_offset(topic, partition, offset, _ACKNOWLEDGE[answer.kind])
            except IllegalStateException:
                part = Answer(answer.partition, offset, offset, answer.kind)
                yield Refusal(part, part.lock_lost(self._group))

    def _error(self, answer: Answer, error: KafkaError) -> MillstreamError:
        if error.code() in _LOST:
            return answer.lock_lost(self._group)
        return to_millstream_error(error, self._action, answer.partition.topic)

    @property
    def _action(self) -> str:
        return f"participate in share group {self._group!r}"


_WAITS_FOR_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID}


def _configure(clients: Clients, group: str, settings: ShareSettings) -> None:
    """Set the settings of the group; Kafka allows one delivery more, in which the record becomes a dead letter."""
    start = settings.start if isinstance(settings.start, str) else f"by_duration:PT{settings.start / 1000:.3f}S"
    changes = {
        "share.auto.offset.reset": start,
        "share.record.lock.duration.ms": str(settings.lock_ms),
        "share.delivery.count.limit": str(settings.max_deliveries + 1),
        "share.isolation.level": "read_committed",
    }
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    action = f"set lock, max_deliveries and start of share group {group!r}"
    try:
        clients.request(lambda admin: admin.incremental_alter_configs([resource])[resource], action)
    except BrokerError as error:
        if type(error) is BrokerError:  # the cluster limits these settings
            error.hint = "choose a value that the brokers allow"
        raise


def _acquired(messages: Sequence[Message]) -> Iterable[Acquired]:
    """Yield consecutive messages with the same partition and delivery count."""
    for (topic, partition, deliveries), same in groupby(messages, key=_delivery):
        records = list(same)
        chunk = chunk_of(records, (records[-1].offset() or 0) + 1)
        yield Acquired(TopicPartition(topic, partition), chunk, deliveries)


def _delivery(message: Message) -> tuple[str, int, int]:
    return message.topic() or "", message.partition() or 0, message.delivery_count() or 1


def _position(message: Message) -> tuple[str, int, int]:
    return message.topic() or "", message.partition() or 0, message.offset() or 0
