"""What tests of this folder share, besides Spark: short ways to write and read topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.spark import apps

from millstream import App
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog

Feed = Callable[..., None]
Read = Callable[[App, str], list[tuple[str | None, Any]]]


@pytest.fixture(autouse=True)
def _closed_environments(tmp_path: Path) -> Iterator[None]:
    yield
    close_environments(tmp_path)


@pytest.fixture(autouse=True)
def _restored_configs() -> Iterator[None]:
    """Undo changes of the configuration of apps that several tests share."""
    configs = [(app, app.config) for app in vars(apps).values() if isinstance(app, App)]
    yield
    for app, config in configs:
        app.config = config


@pytest.fixture
def feed() -> Feed:
    """Append raw values to a topic of an app, one partition after the other."""

    def append(app: App, topic: str, values: Sequence[bytes], *, partitions: int = 2) -> None:
        with EmbeddedLog(app.data_dir) as log:
            if topic not in log.topic_names():
                log.create_topic(topic, TopicConfig(partitions=partitions))
            for part in range(partitions):
                mine = values[part::partitions]
                if mine:
                    block = block_of([None] * len(mine), mine, list(range(len(mine))))
                    log.append([Output(topic, part, block)])

    return append


@pytest.fixture
def read() -> Read:
    """Return (key, raw value) of all records of a topic, partition by partition."""

    def records(app: App, topic: str) -> list[tuple[str | None, Any]]:
        all_records: list[tuple[str | None, Any]] = []
        with EmbeddedLog(app.data_dir) as log:
            for partition, offsets in enumerate(log.offsets(topic)):
                for chunk in log.read(topic, partition, offsets.begin, offsets.end):
                    keys, values = chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist()
                    all_records += [(key and key.decode(), value) for key, value in zip(keys, values, strict=True)]
        return all_records

    return records
