"""Waiting for new records: a consumer that looks at the ends of partitions, and at little else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as Place

from millstream.kafka.failures import explained, is_about_the_group, translated
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_DOING = "wait for records"
_LOOK_SECONDS = 0.2
_SETTINGS = {
    "fetch.wait.max.ms": 500,  # the broker answers as soon as there is something
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": 4_096,  # a record is enough to know
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 64,
    "enable.partition.eof": False,
}


class Waiter:
    """One thread's ear, kept from wait to wait."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._consumer: Consumer = clients.consumer(_SETTINGS)
        self._seen: dict[TopicPartition, int] = {}
        """The newest offset heard of in each partition that is listened to."""

    def wait(self, positions: Mapping[TopicPartition, int], timeout: float, has_more: Callable[[], bool]) -> bool:
        """Block until a partition has a record at or after its position.

        A position that nothing follows but control records is seen by ``has_more``, which asks for the ends.
        """
        self._listen(positions)
        deadline = monotonic() + timeout
        while not any(self._seen[each] >= at for each, at in positions.items()):
            left = deadline - monotonic()
            if left <= 0:
                return has_more()
            with translated(_DOING):
                message = self._consumer.poll(min(left, _LOOK_SECONDS))
            if message is None:
                self._clients.check_door(_DOING)
            else:
                self._note(message, positions)
        return True

    def close(self) -> None:
        """Stop listening."""
        self._consumer.close()

    def _listen(self, positions: Mapping[TopicPartition, int]) -> None:
        if positions.keys() != self._seen.keys():
            places = [Place(each.topic, each.partition, at) for each, at in positions.items()]
            with translated(_DOING):
                self._consumer.assign(places)
            self._seen = dict.fromkeys(positions, -1)

    def _note(self, message: Message, positions: Mapping[TopicPartition, int]) -> None:
        error, topic, partition = message.error(), message.topic(), message.partition()
        if error is not None and is_about_the_group(error):
            return
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self._seen = {}
            raise explained(error, _DOING, topic)
        if topic is None or partition is None:
            return
        each, offset = TopicPartition(topic, partition), message.offset() or 0
        self._seen[each] = max(self._seen.get(each, -1), offset)
        if offset < positions.get(each, 0):  # it was read meanwhile; what lies between is of no interest
            with translated(_DOING):
                self._consumer.seek(Place(topic, partition, positions[each]))
