"""Shared fixtures: a log in a new directory, and shortcuts to write and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog

Pairs = list[tuple[str | None, str | None]]
Send = Callable[..., int]
Read = Callable[..., list[tuple[int, str]]]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as log:
        yield log


@pytest.fixture
def topic(log: EmbeddedLog) -> str:
    log.create_topic("lines", TopicConfig(partitions=2))
    return "lines"


@pytest.fixture
def send(log: EmbeddedLog) -> Send:
    """Append ``"key:value"`` texts as one block; a text without ``:`` has no key, ``"key:"`` is a tombstone."""

    def send(topic: str, *texts: str, partition: int = 0, times: list[int] | None = None) -> int:
        keys = [text.partition(":")[0].encode() if ":" in text else None for text in texts]
        values = [text.rpartition(":")[2].encode() or None for text in texts]
        block = block_of(keys, values, times or [0] * len(texts))
        return log.append([Output(topic, partition, block)])[0]

    return send


@pytest.fixture
def read(log: EmbeddedLog) -> Read:
    """Return ``(offset, value)`` of a range, by default of all records."""

    def read(topic: str, partition: int = 0, start: int | None = None, end: int | None = None) -> list[tuple[int, str]]:
        offsets = log.offsets(topic)[partition]
        start, end = offsets.begin if start is None else start, offsets.end if end is None else end
        return [
            (offset, (value or b"").decode())
            for chunk in log.read(topic, partition, start, end)
            for offset, value in zip(chunk.offsets, chunk.block.column(1).to_pylist(), strict=True)
        ]

    return read
