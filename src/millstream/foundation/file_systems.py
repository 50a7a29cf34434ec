"""Local paths, S3, HDFS and every other file system that pyarrow supports: files that appear as a whole."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from millstream.errors import DefinitionError, StorageError
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


def can_create_once(file_system: Any) -> bool:
    """Whether ``create_once`` works there; pyarrow offers it on no other file system (docs/running.md)."""
    return bool(file_system.type_name == "local")


def create_once(file_system: Any, path: str, data: bytes) -> bool:
    """Create a file that appears with its whole content; False if it exists, whichever process has created it."""
    assert can_create_once(file_system), file_system.type_name
    directory, _, name = path.rpartition("/")
    Path(directory).mkdir(0o700, parents=True, exist_ok=True)
    temporary = f"{directory}/.{name}.{uuid.uuid4().hex}"
    try:
        _write_local(temporary, data, 0o600)
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        raise StorageError(
            f"the file system of {directory!r} has no hard links, by which a file is created once",
            hint="put the checkpoint on another file system",
        ) from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    sync_directory(Path(directory))
    return True


def _write_local(path: str, data: bytes, mode: int) -> None:
    """Write a file and wait until it is on disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
