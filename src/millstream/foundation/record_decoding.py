"""Decode blocks to records for consumers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from millstream.errors import SerdeError
from millstream.foundation.blocks import headers_of
from millstream.foundation.headers import InvalidHeaders
from millstream.foundation.text import error_text
from millstream.records import Headers, Record, TopicPartition
from millstream.serdes import RAW, Serde


class RecordDecoder:
    """Decodes columns of bytes to records."""

    def __init__(self, key: Serde, value: Serde) -> None:
        self._serdes = (key, value)

    def records(
        self, partition: TopicPartition, block: Any, offsets: Sequence[int]
    ) -> tuple[list[Record], SerdeError | None]:
        """Return the records up to the first that cannot be decoded, and its error."""
        keys, values = block.column(0).to_pylist(), block.column(1).to_pylist()
        error = None
        for part, column, serde in zip(("key", "value"), (keys, values), self._serdes, strict=True):
            if serde is not RAW:
                del column[len(keys) :]  # values after a bad key are not decoded
                error = _decode(column, serde, part, partition, offsets) or error
        headers = headers_of(block)
        if headers is not None:
            error = _cut_at_invalid(headers, keys, min(len(keys), len(values)), partition, offsets) or error
        columns = [offsets, keys, values, block.column(2).to_pylist()]
        if headers is not None:
            columns.append(headers)
        return list(map(Record, repeat(partition.topic), repeat(partition.partition), *columns)), error


def _cut_at_invalid(
    headers: list[Headers], keys: list[Any], count: int, partition: TopicPartition, offsets: Sequence[int]
) -> SerdeError | None:
    """Cut the keys at the first record whose headers cannot be decoded, so that ``map`` cuts the other columns too."""
    row = next((row for row, pairs in enumerate(headers) if type(pairs) is InvalidHeaders), count)
    if row >= count:
        return None
    del keys[row:]
    return SerdeError(
        f"cannot decode the headers of {partition.topic}[{partition.partition}]@{offsets[row]}",
        hint="skip the record with seek",
        topic=partition.topic,
        partition=partition.partition,
        offset=offsets[row],
    )


def _decode(
    column: list[Any], serde: Serde, part: str, partition: TopicPartition, offsets: Sequence[int]
) -> SerdeError | None:
    """Decode a column in place; cut it at the first failure, so that ``map`` cuts the other columns there too."""
    decode: Callable[[bytes], Any] = serde.decode
    decoded: list[Any] = []
    try:
        decoded.extend(None if data is None else decode(data) for data in column)
    except Exception as cause:
        row = len(decoded)
        data = column[row]
        column[:] = decoded
        error = SerdeError(
            f"cannot decode the {part} of {partition.topic}[{partition.partition}]@{offsets[row]} "
            f"as {serde.name}: {error_text(cause)} in {data!r:.80}",
            hint=f"read it with {part}=bytes, or skip it with seek",
            topic=partition.topic,
            partition=partition.partition,
            offset=offsets[row],
        )
        error.__cause__ = cause
        return error
    column[:] = decoded
    return None
