"""LMDB environments and lock files: the one place that knows how they are opened, grown, shared and guarded.

The rules: an environment is opened lazily by the process that uses it, once per process, never across ``fork``;
directories belong to their owner alone; every environment carries a format version; a full map grows, and a full
disk becomes a ``StorageFullError`` that leaves everything as it was.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from millstream.errors import FormatError, StorageError, StorageFullError

T = TypeVar("T")

MapFullError = lmdb.MapFullError
"""Ends a ``write`` block that has written more than the map holds; after ``grow`` it can be tried again."""

FORMAT_VERSION = 1
_FORMAT_KEY = b"millstream-format"
_MAX_READERS = 1024
_MAX_DATABASES = 256
_FIRST_MAP_BYTES = 1 << 30  # address space, not disk: the file grows with what is written
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_SPACE = 1 << 20  # a disk with less than this left is full
_SHORT_PATIENCE = 0.2  # seconds to wait for our readers when growing can also be done later
_LONG_PATIENCE = 10.0
_open: dict[str, Environment] = {}
_open_lock = threading.Lock()


class Environment:
    """One LMDB environment with named databases, as this process sees it."""

    def __init__(self, path: Path, databases: tuple[str, ...], *, sync: bool, readonly: bool = False) -> None:
        self.path = path
        self.readonly = readonly
        self._pid = os.getpid()
        self._writing = threading.RLock()
        self._readers = 0
        self._mapping = threading.Condition()
        with translate_storage_errors(path):
            if not readonly:
                make_private_directory(path)
            self._lmdb: Any = lmdb.open(
                str(path),
                readonly=readonly,
                create=not readonly,
                map_size=max(_FIRST_MAP_BYTES, 4 * _file_bytes(path)),
                max_dbs=_MAX_DATABASES,
                max_readers=_MAX_READERS,
                sync=sync,
                metasync=sync,
                meminit=False,
            )
            self._file = _identity(path)
            self._page_bytes = int(self._lmdb.stat()["psize"])
            self.databases: dict[str, Any] = {}
            try:
                self._lmdb.reader_check()
                self._first_look(databases)
            except BaseException:
                self._lmdb.close()
                raise

    def _first_look(self, databases: tuple[str, ...]) -> None:
        """Check the format and open databases, again with a larger map if another process makes it grow meanwhile."""
        while True:
            try:
                self._check_format()
                self.open_databases(databases)
                return
            except lmdb.MapResizedError:
                self._lmdb.set_mapsize(0)  # as large as it is by now

    def _check_format(self) -> None:
        with self._lmdb.begin() as txn:
            stored = txn.get(_FORMAT_KEY)
        if stored is None and self.readonly:
            return
        if stored is None:
            with self._lmdb.begin(write=True) as txn:
                txn.put(_FORMAT_KEY, b"%d" % FORMAT_VERSION)
        elif int(stored) > FORMAT_VERSION:
            raise FormatError(
                f"{str(self.path)!r} has format {int(stored)}, this Millstream knows up to {FORMAT_VERSION}",
                hint="upgrade Millstream",
                path=str(self.path),
            )

    def open_databases(self, names: tuple[str, ...]) -> None:
        """Open or create named databases; not inside a transaction, which LMDB would wait for."""
        for name in names:
            if self.databases.get(name) is None:
                try:
                    self.databases[name] = self._lmdb.open_db(name.encode(), create=not self.readonly)
                except lmdb.NotFoundError:  # a reader came before the first commit
                    self.databases[name] = None

    @contextmanager
    def read(self, *, buffers: bool = False) -> Iterator[Any]:
        """A consistent snapshot; keep it short, since it keeps old pages alive.

        With ``buffers``, values are views into the map that must not be touched after the block.
        """
        with translate_storage_errors(self.path):
            txn = self._begin_reading(buffers)
            try:
                yield txn
            finally:
                txn.abort()
                with self._mapping:
                    self._readers -= 1
                    self._mapping.notify_all()

    @contextmanager
    def write(self) -> Iterator[Any]:
        """A write transaction that commits at the end of the block, and leaves no trace if the block raises."""
        with self._writing, translate_storage_errors(self.path):
            self._grow_early()
            txn = self._begin_writing()
            try:
                yield txn
            except BaseException:
                txn.abort()
                raise
            txn.commit()

    def update(self, change: Callable[[Any], T]) -> T:
        """Run ``change`` in a write transaction; it is run again if the map had to grow meanwhile."""
        with self._writing:
            while True:
                try:
                    with self.write() as txn:
                        return change(txn)
                except lmdb.MapFullError:
                    with translate_storage_errors(self.path):
                        self.grow()

    def _begin_reading(self, buffers: bool) -> Any:
        with self._mapping:
            try:
                txn = self._lmdb.begin(write=False, buffers=buffers)
            except lmdb.MapResizedError:
                self._remap(0)
                txn = self._lmdb.begin(write=False, buffers=buffers)
            self._readers += 1
            return txn

    def _begin_writing(self) -> Any:
        try:
            return self._lmdb.begin(write=True)
        except lmdb.MapResizedError:
            with self._mapping:
                self._remap(0)
            return self._lmdb.begin(write=True)

    def _grow_early(self) -> None:
        info = self._lmdb.info()
        if 2 * info["last_pgno"] * self._page_bytes > info["map_size"]:
            with self._mapping:
                if self._mapping.wait_for(self._is_unread, _SHORT_PATIENCE):
                    self._lmdb.set_mapsize(2 * info["map_size"])

    def grow(self) -> None:
        """Double the map; only possible while this process has no transaction open on it."""
        with self._mapping:
            self._remap(2 * self._lmdb.info()["map_size"])

    def _remap(self, size: int) -> None:
        """Replace the map, 0 for the size another process gave it, once no reader of ours looks at the old one."""
        if not self._mapping.wait_for(self._is_unread, _LONG_PATIENCE):
            raise StorageError(
                f"cannot resize {str(self.path)!r} while it is being read",
                hint="keep reads and views short",
                path=str(self.path),
            )
        self._lmdb.set_mapsize(size)

    def _is_unread(self) -> bool:
        return self._readers == 0

    def last_commit(self) -> int:
        """Return the number of the last commit, by whichever process; far cheaper than a look."""
        return int(self._lmdb.info()["last_txnid"])

    def clear_stale_readers(self) -> int:
        """Free the reader slots, and so the old pages, of processes that died; return how many there were."""
        return int(self._lmdb.reader_check())

    def sync(self) -> None:
        """Force everything committed so far to the disk."""
        with translate_storage_errors(self.path):
            self._lmdb.sync(True)

    def copy(self, path: Path, txn: Any) -> None:
        """Write what a reading transaction sees to an empty directory, without free pages; others may write on."""
        with translate_storage_errors(path):
            self._lmdb.copy(str(path), compact=True, txn=txn)

    def bytes_used(self) -> int:
        """Return the size of the data file in bytes, free pages included."""
        return int(self._lmdb.info()["last_pgno"]) * self._page_bytes

    @property
    def is_open(self) -> bool:
        """Whether this process may still use this object, rather than ask ``open_environment`` again."""
        return self._pid == os.getpid() and _open.get(str(self.path)) is self

    def _is_foreign(self) -> bool:
        """Whether it was opened before a fork, or its files were deleted or replaced since."""
        return self._pid != os.getpid() or self._file != _identity(self.path)

    def close(self) -> None:
        """Close the environment for the whole process; the next ``open_environment`` call opens it again."""
        with _open_lock:
            _open.pop(str(self.path), None)
            self._release()

    def _release(self) -> None:
        """Close LMDB's handle; a forked child closes its copy, without which LMDB would not let it open its own."""
        if self._pid != os.getpid() and self._readers:  # closing here would end the parent's reads too
            raise StorageError(
                f"this process was forked while {str(self.path)!r} was being read",
                hint="start processes by spawn, or fork between reads",
                path=str(self.path),
            )
        self._lmdb.close()


def open_environment(
    path: Path, databases: tuple[str, ...] = (), *, sync: bool = True, readonly: bool = False
) -> Environment:
    """Return this process's environment at ``path``, opening it if it is not open yet.

    A read-only one never waits for a writer, not even when it is opened; its missing databases are None.
    """
    path = path.resolve()  # LMDB refuses to open a directory twice, however it is spelt
    name = str(path)
    with _open_lock:
        found = _open.get(name)
        if found is not None and (found._is_foreign() or (found.readonly and not readonly)):
            found._release()
            found = None
        if found is None:
            found = _open[name] = Environment(path, databases, sync=sync, readonly=readonly)
        else:
            found.open_databases(databases)
        return found


def close_environments(directory: Path) -> None:
    """Close every environment of this process that lies in ``directory``."""
    root = directory.resolve()
    for each in [each for each in list(_open.values()) if each.path.is_relative_to(root)]:
        each.close()


os.register_at_fork(before=_open_lock.acquire, after_in_parent=_open_lock.release, after_in_child=_open_lock.release)


@contextmanager
def translate_storage_errors(path: Path) -> Iterator[None]:
    """Turn LMDB's and the file system's errors into ours, in one place; a full map is left to ``update``."""
    try:
        yield
    except lmdb.MapFullError:
        raise
    except (lmdb.Error, OSError) as error:
        if isinstance(error, StorageError):
            raise
        if _is_full(error, path):
            raise StorageFullError(
                f"no space left for {str(path)!r}", hint="free some space; nothing was lost", path=str(path)
            ) from error
        raise StorageError(
            f"cannot use {str(path)!r}: {error}",
            hint="check that it is a local directory of yours, or choose another with data_dir=",
            path=str(path),
        ) from error


def _is_full(error: Exception, path: Path) -> bool:
    """Whether an error means that there is no space: LMDB calls a write that was cut short an input/output error."""
    told = {getattr(error, "errno", None), *(code for code in _FULL if os.strerror(code) in str(error))}
    if told & _FULL:
        return True
    if errno.EIO not in told and os.strerror(errno.EIO) not in str(error):
        return False
    try:
        status = os.statvfs(path)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _NO_SPACE


def make_private_directory(path: Path) -> None:
    """Create a directory that only its owner may enter, or check that an existing one is not open to others."""
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    status = path.stat()
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise StorageError(f"{str(path)!r} belongs to another user", hint="use a directory of your own")
    if stat.S_IMODE(status.st_mode) & stat.S_IWOTH:
        raise StorageError(f"{str(path)!r} can be written by everybody", hint=f"run: chmod 700 {path}", path=str(path))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = (path / "data.mdb").stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _file_bytes(path: Path) -> int:
    data = path / "data.mdb"
    return data.stat().st_size if data.exists() else 0


class FileLock:
    """An advisory lock that dies with its process, so that a crash never leaves one behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def acquire(self, patience: float = 0.0) -> bool:
        """Take the lock if nobody else holds it; the file then holds our process id.

        Some ``patience`` (seconds) outlasts those who only look whether it is held.
        """
        with translate_storage_errors(self.path):
            make_private_directory(self.path.parent)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            until = time.monotonic() + patience
            while not _is_locked(file, fcntl.LOCK_EX):
                if time.monotonic() >= until:
                    os.close(file)
                    return False
                time.sleep(patience / 10)
            self._file = file
            os.ftruncate(file, 0)
            os.pwrite(file, b"%d" % os.getpid(), 0)
            return True

    def is_held(self) -> bool:
        """Whether somebody holds the lock now; looking does not stand in the way of another who looks."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not _is_locked(file, fcntl.LOCK_SH)
        finally:
            os.close(file)

    def holder(self) -> int | None:
        """Return the process id written by the last holder."""
        try:
            return int(self.path.read_text() or 0) or None
        except (OSError, ValueError):
            return None

    def release(self) -> None:
        """Give the lock back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _is_locked(file: int, kind: int) -> bool:
    """Try to lock an open file; False if somebody else has."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
