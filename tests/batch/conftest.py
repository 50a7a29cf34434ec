"""Fixtures of the tests of batches: a log, a topic with records at given times, and an app that counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.assembling import assemble

from millstream import App
from millstream.batch.assembly import Assembly
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.task.environment import TaskEnvironment


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


ALL = [str(number).encode() for number in range(1, 11)]
"""What the app writes for the ten records of the topic."""


@pytest.fixture
def assembly(log: EmbeddedLog, topic: Callable[..., str], tmp_path: Path) -> Iterator[Assembly]:
    """Count ten records with the same key in two stages and write the counts to "out"."""
    topic(list(range(5)), list(range(5)))
    log.create_topic("out", TopicConfig(partitions=1))
    app = App("test")
    app.stream("n", value=int).group_by(lambda n: n).count().to_stream().to("out")
    yield assemble(app, log, state_dir=str(tmp_path / "state"), caching=False, durable=False)
    close_environments(tmp_path)


@pytest.fixture
def env(assembly: Assembly) -> TaskEnvironment:
    return assembly.environment()


def counts(log: EmbeddedLog) -> list[bytes]:
    """Return what the app has written."""
    (offsets,) = log.offsets("out")
    return [value for chunk in log.read("out", 0, 0, offsets.end) for value in chunk.block.column(1).to_pylist()]
