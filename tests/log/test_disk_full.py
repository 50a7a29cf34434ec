"""A full disk: a clear error, no partial writes, and work continues when there is space."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.errors import StorageFullError
from millstream.foundation.blocks import Block, block_of
from millstream.foundation.storage import open_environment
from millstream.log import EmbeddedLog
from millstream.producer import Producer


def fill(log: EmbeddedLog, block: Block) -> None:
    for _ in range(100):
        log.append([Output("t", 0, block)])


def test_append_raises_on_a_full_disk_and_works_again_with_space(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 2_500_000)
    block = block_of([None] * 100, [os.urandom(1000) for _ in range(100)], [0] * 100)
    with EmbeddedLog(small_disk) as log:
        log.create_topic("t", TopicConfig(partitions=1))
        with pytest.raises(StorageFullError, match=r"no space left .*; free some disk space; nothing was lost"):
            fill(log, block)
        written = log.offsets("t")[0].end // 100
        assert log.offsets("t")[0].end == 100 * written > 0
        assert sum(len(chunk.block) for chunk in log.read("t", 0, 0, 100 * written)) == 100 * written
        ballast.unlink()
        assert log.append([Output("t", 0, block)]) == [100 * written]
    with EmbeddedLog(small_disk) as log:
        assert sum(len(chunk.block) for chunk in log.read("t", 0, 0, 10**6)) == 100 * (written + 1)


def test_a_producer_keeps_records_that_did_not_fit(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 3_600_000)
    with EmbeddedLog(small_disk) as log:
        log.create_topic("t", TopicConfig(partitions=1))
        with Producer(log, value=bytes) as producer:
            for number in range(1000):
                producer.send("t", b"%d" % number + b"x" * 1000)
            with pytest.raises(StorageFullError):
                producer.flush()
            ballast.unlink()
            producer.flush()
            assert producer.failed == 0
        (chunk,) = log.read("t", 0, 0, 1000)
        assert [int(value.rstrip(b"x")) for value in chunk.block.column(1).to_pylist()] == list(range(1000))


CREATE = """
import sys
from pathlib import Path
from millstream.errors import MillstreamError
from millstream.foundation.storage import open_environment

try:
    open_environment(Path(sys.argv[1]))
except MillstreamError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("free", [0, 4096, 8192, 12_288, 16_384])
def test_a_directory_that_a_full_disk_cannot_hold_is_an_error_and_is_created_with_space(
    small_disk: Path, free: int
) -> None:
    ballast, path = small_disk / "ballast", small_disk / "new"
    disk = os.statvfs(small_disk)
    ballast.write_bytes(b"x" * (disk.f_bavail * disk.f_frsize - free))
    command = [sys.executable, "-c", CREATE, str(path)]  # LMDB could end the process with SIGBUS
    for _ in range(2):
        created = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (created.returncode, created.stdout) == (0, "StorageFullError\n"), created.stderr
    ballast.unlink()
    open_environment(path).close()
