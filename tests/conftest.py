"""What tests of several folders share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.foundation.storage import close_environments


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(mounted)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {done.stderr.decode().strip()}")
    yield mounted
    close_environments(mounted)  # a test that failed may have left something open
    subprocess.run(["umount", str(mounted)], check=True)
