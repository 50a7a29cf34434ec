"""The map grows while this and other processes read."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.foundation import storage
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog

_READER = """
import sys
from pathlib import Path
from millstream.foundation import storage
storage._FIRST_MAP_BYTES = 1 << 17
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
seen = 0
with EmbeddedLog(Path(sys.argv[1])) as log:
    while seen < int(sys.argv[2]):
        print("ready", flush=True) if not seen else None
        log.wait({TopicPartition("t", 0): seen}, 30)
        for chunk in log.read("t", 0, seen, 10**9):
            assert chunk.offsets[0] == seen
            seen = chunk.next_offset
print(seen)
"""


def test_the_map_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_FIRST_MAP_BYTES", 1 << 17)
    block = block_of([None] * 100, [b"x" * 1000] * 100, [0] * 100)
    stop = threading.Event()
    failures: list[BaseException] = []

    def keep_reading() -> None:
        try:
            while not stop.is_set():
                for chunk in log.read("t", 0, 0, 10**9):
                    assert chunk.block.column(1)[-1].as_py() == b"x" * 1000
                with log.view("t", 0, 0, 10**9) as chunks:
                    for chunk in chunks:
                        assert chunk.block.column(1)[-1].as_py() == b"x" * 1000
        except BaseException as error:
            failures.append(error)

    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", TopicConfig(partitions=1))
        program = [sys.executable, "-c", _READER, str(tmp_path), "10000"]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            thread = threading.Thread(target=keep_reading)
            thread.start()
            for _ in range(100):
                log.append([Output("t", 0, block)])
            stop.set()
            thread.join()
            assert process.stdout.read() == "10000\n"
    assert failures == []
