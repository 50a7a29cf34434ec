from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.running import run_to_end

from millstream import App
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Return a directory in which an app has processed three records, one of which cannot be decoded."""
    app = App("words", data_dir=tmp_path)
    app.stream("lines", value=str).group_by(lambda line: line).count(name="seen").to_stream().to("out")
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        log.create_topic("out", TopicConfig(partitions=1))
        log.append([Output("lines", 0, block_of([None] * 3, [b"a", b"b", b"\xff"], [1000, 2000, 3000]))])
    run_to_end(app)
    return tmp_path
