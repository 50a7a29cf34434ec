"""Ctrl-C drains: the current batch is finished, and the process ends by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.tables.opening import open_tables

pytestmark = pytest.mark.spark

SCRIPT = """
from millstream import App, Config

app = App("drained", data_dir={directory!r}, config=Config(partitions=1))
app.stream("numbers", value=int).group_by(lambda n: n % 3).count(name="counts").to_stream().to("counts")

if __name__ == "__main__":
    app.run(on_batch=lambda report: print("batch", flush=True))
    print("drained", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_process_group_drains(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "drained_app.py"
    script.write_text(SCRIPT.format(directory=str(tmp_path / "data")))
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("numbers", TopicConfig(partitions=1))
        process = subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
        )
        assert process.stdout is not None
        log.append([Output("numbers", 0, block_of([None] * 3, [b"1", b"2", b"4"], [0, 0, 0]))])
        assert process.stdout.readline() == "batch\n"

        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (0, "drained\n", "")
    assert dict(open_tables(tmp_path / "data", "drained")["counts"].items()) == {1: 2, 2: 1}
