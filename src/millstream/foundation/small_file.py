"""Small files of JSON that are replaced as a whole: a reader sees the old content or the new one."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TypeVar

import msgspec

from millstream.foundation.storage import make_private_directory
from millstream.foundation.typed_decoding import decode_json

T = TypeVar("T")


def replace_file(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Replace the content of a file; with ``sync`` it survives a power cut once this returns."""
    make_private_directory(path.parent)
    new = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    with new.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    new.replace(path)
    if sync:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Wait until the names of the files in a directory are on disk."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_file(path: Path, kind: type[T]) -> T | None:
    """Return the content of a file, or None if it does not exist or cannot be decoded.

    Any other error, such as too many open files, is raised: what the file says must not count as never said.
    """
    try:
        return decode_json(path.read_bytes(), kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
