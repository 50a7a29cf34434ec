"""A broker that counts the bytes of the records that are read from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from millstream.broker import Broker, RecordChunk


class MeteredBroker:
    """Reports each chunk before it is used, so that a limit ends a batch of large records early."""

    def __init__(self, broker: Broker, on_read: Callable[[int], None] | None = None) -> None:
        self._broker = broker
        self._on_read = on_read
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records with ``start <= offset < end`` in order."""
        for chunk in self._broker.read(topic, partition, start, end):
            size = chunk.block.nbytes
            self.bytes += size
            if self._on_read is not None:
                self._on_read(size)
            yield chunk
