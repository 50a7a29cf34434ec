"""Read ranges of partitions as blocks.

A range is complete when a record at or after its end, or the end of the partition, was received, never by counting:
aborted records, control records and compaction leave gaps. Idle readers keep their position for a few seconds: the
client continues to fetch in the background, so that the next range of a partition is often available before it is
requested.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from millstream.broker import RecordChunk
from millstream.errors import BrokerUnavailableError, MillstreamError
from millstream.foundation.blocks import block_of
from millstream.kafka.failures import is_group_authorization_error, to_millstream_error, translate_kafka_errors
from millstream.records import TopicPartition as TopicKey

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_CHUNK_RECORDS = 10_000
_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.1
_MAX_IDLE_READERS = 32
_MAX_IDLE_SECONDS = 5.0  # an idle reader at the end of its partition sends ten requests per second
_MAX_SKIPPED_RECORDS = 20_000  # skipping up to this many records is faster than fetching from a new position
_SETTINGS = {
    "fetch.wait.max.ms": 100,  # a range at another position has to wait for the previous request
    "fetch.queue.backoff.ms": 5,  # by default the client pauses for a second when its queue is full
    "fetch.message.max.bytes": 2_097_152,
    "queued.min.messages": 20_000,  # prefetched records are wasted if another process reads the next range
    "queued.max.messages.kbytes": 32_768,
}


class ReaderPool:
    """The idle readers of this process by partition."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._idle: dict[tuple[str, int], _Reader] = {}
        self._lock = threading.Lock()

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records with ``start <= offset < end`` in order."""
        if start >= end:
            return
        reader = self._acquire(topic, partition)
        try:
            for chunk in reader.read(start, end):
                start = chunk.next_offset
                yield chunk
        except GeneratorExit:  # the caller does not want the remaining records
            reader.stop_fetching()
            self._release(reader)
            raise
        except MillstreamError:
            reader.close()
            if reader.is_new:
                raise
        else:
            self._release(reader)
            return
        # The error of an idle reader may be old, from before the topic was deleted and created again.
        yield from self.read(topic, partition, start, end)

    def stop_idle(self) -> None:
        """Stop fetching for partitions that have not been read for some seconds."""
        used_before = monotonic() - _MAX_IDLE_SECONDS
        with self._lock:
            for reader in self._idle.values():
                if reader.is_fetching and reader.used_at < used_before:
                    reader.stop_fetching()

    def discard(self, partitions: Iterable[TopicKey]) -> None:
        """Close the idle readers of partitions that are read in another way, so that they fetch nothing."""
        with self._lock:
            readers = [self._idle.pop((key.topic, key.partition), None) for key in partitions]
        for reader in readers:
            if reader is not None:
                reader.close()

    def close(self) -> None:
        """Close all readers."""
        with self._lock:
            readers, self._idle = list(self._idle.values()), {}
        for reader in readers:
            reader.close()

    def _acquire(self, topic: str, partition: int) -> _Reader:
        with self._lock:
            reader = self._idle.pop((topic, partition), None)
            if reader is None and len(self._idle) >= _MAX_IDLE_READERS:
                reader = self._idle.pop(next(iter(self._idle)))
        if reader is None:
            reader = _Reader(self._clients)
        reader.assign(topic, partition)
        return reader

    def _release(self, reader: _Reader) -> None:
        reader.is_new = False
        reader.used_at = monotonic()
        with self._lock:
            replaced = self._idle.pop(reader.partition, None)
            self._idle[reader.partition] = reader
        if replaced is not None:
            replaced.close()
        self.stop_idle()


class _Reader:
    """A consumer with a position in one partition."""

    def __init__(self, clients: Clients) -> None:
        self.partition = ("", -1)
        self.is_new = True
        self.used_at = monotonic()
        self._clients = clients
        self._consumer: Consumer = clients.consumer(_SETTINGS)
        self._position: int | None = None
        """The offset after the last returned record; None if the consumer has no position."""
        self._prefetched: list[Message] = []
        """Records that were fetched beyond the end of the requested range."""

    @property
    def is_fetching(self) -> bool:
        """Whether the client fetches records at the position of this reader."""
        return self._position is not None

    def assign(self, topic: str, partition: int) -> None:
        """Prepare to read a partition; old prefetched records are dropped, since the topic may have been replaced."""
        if self.partition != (topic, partition) or monotonic() - self.used_at > _MAX_IDLE_SECONDS:
            self.partition = topic, partition
            self._position, self._prefetched = None, []

    def stop_fetching(self) -> None:
        """Stop fetching in the background."""
        self._consumer.unassign()
        self._position, self._prefetched = None, []

    def close(self) -> None:
        self._consumer.close()

    def read(self, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records of a range, chunk by chunk."""
        position = self._position
        if position is None or not 0 <= start - position <= _MAX_SKIPPED_RECORDS:
            topic, partition = self.partition
            with translate_kafka_errors(self._action, topic):
                self._consumer.assign([TopicPartition(topic, partition, start)])
            self._prefetched = []
            self._position = start
        else:
            self._prefetched = self._prefetched[_index_of(self._prefetched, start) :]
            self._position = start
        while self._position < end:
            records = self._next(start, end)
            if records:
                yield chunk_of(records, self._position)

    @property
    def _action(self) -> str:
        return f"read {self.partition[0]}[{self.partition[1]}]"

    def _next(self, start: int, end: int) -> list[Message]:
        """Return the next records of a range and move the position after them."""
        messages = self._prefetched or self._fetch()
        events = [message for message in messages if message.error() is not None]
        if not all(map(self._is_end, events)):
            messages = [message for message in messages if message.error() is None or self._is_end(message)]
        cut = _index_of(messages, end)
        self._prefetched = messages[cut:]
        messages = messages[_index_of(messages, start) : cut]
        if self._prefetched:
            self._position = end
        elif messages:
            last = messages[-1]
            self._position = (last.offset() or 0) + (last.error() is None)
        return [message for message in messages if message.error() is None] if events else messages

    def _fetch(self) -> list[Message]:
        """Return received messages: records and the end of the partition; wait if there are none yet."""
        deadline = monotonic() + _TIMEOUT_SECONDS
        while True:
            with translate_kafka_errors(self._action, self.partition[0]):
                # The client would wait until all requested messages have arrived, so wait for one and take the rest.
                messages = self._consumer.consume(_CHUNK_RECORDS, 0) or self._consumer.consume(1, _POLL_SECONDS)
                if len(messages) == 1:
                    messages += self._consumer.consume(_CHUNK_RECORDS, 0)
            if messages:
                return messages
            self._clients.check_authentication(self._action)
            if monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"cannot {self._action} from offset {self._position}: no response in {_TIMEOUT_SECONDS:.0f} s",
                    hint="check that its broker is running; the request is retried",
                )

    def _is_end(self, event: Message) -> bool:
        """Whether an event is the end of the partition; False for events to ignore, other events are raised."""
        error = event.error()
        if error is None or is_group_authorization_error(error):
            return False
        if error.code() != KafkaError._PARTITION_EOF:
            raise to_millstream_error(error, self._action, self.partition[0])
        return True


def _index_of(messages: list[Message], offset: int) -> int:
    """Return the index of the first message at or after ``offset``; the end of a partition counts as a message."""
    if not messages or (messages[-1].offset() or 0) < offset:
        return len(messages)
    return bisect_left(messages, offset, key=lambda message: message.offset() or 0)


def chunk_of(messages: list[Message], next_offset: int) -> RecordChunk:
    """Return consecutive messages of a partition as a chunk."""
    offsets: Sequence[Any] = [message.offset() for message in messages]
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        offsets = range(offsets[0], offsets[-1] + 1)
    headers: list[Any] = [message.headers() for message in messages]
    block = block_of(
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.timestamp()[1] for message in messages],
        [tuple(pairs) if pairs else () for pairs in headers] if any(headers) else None,
    )
    return RecordChunk(block, offsets, next_offset)
