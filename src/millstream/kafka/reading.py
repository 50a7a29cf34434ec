"""Ranges of partitions as blocks.

A range ends when a record, or the end of the partition, at or behind its end was seen, never by counting: aborted
records, control records and compaction leave gaps. Readers are kept where they stand: the client goes on fetching in
the background, so that the next range of a partition is often there before it is asked for.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from millstream.broker import RecordChunk
from millstream.errors import BrokerUnavailableError, MillstreamError
from millstream.foundation.blocks import block_of
from millstream.kafka.failures import explained, is_about_the_group, translated

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_CHUNK_RECORDS = 10_000
_SILENT_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_KEPT_READERS = 32
_TRUSTED_SECONDS = 30.0
_SKIPPED_RECORDS = 20_000  # going forward by less is quicker than asking for another place
_SETTINGS = {
    "fetch.wait.max.ms": 100,  # a range that begins elsewhere has to wait for the request before it
    "fetch.queue.backoff.ms": 5,  # by default the client pauses for a second when its queue is full
    "fetch.message.max.bytes": 2_097_152,
    "queued.min.messages": 20_000,  # what is fetched ahead is thrown away if another process reads the next range
    "queued.max.messages.kbytes": 32_768,
}


class Readers:
    """The readers of this process that are not busy, by the partition they stand in."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._idle: dict[tuple[str, int], _Reader] = {}
        self._lock = threading.Lock()

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records with ``start <= offset < end`` in order."""
        if start >= end:
            return
        reader = self._taken(topic, partition)
        try:
            for chunk in reader.read(start, end):
                start = chunk.next_offset
                yield chunk
        except GeneratorExit:  # the rest of the range is not wanted
            reader.rest()
            self._give_back(reader)
            raise
        except MillstreamError:
            reader.close()
            if reader.is_new:
                raise
        else:
            self._give_back(reader)
            return
        # A kept reader may have met its error long ago, when the topic was another one.
        yield from self.read(topic, partition, start, end)

    def close(self) -> None:
        """Close all readers."""
        with self._lock:
            readers, self._idle = list(self._idle.values()), {}
        for reader in readers:
            reader.close()

    def _taken(self, topic: str, partition: int) -> _Reader:
        with self._lock:
            reader = self._idle.pop((topic, partition), None)
            if reader is None and len(self._idle) >= _KEPT_READERS:
                reader = self._idle.pop(next(iter(self._idle)))
        if reader is None:
            reader = _Reader(self._clients)
        reader.stand_in(topic, partition)
        return reader

    def _give_back(self, reader: _Reader) -> None:
        reader.is_new = False
        reader.used = monotonic()
        with self._lock:
            other = self._idle.pop(reader.place, None)
            self._idle[reader.place] = reader
        if other is not None:
            other.close()


class _Reader:
    """A consumer that stands somewhere in one partition."""

    def __init__(self, clients: Clients) -> None:
        self.place = ("", -1)
        self.is_new = True
        self.used = monotonic()
        self._clients = clients
        self._consumer: Consumer = clients.consumer(_SETTINGS)
        self._position: int | None = None
        """All before it has been handed out; None if the consumer stands nowhere."""
        self._ahead: list[Message] = []
        """Fetched, but not before the end of the range that was asked for."""

    def stand_in(self, topic: str, partition: int) -> None:
        """Be ready to read a partition; what was fetched long ago is not trusted, the topic may be another one."""
        if self.place != (topic, partition) or monotonic() - self.used > _TRUSTED_SECONDS:
            self.place = topic, partition
            self._position, self._ahead = None, []

    def rest(self) -> None:
        """Fetch no further."""
        self._consumer.unassign()
        self._position, self._ahead = None, []

    def close(self) -> None:
        self._consumer.close()

    def read(self, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records of a range, chunk by chunk."""
        position = self._position
        if position is None or not 0 <= start - position <= _SKIPPED_RECORDS:
            topic, partition = self.place
            with translated(self._doing, topic):
                self._consumer.assign([TopicPartition(topic, partition, start)])
            self._ahead = []
            self._position = start
        else:
            self._ahead = self._ahead[_place_of(self._ahead, start) :]
            self._position = start
        while self._position < end:
            records = self._next(start, end)
            if records:
                yield _chunk(records, self._position)

    @property
    def _doing(self) -> str:
        return f"read {self.place[0]}[{self.place[1]}]"

    def _next(self, start: int, end: int) -> list[Message]:
        """Return the next records of a range and move the position behind them."""
        found = self._ahead or self._fetched()
        events = [message for message in found if message.error() is not None]
        if not all(map(self._is_end, events)):
            found = [message for message in found if message.error() is None or self._is_end(message)]
        cut = _place_of(found, end)
        self._ahead = found[cut:]
        found = found[_place_of(found, start) : cut]
        if self._ahead:
            self._position = end
        elif found:
            last = found[-1]
            self._position = (last.offset() or 0) + (last.error() is None)
        return [message for message in found if message.error() is None] if events else found

    def _fetched(self) -> list[Message]:
        """Return what has come, records and the end of the partition alike; wait for it if need be."""
        deadline = monotonic() + _SILENT_SECONDS
        while True:
            with translated(self._doing, self.place[0]):
                # asked for many, the client waits for all of them: so wait for one and take what else is there
                found = self._consumer.consume(_CHUNK_RECORDS, 0) or self._consumer.consume(1, _LOOK_SECONDS)
                if len(found) == 1:
                    found += self._consumer.consume(_CHUNK_RECORDS, 0)
            if found:
                return found
            self._clients.check_door(self._doing)
            if monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"cannot {self._doing} from offset {self._position} on: nothing came in {_SILENT_SECONDS:.0f} s",
                    hint="is its broker running? it is tried again",
                )

    def _is_end(self, event: Message) -> bool:
        """Whether an event is the end of the partition, and not one that does not concern us; others are raised."""
        error = event.error()
        if error is None or is_about_the_group(error):
            return False
        if error.code() != KafkaError._PARTITION_EOF:
            raise explained(error, self._doing, self.place[0])
        return True


def _place_of(messages: list[Message], offset: int) -> int:
    """Return the place of the first message that is not before ``offset``; the end of a partition counts as one."""
    if not messages or (messages[-1].offset() or 0) < offset:
        return len(messages)
    return bisect_left(messages, offset, key=lambda message: message.offset() or 0)


def _chunk(messages: list[Message], next_offset: int) -> RecordChunk:
    offsets: Sequence[Any] = [message.offset() for message in messages]
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        offsets = range(offsets[0], offsets[-1] + 1)
    headers: list[Any] = [message.headers() for message in messages]
    block = block_of(
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.timestamp()[1] for message in messages],
        [tuple(one) if one else () for one in headers] if any(headers) else None,
    )
    return RecordChunk(block, offsets, next_offset)
