"""Fixtures for tests of tasks: a task environment in this process, and short ways to write and read topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream import App
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os") as log:
        yield log
    close_environments(tmp_path)


@pytest.fixture
def make_env(log: EmbeddedLog, tmp_path: Path) -> Callable[..., TaskEnvironment]:
    def make_env(app: App, *, partitions: int = 1, **options: Any) -> TaskEnvironment:
        topics = TopicConfig(partitions=partitions)
        for topic in dict.fromkeys((*app.plan.source_topics, *app.plan.sink_topics)):
            if topic not in log.topic_names():
                log.create_topic(topic, topics)
        return TaskEnvironment(
            app=app.id,
            layout=Layout.of(app.plan, dict.fromkeys(app.plan.source_topics, partitions)),
            broker=log,
            state_dir=tmp_path / "state",
            policies=Policies.of(app.id, app.config),
            durable=False,
            new_topic=topics,
            **options,
        )

    return make_env


@pytest.fixture
def send(log: EmbeddedLog) -> Callable[..., None]:
    """Append values, all with one key and one time, to partition 0."""

    def send(topic: str, *values: str, key: str | None = "k", time: int = 0) -> None:
        keys = [None if key is None else key.encode()] * len(values)
        log.append([Output(topic, 0, block_of(keys, [value.encode() for value in values], [time] * len(values)))])

    return send


@pytest.fixture
def read(log: EmbeddedLog) -> Callable[[str], list[bytes]]:
    """Return all values of a topic, partition by partition."""

    def read(topic: str) -> list[bytes]:
        return [
            value
            for partition, offsets in enumerate(log.offsets(topic))
            for chunk in log.read(topic, partition, 0, offsets.end)
            for value in chunk.block.column(1).to_pylist()
        ]

    return read
