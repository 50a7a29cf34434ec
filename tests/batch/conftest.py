"""What the tests of batches share: a log, and a topic whose partitions have records at given times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.blocks import block_of
from millstream.broker import Output, TopicConfig
from millstream.log import EmbeddedLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os") as log:
        yield log


@pytest.fixture
def topic(log: EmbeddedLog) -> Callable[..., str]:
    """Create a topic; each argument has the timestamps of one partition."""

    def topic(*partitions: list[int], name: str = "n") -> str:
        log.create_topic(name, TopicConfig(partitions=len(partitions)))
        for number, times in enumerate(partitions):
            if times:
                log.append([Output(name, number, block_of([b"k"] * len(times), [b"1"] * len(times), times))])
        return name

    return topic
