"""Blocks to the client's queue, record by record: the client has no other way in that keeps timestamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Producer

from millstream.broker import Output
from millstream.foundation.blocks import headers_of

_QUEUE_FULL_SECONDS = 0.1
_NOT_NOW = 1  # the client takes the time 0 for "now"; a millisecond later is the nearest that it can send
OnDelivery = Callable[[Any, Any], None]


def produce(producer: Producer, output: Output, on_delivery: OnDelivery | None = None) -> None:
    """Queue the records of a block; the partition is the caller's choice, never the client's."""
    columns = [output.block.column(number).to_pylist() for number in range(3)]
    headers: Sequence[Any] | None = headers_of(output.block)
    send, topic, partition = producer.produce, output.topic, output.partition
    more: dict[str, Any] = {} if on_delivery is None else {"on_delivery": on_delivery}
    for row, (key, value, timestamp) in enumerate(zip(*columns, strict=True)):
        if headers is not None:
            more["headers"] = list(headers[row]) or None
        while True:
            try:
                send(topic, value, key, partition, timestamp=timestamp or _NOT_NOW, **more)
                break
            except BufferError:
                producer.poll(_QUEUE_FULL_SECONDS)
