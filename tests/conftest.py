"""Fixtures shared by tests in several folders."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.foundation.storage import close_environments


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of four megabytes."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    completed = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(mounted)], capture_output=True, check=False
    )
    if completed.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {completed.stderr.decode().strip()}")
    yield mounted
    close_environments(mounted)  # a failed test may have left environments open
    subprocess.run(["umount", str(mounted)], check=True)
