"""A disk whose power can be cut: a file system on a file, which holds only what has been synced, or written back since.

A copy of that file is what a machine finds after a power cut. What a disk forgets by itself is beyond it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

from millstream.foundation.storage import close_environments

_MEGABYTES = 512


class NoDiskError(Exception):
    """Such a disk cannot be had here; the text says why."""


class Disk:
    """The file system is at ``place``; nothing of it may be in use while its power is cut."""

    def __init__(self, directory: Path) -> None:
        if os.geteuid() != 0:
            raise NoDiskError("only root can mount a file system")
        self.place = directory / "disk"
        self.place.mkdir()
        self._image, self._copy = directory / "image", directory / "copy"
        self._is_mounted = False
        with self._image.open("wb") as file:
            file.truncate(_MEGABYTES << 20)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()

    def keep_moment(self) -> None:
        """Remember what is on the disk now, and what is only in memory is not."""
        _run("cp", "--sparse=always", str(self._image), str(self._copy))

    def come_back(self) -> None:
        """Go on with what was on the disk at the moment that was kept."""
        self._unmount()
        self._copy.replace(self._image)
        self._mount()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        close_environments(self.place)
        if self._is_mounted:
            _run("umount", "-l", str(self.place))  # what a test that failed has left open goes with its process

    def _unmount(self) -> None:
        _run("umount", str(self.place))
        self._is_mounted = False

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.place))
        self._is_mounted = True


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoDiskError(f"there is no {command[0]}") from error
    if done.returncode != 0:
        raise NoDiskError(f"{' '.join(command)}: {done.stderr.strip()}")
