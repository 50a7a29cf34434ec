"""Local paths, S3, HDFS and every other file system that pyarrow supports: files that appear as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from millstream.errors import DefinitionError
from millstream.foundation.small_file import sync_directory

_ATOMIC_ON_CLOSE = ("s3", "gcs", "abfs")
"""File systems on which an object appears only when it is complete; elsewhere a temporary file is renamed."""


def open_file_system(setting: str, uri: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path in it."""
    try:
        resolved: tuple[Any, str] = fs.FileSystem.from_uri(uri if "://" in uri else str(Path(uri).absolute()))
    except (pa.ArrowException, ValueError, OSError) as error:
        raise DefinitionError(
            f"{setting}={uri!r} cannot be used: {error}", hint="use a path, or a URI such as s3://bucket/folder"
        ) from error
    return resolved


def write_whole_file(file_system: Any, path: str, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file that appears, or replaces another, when it is complete; ``mode`` is for local files."""
    directory, _, name = path.rpartition("/")
    temporary = path if file_system.type_name in _ATOMIC_ON_CLOSE else f"{directory}/.{name}"
    if file_system.type_name == "local":
        Path(directory).mkdir(mode | (mode & 0o444) >> 2, parents=True, exist_ok=True)
        _write_local(temporary, data, mode)
    else:
        file_system.create_dir(directory, recursive=True)
        with file_system.open_output_stream(temporary, compression=None) as stream:
            stream.write(data)
    if temporary != path:
        file_system.move(temporary, path)
    if file_system.type_name == "local":
        sync_directory(Path(directory))


def _write_local(path: str, data: bytes, mode: int) -> None:
    """Write a file and wait until it is on disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
