"""Fixtures to call the command line on a real log in a new directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millstream.broker import Output, TopicConfig
from millstream.cli.main import root
from millstream.cli.settings import CommonOptions
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import Record

Call = Callable[..., Result]
Fill = Callable[..., None]


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the default data directory of commands, which does not exist yet."""
    monkeypatch.delenv("MILLSTREAM_BROKER", raising=False)
    monkeypatch.setenv("MILLSTREAM_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def call(data_dir: Path) -> Call:
    """Call ``millstream`` with arguments; the result has ``exit_code``, ``stdout`` and ``stderr``."""

    def call(*arguments: str, input: str | bytes | None = None, settings: CommonOptions | None = None) -> Result:
        result = CliRunner().invoke(root, arguments, input=input, obj=settings, prog_name="millstream")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def fill(data_dir: Path) -> Fill:
    """Write records, given as key, value and timestamp, to a partition of a topic, which is created if missing."""

    def fill(topic: str, *records: tuple[bytes | None, bytes | None, int], partition: int = 0) -> None:
        with EmbeddedLog(data_dir) as log:
            if topic not in log.topic_names():
                log.create_topic(topic, TopicConfig(partitions=2))
            if records:
                keys, values, times = zip(*records, strict=True)
                log.append([Output(topic, partition, block_of(keys, values, times))])

    return fill


@pytest.fixture
def stored(data_dir: Path) -> Callable[[str], list[Record]]:
    """Return the records of a topic, partition by partition."""

    def stored(topic: str) -> list[Record]:
        with EmbeddedLog(data_dir) as log:
            return [
                Record(topic, partition, int(offset), key, value, time)
                for partition, there in enumerate(log.offsets(topic))
                for chunk in log.read(topic, partition, there.begin, there.end)
                for offset, key, value, time in zip(
                    chunk.offsets, *(chunk.block.column(at).to_pylist() for at in range(3)), strict=True
                )
            ]

    return stored
