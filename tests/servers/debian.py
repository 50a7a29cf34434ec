"""Programs from Debian packages, unpacked into the user's cache without being installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
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
        _output(["apt-get", "-o", "APT::Sandbox::User=root", "download", *packages], downloads)
        for package in downloads.glob("*.deb"):
            _output(["dpkg", "-x", str(package), str(files)], downloads)
        files.replace(directory)  # atomic, also if two processes do it at the same time
    return directory


def unpacked_closure(name: str, suite: str, package: str) -> Path:
    """Return a cache directory with a package of another suite of Debian and all libraries that it needs."""
    directory = cache_dir() / f"debian-{name}"
    if directory.is_dir():
        return directory
    for program in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(program) is None:
            raise NoServerError(f"{program} is not on the PATH, so that {name} cannot be downloaded")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        apt, downloads, files = (Path(scratch) / part for part in ("apt", "packages", "files"))
        for path in (apt / "lists/partial", apt / "archives/partial", downloads, files):
            path.mkdir(parents=True)
        (apt / "status").touch()  # as if nothing was installed
        mirror = _output(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"], apt).split()[:1]
        if not mirror:
            raise NoServerError(f"apt has no mirror, so that {name} cannot be downloaded")
        keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
        (apt / "sources.list").write_text(f"deb [signed-by={keys}] {mirror[0]} {suite} main\n")
        settings = {
            "APT::Sandbox::User": "root",
            "Dir::Etc::SourceList": apt / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::State::Lists": apt / "lists",
            "Dir::State::Status": apt / "status",
            "Dir::Cache": apt,
        }
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        _output(["apt-get", *options, "update"], apt)
        only_needed = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"]
        depends = ["apt-cache", *options, "depends", "--recurse", *(f"--no-{kind}" for kind in only_needed), package]
        names = {line for line in _output(depends, apt).splitlines() if line and line[0] not in " <|"}
        wanted = sorted(name for name in names if name.startswith(("lib", "zlib")) and not name.startswith("libperl"))
        _output(["apt-get", *options, "download", package, *(name.partition(":")[0] for name in wanted)], downloads)
        for archive in downloads.glob("*.deb"):
            _output(["dpkg", "-x", str(archive), str(files)], downloads)
        files.replace(directory)
    return directory


def libraries(directory: Path) -> dict[str, str]:
    """Return the variable that lets programs find the libraries of unpacked packages."""
    folders = sorted({str(path.parent) for path in directory.rglob("*.so.*")})
    return {"LD_LIBRARY_PATH": os.pathsep.join(folders)}


def _output(command: Sequence[str], directory: Path) -> str:
    """Run a command and return what it writes."""
    try:
        result = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=_DOWNLOAD_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise NoServerError(f"{command[0]} did not end in {_DOWNLOAD_SECONDS} s") from error
    if result.returncode:
        raise NoServerError(f"{' '.join(command[:4])} failed: {result.stderr.strip()[-500:]}")
    return result.stdout
