"""A topic's databases in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from zlib import crc32

from millstream.errors import OffsetOutOfRangeError
from millstream.foundation.blocks import Buffer
from millstream.foundation.damage import damaged
from millstream.foundation.transactions import Transaction
from millstream.log.layout import (
    Bounds,
    Span,
    blob_key,
    pack_bounds,
    pack_sequence,
    pack_span,
    partition_key,
    producer_key,
    spans,
    unpack_bounds,
    unpack_sequence,
)


class Snapshot:
    """The databases of a topic in one transaction."""

    def __init__(self, txn: Transaction, databases: dict[str, Any], path: Path) -> None:
        self.txn = txn
        self._path = path
        self._blobs = databases["blobs"]
        self._index = databases["index"]
        self._producers = databases["producers"]
        self._bounds = databases["bounds"]

    def bounds(self, partition: int) -> Bounds:
        return unpack_bounds(self.txn.get(partition_key(partition), db=self._bounds))

    def put_bounds(self, partition: int, bounds: Bounds) -> None:
        self.txn.put(partition_key(partition), pack_bounds(bounds), db=self._bounds)

    def spans(self, partition: int, start: int) -> Iterator[Span]:
        return spans(self.txn, self._index, partition, start)

    def blob(self, partition: int, span: Span) -> Any:
        """Return a blob; one that is missing or does not match its checksum is an error, never a value."""
        data: Any = self.txn.get(blob_key(partition, span.base), db=self._blobs)
        if data is None or (span.checksum is not None and crc32(data) != span.checksum):
            offsets = f"offsets {span.base} to {span.next_offset - 1} of partition {partition}"
            reason = "are missing" if data is None else "do not match their checksum"
            raise damaged(self._path / "data.mdb", f"the records with {offsets} {reason}")
        return data

    def put_blob(self, partition: int, span: Span, data: Buffer) -> None:
        key = blob_key(partition, span.base)
        self.txn.put(key, cast("bytes", data), db=self._blobs)  # without a checksum, so that any buffer will do
        self.txn.put(key, pack_span(span._replace(checksum=crc32(data))), db=self._index)

    def delete_blob(self, partition: int, base: int) -> None:
        key = blob_key(partition, base)
        self.txn.delete(key, db=self._blobs)
        self.txn.delete(key, db=self._index)

    def last_sequence(self, partition: int, producer: str) -> int | None:
        stored = self.txn.get(producer_key(partition, producer), db=self._producers)
        return None if stored is None else unpack_sequence(stored)

    def put_sequence(self, partition: int, producer: str, sequence: int) -> None:
        self.txn.put(producer_key(partition, producer), pack_sequence(sequence), db=self._producers)

    def drop_before(self, partition: int, offset: int) -> None:
        """Set the first offset of a partition to ``offset`` and delete the blobs before it."""
        bounds = self.bounds(partition)
        freed = 0
        for span in list(_entirely_before(self.spans(partition, bounds.begin), offset)):
            self.delete_blob(partition, span.base)
            freed += span.bytes
        self.put_bounds(partition, bounds._replace(begin=offset, bytes=bounds.bytes - freed))


def out_of_range(topic: str, partition: int, offset: int, bounds: Bounds) -> OffsetOutOfRangeError:
    """Build the error for an offset that a partition does not have."""
    return OffsetOutOfRangeError(
        f"{topic}[{partition}] has no offset {offset}",
        hint=f"its offsets range from {bounds.begin} to {bounds.end}",
        topic=topic,
        partition=partition,
        offset=offset,
        begin=bounds.begin,
        end=bounds.end,
    )


def _entirely_before(spans: Iterator[Span], offset: int) -> Iterator[Span]:
    for span in spans:
        if span.next_offset > offset:
            return
        yield span
