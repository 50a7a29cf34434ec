"""Put blocks into the client's queue, record by record: the client's batch API does not support timestamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Producer

from millstream.broker import Output
from millstream.foundation.blocks import headers_of

_QUEUE_FULL_SECONDS = 0.1
_MIN_TIMESTAMP = 1  # the client replaces the timestamp 0 by the current time; 1 is the nearest it can send
OnDelivery = Callable[[Any, Any], None]


def enqueue(producer: Producer, output: Output, on_delivery: OnDelivery | None = None) -> None:
    """Queue the records of a block for its partition; the client's partitioner is not used."""
    columns = [output.block.column(number).to_pylist() for number in range(3)]
    headers: Sequence[Any] | None = headers_of(output.block)
    send, topic, partition = producer.produce, output.topic, output.partition
    options: dict[str, Any] = {} if on_delivery is None else {"on_delivery": on_delivery}
    for row, (key, value, timestamp) in enumerate(zip(*columns, strict=True)):
        if headers is not None:
            options["headers"] = list(headers[row]) or None
        while True:
            try:
                send(topic, value, key, partition, timestamp=timestamp or _MIN_TIMESTAMP, **options)
                break
            except BufferError:
                producer.poll(_QUEUE_FULL_SECONDS)
