"""A disk whose power can be cut: a file system on a file, which contains only what was synced or written back.

A copy of that file is what a machine finds after a power cut. Disks that lose synced data are not simulated.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

from millstream.foundation.storage import close_environments

_MEGABYTES = 512


class DiskUnavailableError(Exception):
    """Such a disk is not available here; the message says why."""


class Disk:
    """The file system is mounted at ``path``; nothing may use it while its power is cut."""

    def __init__(self, directory: Path) -> None:
        if os.geteuid() != 0:
            raise DiskUnavailableError("only root can mount a file system")
        self.path = directory / "disk"
        self.path.mkdir()
        self._image, self._copy = directory / "image", directory / "copy"
        self._is_mounted = False
        with self._image.open("wb") as file:
            file.truncate(_MEGABYTES << 20)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()

    def take_snapshot(self) -> None:
        """Copy what is on the disk now, without what is only in memory."""
        _run("cp", "--sparse=always", str(self._image), str(self._copy))

    def restore_snapshot(self) -> None:
        """Replace the disk by its snapshot."""
        self._unmount()
        self._copy.replace(self._image)
        self._mount()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        close_environments(self.path)
        if self._is_mounted:
            _run("umount", "-l", str(self.path))  # files that a failed test has left open are closed with its process

    def _unmount(self) -> None:
        _run("umount", str(self.path))
        self._is_mounted = False

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))
        self._is_mounted = True


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise DiskUnavailableError(f"the program {command[0]} is missing") from error
    if done.returncode != 0:
        raise DiskUnavailableError(f"{' '.join(command)}: {done.stderr.strip()}")
