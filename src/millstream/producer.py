"""The producer: records are sent one by one and travel in blocks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias
from uuid import uuid4

import msgspec
import numpy as np

from millstream.broker import Acks, Output
from millstream.durations import Duration, milliseconds
from millstream.errors import (
    BrokerError,
    BufferFullError,
    DefinitionError,
    MillstreamError,
    RecordTooLargeError,
    SerdeError,
)
from millstream.foundation.blocks import block_of, take_rows
from millstream.foundation.headers import HeadersLike, check_timestamp, header_pairs, headers_size
from millstream.foundation.partitioning import partitions_of
from millstream.foundation.type_variables import Key, Value
from millstream.serdes import JSON, READABLE, SerdeLike, encode_error, route_encoder, serde_for

if TYPE_CHECKING:
    from millstream.broker import Broker
    from millstream.records import Headers

WhenFull: TypeAlias = Literal["block", "raise", "drop"]

_log = logging.getLogger(__name__)
_OVERHEAD = 64  # approximate bytes of a waiting record besides its key and value
_RETRY_SECONDS = 0.1
_METADATA_SECONDS = 5.0


class Delivery(msgspec.Struct, frozen=True):
    """The position of a record, or the error; with a producer ``name`` there is no offset."""

    topic: str
    partition: int | None = None
    offset: int | None = None
    error: Exception | None = None


OnDelivery: TypeAlias = Callable[[Delivery], None]


class Producer(Generic[Key, Value]):
    """Sends records to topics, after ``linger`` or when ``batch_records`` are waiting.

    Errors are never silent: the next ``send``, ``flush`` or ``close`` raises them. After a retryable error, such as a
    full disk, records are kept and sent again; after any other they are counted in ``failed``. With ``acks="none"``
    errors are only counted. When ``buffer_bytes`` are waiting, ``send`` blocks, raises ``BufferFullError``, or drops
    the record and counts it in ``dropped``. With ``name``, a record that is sent again is never stored twice, even if
    a response was lost. Threads can share a producer.

    >>> from tempfile import mkdtemp
    >>> from pathlib import Path
    >>> from millstream.broker import TopicConfig
    >>> from millstream.log import EmbeddedLog
    >>> log = EmbeddedLog(Path(mkdtemp()))
    >>> log.create_topic("lines", TopicConfig(partitions=1))
    >>> with Producer(log, value=str) as producer:
    ...     producer.send("lines", "hello", key="greeting")
    >>> log.offsets("lines")
    [Offsets(begin=0, end=1)]
    >>> log.close()
    """

    def __init__(
        self,
        broker: Broker,
        *,
        acks: Acks = "synced",
        linger: Duration = "5 ms",
        batch_records: int = 10_000,
        buffer_bytes: int = 64 << 20,
        when_full: WhenFull = "block",
        key: SerdeLike[Key] = None,
        value: SerdeLike[Value] = None,
        name: str | None = None,
    ) -> None:
        _check_choice("acks", acks, ("none", "written", "synced"))
        _check_choice("when_full", when_full, ("block", "raise", "drop"))
        self.dropped = 0
        self.failed = 0
        self._broker = broker
        self._acks: Acks = acks
        self._linger = milliseconds(linger) / 1000
        self._batch_records = batch_records
        self._buffer_bytes = buffer_bytes
        self._when_full = when_full
        self._key = serde_for(key) or READABLE
        self._value = serde_for(value) or JSON
        self._encode_key, self._encode_value = self._key.encode, self._value.encode
        encode_route = route_encoder(self._key)
        self._encode_route = None if encode_route == self._encode_key else encode_route
        self._once = None if name is None else f"{name}-{uuid4().hex[:12]}"
        self._sequence = count()
        self._topics: dict[str, _Topic] = {}
        self._filling: dict[str, _Batch] = {}
        self._since = 0.0
        self._accepted = self._finished = 0  # bytes since the start
        self._error: Exception | None = None
        self._urgent = self._closed = False
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._done = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Value | None = None,
        *,
        key: Key | None = None,
        timestamp: int | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Queue a record; ``timestamp`` is in milliseconds since 1970, by default now.

        A missing value is a tombstone. The key decides the partition; records without a key go to the partitions in
        turn, a block to each. ``on_delivery`` is called from the sending thread and should be fast.
        """
        try:
            packed_key = None if key is None else self._encode_key(key)
            packed = None if value is None else self._encode_value(value)
            route = None if key is None or self._encode_route is None else self._encode_route(key)
        except Exception as error:
            raise self._encode_error(key, value, error) from error
        size = (len(packed_key) if packed_key else 0) + (len(packed) if packed else 0)
        if timestamp is None:
            timestamp = time_ns() // 1_000_000
        else:
            check_timestamp(timestamp)
        pairs = header_pairs(headers) if headers else ()
        if pairs:
            size += headers_size(pairs)
        with self._lock:
            if self._error is not None or self._closed:
                self._raise()
            batch = self._filling.get(topic) or self._begin(topic)
            if size > batch.topic.max_record_bytes:
                raise RecordTooLargeError.of(topic, size, batch.topic.max_record_bytes)
            if self._accepted - self._finished + size > self._buffer_bytes:
                if not self._make_room(size):
                    return
                batch = self._filling.get(topic) or self._begin(topic)
            if pairs or partition is not None or on_delivery is not None or route is not None:
                batch.add_options(pairs, partition, on_delivery, route)
            batch.keys.append(packed_key)
            batch.values.append(packed)
            batch.timestamps.append(timestamp)
            self._accepted += size + _OVERHEAD
            if len(batch.keys) >= self._batch_records and not self._urgent:
                self._hurry()

    def _encode_error(self, key: Any, value: Any, error: Exception) -> SerdeError:
        try:
            if key is not None:
                self._encode_key(key)
        except Exception:
            return encode_error("key", key, self._key, error)
        return encode_error("value", value, self._value, error)

    def flush(self) -> None:
        """Wait until every record sent so far is acknowledged; raise the error if one failed."""
        with self._lock:
            target = self._accepted
            while self._finished < target and self._error is None:
                self._hurry()
                self._done.wait()
            if self._error is not None:
                self._raise()

    def close(self) -> None:
        """Flush and stop; raise the error if records were not sent, and discard them."""
        try:
            if not self._closed:
                self.flush()
        finally:
            with self._lock:
                self._closed = True
                self._work.notify()
            if self._thread is not None:
                self._thread.join()

    def _begin(self, topic: str) -> _Batch:
        cached = self._topics.get(topic)
        if cached is None or monotonic() - cached.fetched > _METADATA_SECONDS:
            last_partition = -1 if cached is None else cached.last_partition
            cached = self._topics[topic] = _Topic(self._broker, topic, last_partition)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="millstream-producer", daemon=True)
            self._thread.start()
        if not self._filling:
            self._since = monotonic()
            self._work.notify()
        batch = self._filling[topic] = _Batch(cached)
        return batch

    def _hurry(self) -> None:
        self._urgent = True
        self._work.notify()

    def _make_room(self, size: int) -> bool:
        """Apply ``when_full``; return False if the record is dropped."""
        while (waiting := self._accepted - self._finished) and waiting + size > self._buffer_bytes:
            if self._when_full == "drop":
                self.dropped += 1
                return False
            if self._when_full == "raise":
                raise BufferFullError(
                    f"{waiting} bytes are waiting to be sent, the buffer holds {self._buffer_bytes}",
                    hint="send again later, raise buffer_bytes, or choose when_full='block'",
                )
            self._hurry()
            self._done.wait()
            if self._error is not None or self._closed:
                self._raise()
        return True

    def _raise(self) -> None:
        error, self._error = self._error, None
        raise error or BrokerError("the producer is closed", hint="create another one")

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._filling and not self._closed:
                    self._work.wait()
                while not (self._urgent or self._closed) and (left := self._since + self._linger - monotonic()) > 0:
                    self._work.wait(left)
                batches, self._filling = list(self._filling.values()), {}
                self._urgent = False
                accepted = self._accepted
            if not batches:
                return
            for batch in batches:
                self._deliver(batch)
            with self._lock:
                self._finished = accepted
                self._done.notify_all()

    def _deliver(self, batch: _Batch) -> None:
        error = self._attempt(batch)
        while isinstance(error, MillstreamError) and error.retryable and self._acks != "none":
            with self._lock:
                self._error = batch.error = error
                self._done.notify_all()
                if self._closed:
                    break
                self._work.wait(_RETRY_SECONDS)
            error = self._attempt(batch)
        with self._lock:
            if error is None:
                self._error = None if self._error is batch.error else self._error
            else:
                self.failed += len(batch.keys)
                self._error = self._error if self._acks == "none" else error
        batch.report(error)

    def _attempt(self, batch: _Batch) -> Exception | None:
        try:
            outputs = batch.outputs(self._batch_records)
            if self._once is None:
                batch.offsets = self._broker.append(outputs, acks=self._acks)
            else:
                batch.sequence = next(self._sequence) if batch.sequence is None else batch.sequence
                self._broker.append_once(self._once, batch.sequence, outputs, acks=self._acks)
        except Exception as error:
            return error
        return None


class _Topic:
    """Cached metadata of a topic, and the partition of the last block without keys."""

    def __init__(self, broker: Broker, name: str, last_partition: int) -> None:
        info = broker.topic(name)
        self.name = name
        self.partitions = info.partitions
        self.max_record_bytes = info.config.max_record_bytes
        self.last_partition = last_partition
        self.fetched = monotonic()


class _Batch:
    """Records of one topic that are sent together; options that few records have are kept by row."""

    def __init__(self, topic: _Topic) -> None:
        self.topic = topic
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.sequence: int | None = None
        self.offsets: Sequence[int] | None = None
        self.error: Exception | None = None
        self._headers: dict[int, Headers] = {}
        self._partitions: dict[int, int] = {}
        self._routes: dict[int, bytes] = {}
        self._callbacks: dict[int, OnDelivery] = {}
        self._outputs: list[Output] | None = None
        self._rows: list[Any] = []

    def add_options(
        self,
        pairs: Headers,
        partition: int | None,
        on_delivery: OnDelivery | None,
        route: bytes | None,
    ) -> None:
        """Keep the options of the next row."""
        row = len(self.keys)
        if partition is not None:
            if not 0 <= partition < self.topic.partitions:
                raise BrokerError(
                    f"topic {self.topic.name!r} has no partition {partition!r}",
                    hint=f"it has {self.topic.partitions}, counted from 0",
                )
            self._partitions[row] = partition
        if pairs:
            self._headers[row] = pairs
        if on_delivery is not None:
            self._callbacks[row] = on_delivery
        if route is not None:
            self._routes[row] = route

    def outputs(self, max_records: int) -> list[Output]:
        """Return the records as blocks of at most ``max_records``, by partition; the same blocks if called again."""
        if self._outputs is None:
            headers = [self._headers.get(row, ()) for row in range(len(self.keys))] if self._headers else None
            block = block_of(self.keys, self.values, self.timestamps, headers)
            self._outputs = []
            for partition, rows in self._by_partition():
                selected = block if len(rows) == len(block) else take_rows(block, rows)
                for start in range(0, len(rows), max_records):
                    self._outputs.append(Output(self.topic.name, partition, selected.slice(start, max_records)))
                    self._rows.append(rows[start : start + max_records])
        return self._outputs

    def _by_partition(self) -> Iterator[tuple[int, Any]]:
        size, count = len(self.keys), self.topic.partitions
        routes = [self._routes.get(row, key) for row, key in enumerate(self.keys)] if self._routes else self.keys
        if None in routes:
            self.topic.last_partition = (self.topic.last_partition + 1) % count
            partitions = np.full(size, self.topic.last_partition)
            keyed = [row for row, route in enumerate(routes) if route is not None]
            partitions[keyed] = partitions_of([route for route in routes if route is not None], count)
        else:
            partitions = partitions_of([route for route in routes if route is not None], count)
        for row, partition in self._partitions.items():
            partitions[row] = partition
        for partition in np.unique(partitions).tolist():
            yield partition, np.flatnonzero(partitions == partition)

    def report(self, error: Exception | None) -> None:
        """Call the delivery callbacks; their exceptions are logged."""
        if self._callbacks:
            for row, delivery in self._deliveries(error):
                try:
                    self._callbacks[row](delivery)
                except Exception:
                    _log.exception("producer.on_delivery_failed topic=%s", self.topic.name)

    def _deliveries(self, error: Exception | None) -> Iterator[tuple[int, Delivery]]:
        if error is not None:
            yield from ((row, Delivery(self.topic.name, error=error)) for row in self._callbacks)
            return
        for number, (output, rows) in enumerate(zip(self._outputs or (), self._rows, strict=True)):
            for index, row in enumerate(rows.tolist()):
                if row in self._callbacks:
                    first = None if self.offsets is None else self.offsets[number]
                    offset = None if first is None or first < 0 else first + index
                    yield row, Delivery(output.topic, output.partition, offset)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise DefinitionError(f"{name} is {value!r}", hint=f"choose one of {choices!r}")
