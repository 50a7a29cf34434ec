"""Programs from Debian packages, unpacked into the user's cache without being installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from millstream.testing.kafka.artifacts import cache_dir

_DOWNLOAD_SECONDS = 300


class NoServerError(RuntimeError):
    """A server cannot be started on this machine; the message says why."""


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """Return a cache directory with the files of packages, which apt downloads once; dependencies must be listed."""
    directory = cache_dir() / f"debian-{name}"
    if directory.is_dir():
        return directory
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise NoServerError(f"{program} is not on the PATH, so that {name} cannot be downloaded")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        downloads, files = Path(scratch) / "packages", Path(scratch) / "files"
        downloads.mkdir()
        files.mkdir()
        _run(["apt-get", "-o", "APT::Sandbox::User=root", "download", *packages], downloads)
        for package in downloads.glob("*.deb"):
            _run(["dpkg", "-x", str(package), str(files)], downloads)
        files.replace(directory)  # atomic, also if two processes do it at the same time
    return directory


def libraries(directory: Path) -> dict[str, str]:
    """Return the variable that lets programs find the libraries of unpacked packages."""
    folders = sorted({str(path.parent) for path in directory.rglob("*.so.*")})
    return {"LD_LIBRARY_PATH": os.pathsep.join(folders)}


def _run(command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> None:
    try:
        result = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_DOWNLOAD_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise NoServerError(f"{command[0]} did not end in {_DOWNLOAD_SECONDS} s") from error
    if result.returncode:
        raise NoServerError(f"{' '.join(command[:4])} failed: {result.stderr.strip()[-500:]}")
