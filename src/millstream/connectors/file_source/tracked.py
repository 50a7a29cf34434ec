"""Files that are followed: each is known by its inode and by the bytes that were read of it, not by its name."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import msgspec

_PRINT_BYTES = 256


class FileEntry(msgspec.Struct, kw_only=True):
    """How far a file is read, as the position of the source holds it."""

    path: str
    inode: int
    offset: int = 0
    """Bytes that were read; of a Parquet file, its size."""
    head: str = ""
    """A hash of the first bytes of those."""
    tail: str = ""
    """A hash of the last bytes of those: a new file that got the inode of a deleted one is not taken for it."""
    row_groups: int = 0
    """Of a Parquet file: how many are read."""
    is_done: bool = False
    """Of a Parquet file: whether all are read."""

    def is_of(self, file: int) -> bool:
        """Return whether an open file still begins with what was read."""
        if self.offset == 0:
            return True
        return os.fstat(file).st_size >= self.offset and fingerprint(file, self.offset) == (self.head, self.tail)

    def advanced(self, file: int, offset: int, row_groups: int = 0, *, is_done: bool = False) -> FileEntry:
        """Return the entry after more was read of an open file."""
        head, tail = fingerprint(file, offset)
        return FileEntry(
            path=self.path,
            inode=self.inode,
            offset=offset,
            head=head,
            tail=tail,
            row_groups=row_groups,
            is_done=is_done,
        )


class FilesPosition(msgspec.Struct, frozen=True):
    """All files that were read and still exist."""

    files: list[FileEntry] = []


def fingerprint(file: int, offset: int) -> tuple[str, str]:
    """Return hashes of the first and of the last bytes before an offset."""
    head = os.pread(file, min(offset, _PRINT_BYTES), 0)
    start = max(0, offset - _PRINT_BYTES)
    return _digest(head), _digest(os.pread(file, offset - start, start))


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


class Tracked:
    """A file with its entry; open while it may grow."""

    def __init__(self, entry: FileEntry, path: Path) -> None:
        self.entry = entry
        self.path = path
        self.header: list[str] = []
        """The names of columns, once they are read."""
        self.is_replaced = False
        """Whether another file has its name now: what is left of this one is read, and then it is forgotten."""
        self.grown = time.monotonic()
        """When it was read last."""
        self.has_warned = False
        self._file: int | None = None

    def open(self) -> int:
        """Return the open file; raise ``FileNotFoundError`` if another one has its name by now."""
        if self._file is None:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            if os.fstat(file).st_ino != self.entry.inode:
                os.close(file)
                raise FileNotFoundError(f"{self.path} was renamed")
            self._file = file
        return self._file

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def status(self) -> os.stat_result:
        """Return the status of the open file, or of the file that has its name."""
        return self.path.stat() if self._file is None else os.fstat(self._file)

    def size(self) -> int:
        """Return the size, 0 of a file that is gone."""
        try:
            return self.status().st_size
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
