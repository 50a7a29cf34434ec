"""What the tests of batches share: a log, and a topic whose partitions have records at given times."""

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
"""What a site writes about the ten records that it begins with."""


@pytest.fixture
def assembly(log: EmbeddedLog, topic: Callable[..., str], tmp_path: Path) -> Iterator[Assembly]:
    """Ten records of one key to be counted in two stages, the counts to be written to "out"."""
    topic(list(range(5)), list(range(5)))
    log.create_topic("out", TopicConfig(partitions=1))
    app = App("test")
    app.stream("n", value=int).group_by(lambda n: n).count().to_stream().to("out")
    yield assemble(app, log, state_dir=str(tmp_path / "state"), caching=False, durable=False)
    close_environments(tmp_path)


@pytest.fixture
def site(assembly: Assembly) -> TaskEnvironment:
    return assembly.environment()


def counts(log: EmbeddedLog) -> list[bytes]:
    """Return what a site has written."""
    (offsets,) = log.offsets("out")
    return [value for chunk in log.read("out", 0, 0, offsets.end) for value in chunk.block.column(1).to_pylist()]
