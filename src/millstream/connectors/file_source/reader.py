"""Read files that grow, are renamed, replaced, truncated and deleted."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from millstream.connect.protocols import ConnectorContext, Intake
from millstream.connectors.file_source.formats import TextFormat
from millstream.connectors.file_source.parquet_rows import read_row_group
from millstream.connectors.file_source.tracked import FileEntry, FilesPosition, Tracked
from millstream.connectors.payloads import (
    Payload,
    RecordFields,
    block_of_payloads,
    now_milliseconds,
    read_payload,
)
from millstream.errors import ConnectorError
from millstream.foundation.text import printable

_log = logging.getLogger("millstream.connectors.files")
_CHUNK_BYTES = 1 << 20
_SCAN_SECONDS = 0.2
_OPEN_SECONDS = 60.0
"""How long a file stays open after its last growth, since its writer may go on after it was renamed."""
_MAX_OPEN = 100


class Following(NamedTuple):
    """What a source follows, and how."""

    path: Path
    topic: str
    lines: TextFormat | None
    """None for Parquet."""
    fields: RecordFields
    settled: float | None
    max_record_bytes: int

    @property
    def chunk_bytes(self) -> int:
        """How many bytes of a file are read at a time."""
        return max(_CHUNK_BYTES, self.max_record_bytes)

    @property
    def directory(self) -> Path:
        """The directory that has to exist."""
        path = self.path
        while glob.has_magic(str(path)):
            path = path.parent
        return path if path.is_dir() else path.parent

    def paths(self) -> list[Path]:
        """Return the files that exist now; those whose names begin with a dot or underscore are left out."""
        anchor = self.directory
        if self.path.is_dir():
            paths: Iterable[Path] = self.path.iterdir()
        elif anchor != self.path and glob.has_magic(str(self.path)):
            paths = anchor.glob(str(self.path.relative_to(anchor)))
        else:
            paths = (self.path,)
        return [path for path in paths if not path.name.startswith((".", "_")) and path.is_file()]


class FilesReader:
    """Follows files from a position."""

    def __init__(self, following: Following, position: FilesPosition, context: ConnectorContext) -> None:
        self._following = following
        self._context = context
        self._tracked: list[Tracked] = []
        self._restore(position)

    def read(self, timeout: float) -> Intake | None:
        """Return what files have gained, oldest file first; look again until the time is over."""
        deadline = time.monotonic() + timeout
        while not self._context.stopping.is_set():
            self._scan()
            payloads = self._read_files()
            if payloads:
                return self._intake(payloads)
            if time.monotonic() >= deadline:
                return None
            self._context.stopping.wait(min(_SCAN_SECONDS, max(0.0, deadline - time.monotonic())))
        return None

    def committed(self, position: bytes) -> None:
        """Do nothing: files belong to those who write them."""

    def close(self) -> None:
        """Close all files."""
        for tracked in self._tracked:
            tracked.close()
        self._tracked.clear()

    def _restore(self, position: FilesPosition) -> None:
        """Find the files of a position, also those that were renamed while nothing ran."""
        by_inode: dict[int, list[Path]] = {}
        folders = {Path(entry.path).parent for entry in position.files}
        for path in {*self._following.paths(), *(path for folder in folders for path in _files_in(folder))}:
            with contextlib.suppress(FileNotFoundError):
                by_inode.setdefault(path.stat().st_ino, []).append(path)
        for entry in position.files:
            candidates = sorted(by_inode.get(entry.inode, ()), key=lambda path: str(path) != entry.path)
            tracked = next((file for path in candidates if (file := _identified(entry, path))), None)
            if tracked is None:
                self._report_gone(entry)
            else:
                self._tracked.append(tracked)

    def _report_gone(self, entry: FileEntry) -> None:
        """Log that what was written to a file after the last read, if anything, cannot be read."""
        _log.warning(
            "source %s: %s is gone or was truncated after %d bytes were read",
            self._context.name,
            printable(entry.path),
            entry.offset,
        )

    def _scan(self) -> None:
        """Compare the directory with the files that are known."""
        present: dict[tuple[int, int], Path] = {}
        for path in sorted(self._following.paths()):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                present.setdefault((status.st_dev, status.st_ino), path)
        self._tracked = [file for tracked in self._tracked if (file := self._followed(tracked, present))]
        known = {_identity(tracked) for tracked in self._tracked}
        renamed = {tracked.entry.inode for tracked in self._tracked if _identity(tracked) is None}
        fresh = [
            (identity, path)
            for identity, path in present.items()
            if identity not in known and identity[1] not in renamed
        ]
        for (_, inode), path in sorted(fresh, key=lambda item: _age(item[1])):
            self._tracked.append(Tracked(FileEntry(path=str(path), inode=inode), path))

    def _followed(self, tracked: Tracked, present: Mapping[tuple[int, int], Path]) -> Tracked | None:
        """Return a known file where it is now: renamed, replaced or truncated; None if it is gone."""
        identity = _identity(tracked)
        path = None if identity is None else present.get(identity)
        if path is not None:
            tracked.path, tracked.entry.path, tracked.is_replaced = path, str(path), False
            try:
                if self._is_same(tracked):
                    return tracked
            except FileNotFoundError:  # renamed since the directory was read; the next look finds it
                return tracked
            tracked.close()
            self._report_gone(tracked.entry)
            return Tracked(FileEntry(path=str(path), inode=tracked.entry.inode), path)
        if identity is None:
            entry, folder = tracked.entry, tracked.path.parent
            moved = next((file for each in _files_in(folder) if (file := _identified(entry, each))), None)
            if moved is None:
                self._report_gone(entry)
                return None
            tracked = moved
        tracked.is_replaced = True
        with contextlib.suppress(FileNotFoundError):  # renamed once more; the next look finds it
            tracked.open()  # what is left is read through the open file, also if it is deleted now
        return tracked

    def _is_same(self, tracked: Tracked) -> bool:
        """Return whether a file still has what was read of it; looks into it only where its size has changed."""
        offset = tracked.entry.offset
        return offset == 0 or tracked.size() == offset or tracked.entry.is_of(tracked.open())

    def _read_files(self) -> list[Payload]:
        payloads: list[Payload] = []
        now, clock = now_milliseconds(), time.monotonic()
        size, are_open = 0, sum(tracked.is_open for tracked in self._tracked)
        for tracked in list(self._tracked):
            if size >= _CHUNK_BYTES:
                break
            values, count = self._read_file(tracked)
            size += count
            payloads += [read_payload(value, self._following.fields, now) for value in values]
            if count:
                tracked.grown = clock
            elif tracked.is_open and (clock - tracked.grown > _OPEN_SECONDS or are_open > _MAX_OPEN):
                tracked.close()
                are_open -= 1
                if tracked.is_replaced:
                    self._tracked.remove(tracked)
        return payloads

    def _read_file(self, tracked: Tracked) -> tuple[list[bytes], int]:
        """Return the next values of a file, and how many bytes were read."""
        lines, entry = self._following.lines, tracked.entry
        try:
            is_read = lines is not None or entry.is_done
            if is_read and not tracked.is_open and tracked.size() == entry.offset:
                return [], 0
            file = tracked.open()
        except FileNotFoundError:  # deleted since the directory was read
            return [], 0
        if lines is None:
            return read_row_group(tracked, self._context)
        if lines.has_header and not tracked.header:
            tracked.header, length = lines.header(os.pread(file, self._following.chunk_bytes, 0))
            if not length or entry.offset == 0:
                tracked.entry = entry.advanced(file, length)
                return [], length
        return self._read_lines(tracked, lines, file)

    def _read_lines(self, tracked: Tracked, lines: TextFormat, file: int) -> tuple[list[bytes], int]:
        start = tracked.entry.offset
        data = os.pread(file, self._following.chunk_bytes, start)
        values, length = lines.chunk(data, tracked.header)
        if data and not length:
            if len(data) == self._following.chunk_bytes:
                raise self._too_long(tracked)
            if self._is_complete(tracked, file):
                values, length = lines.chunk(data + b"\n", tracked.header)[0], len(data)
        if length:
            tracked.entry = tracked.entry.advanced(file, start + length)
        return values, length

    def _is_complete(self, tracked: Tracked, file: int) -> bool:
        """Return whether a last line without a line feed will not get one."""
        settled = self._following.settled
        if settled is None and tracked.is_replaced:
            settled = _OPEN_SECONDS / 2
        return settled is not None and time.time() - os.fstat(file).st_mtime >= settled

    def _too_long(self, tracked: Tracked) -> ConnectorError:
        return ConnectorError(
            f"{tracked.path} has a record at byte {tracked.entry.offset} that does not end within"
            f" {self._following.chunk_bytes} bytes",
            hint="raise max_record_bytes=, or remove the file",
            file=str(tracked.path),
            offset=tracked.entry.offset,
        )

    def _intake(self, payloads: list[Payload]) -> Intake:
        entries = [tracked.entry for tracked in self._tracked]
        waiting = sum(max(0, tracked.size() - tracked.entry.offset) for tracked in self._tracked)
        return Intake(
            records={self._following.topic: block_of_payloads(payloads)},
            position=msgspec.json.encode(FilesPosition(entries)),
            waiting=waiting,
        )


def _identity(tracked: Tracked) -> tuple[int, int] | None:
    """Return device and inode of a file that is open or still has its name."""
    try:
        status = tracked.status()
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino) if status.st_ino == tracked.entry.inode else None


def _identified(entry: FileEntry, path: Path) -> Tracked | None:
    """Return a file if it is the one of the entry."""
    tracked = Tracked(entry, path)
    try:
        if path.stat().st_ino == entry.inode and entry.is_of(tracked.open()):
            entry.path = str(path)
            return tracked
    except OSError:
        return None
    finally:
        tracked.close()
    return None


def _files_in(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file()]
    except OSError:
        return []


def _age(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, str(path)
    except FileNotFoundError:
        return 0, str(path)
