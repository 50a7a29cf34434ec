"""LMDB environments: how they are opened, grown, shared and protected.

The rules: an environment is opened lazily by the process that uses it, once per process, never across ``fork``; only
the owner can access its directory; every environment has a format version; a full map grows, and a full disk raises
``StorageFullError`` and changes nothing.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from millstream.errors import FormatError, StorageError
from millstream.foundation.checked import (
    DATABASES_KEY,
    FORMAT_KEY,
    UNCHECKED_FORMAT,
    CheckedTransaction,
    pack_databases,
    unpack_databases,
)
from millstream.foundation.content import check_content, read_content, write_content
from millstream.foundation.damage import damaged
from millstream.foundation.data_file import check_file, check_header, file_bytes, file_id, read_format, reserve_space
from millstream.foundation.storage_errors import storage_error
from millstream.foundation.transactions import Transaction, WriteTransaction

T = TypeVar("T")

MapFullError = lmdb.MapFullError
"""Raised by a ``write`` block that has written more than the map holds; call ``grow`` and retry."""

FORMAT_VERSION = 2
_MAX_READERS = 1024
_MAX_DATABASES = 256
_FIRST_MAP_BYTES = 1 << 30  # address space, not disk: the file grows with what is written
_SHORT_WAIT_SECONDS = 0.2  # how long to wait for this process's readers when the map can also grow later
_LONG_WAIT_SECONDS = 10.0
_open: dict[str, Environment] = {}
_open_lock = threading.Lock()


class Environment:
    """One LMDB environment with named databases, as opened by this process."""

    def __init__(
        self,
        path: Path,
        databases: tuple[str, ...],
        *,
        sync: bool,
        readonly: bool = False,
        plain: tuple[str, ...] = (),
        content: str = "",
    ) -> None:
        self.path = path
        self._plain_names = plain
        self._plain: tuple[Any, ...] = (None,)  # LMDB's own list of databases, and databases that have no checksums
        self._is_checked = True
        self._content = ""  # what it was found to hold
        self.readonly = readonly
        self._pid = os.getpid()
        self._write_lock = threading.RLock()
        self._readers, self._map_changed = 0, threading.Condition()
        with translate_storage_errors(path):
            if not readonly:
                make_private_directory(path)
                reserve_space(path)
            check_header(path)
            self._lmdb: Any = lmdb.open(
                str(path),
                readonly=readonly,
                create=not readonly,
                map_size=max(_FIRST_MAP_BYTES, 4 * file_bytes(path)),
                max_dbs=_MAX_DATABASES,
                max_readers=_MAX_READERS,
                sync=sync,
                metasync=sync,
                meminit=False,
            )
            self._file = file_id(path)
            self._page_bytes = int(self._lmdb.stat()["psize"])
            self.databases: dict[str, Any] = {}
            try:
                self._lmdb.reader_check()
                self._initialize(databases, content)
            except BaseException:
                self._lmdb.close()
                raise

    def _initialize(self, databases: tuple[str, ...], content: str) -> None:
        """Check what it is and open databases; retry with a larger map if another process grows it in the meantime."""
        while True:
            try:
                check_file(self.path, self._lmdb)
                self._check_format(content)
                self.expect(content)
                self.open_databases(databases)
                return
            except lmdb.MapResizedError:
                self._lmdb.set_mapsize(0)  # adopt the current size

    def _check_format(self, content: str) -> None:
        """Check the format of the environment; a new one gets the current format and its content."""
        with self._lmdb.begin() as txn:
            stored = read_format(self.path, txn)
        if stored is None:
            if not self.readonly:
                with self._lmdb.begin(write=True) as txn:
                    txn.put(FORMAT_KEY, b"%d" % FORMAT_VERSION)
                    if content:
                        write_content(txn, content)
        elif int(stored) > FORMAT_VERSION:
            raise FormatError(
                f"{str(self.path)!r} has format {int(stored)}, but this version supports up to {FORMAT_VERSION}",
                hint="upgrade Millstream",
                path=str(self.path),
            )
        self._is_checked = stored != UNCHECKED_FORMAT

    def expect(self, content: str) -> None:
        """Raise if the environment holds something else; one of an earlier version is taken for what is expected."""
        if content in ("", self._content):
            return
        stored = self.stored_content()
        check_content(self.path, stored, content)
        if stored is None and not self.readonly:
            with self._lmdb.begin(write=True) as txn:
                write_content(txn, content)
        self._content = content if stored or not self.readonly else ""

    def stored_content(self) -> str | None:
        """Return what the environment holds; None of one of an earlier version."""
        with self._lmdb.begin() as txn:
            return read_content(self.path, txn)

    def open_databases(self, names: tuple[str, ...]) -> None:
        """Open or create named databases; must not be called inside a transaction, since LMDB would wait for it.

        A reader may come before the first commit, and then gets None.
        """
        missing = [name for name in names if self.databases.get(name) is None]
        if not missing:
            return
        with self._lmdb.begin() as txn:
            listed = unpack_databases(txn.get(DATABASES_KEY), self.path)
        for name in missing:
            self.databases[name] = self._open_existing(name, listed)
        new = [name for name in missing if self.databases[name] is None]
        if new and not self.readonly:
            listed = self._create_databases(new)
        self._plain = (None, *(handle for name, handle in self.databases.items() if listed.get(name)))

    def _open_existing(self, name: str, listed: Mapping[str, bool]) -> Any:
        try:
            return self._lmdb.open_db(name.encode(), create=False)
        except lmdb.NotFoundError:
            if name in listed:
                raise damaged(self.path / "data.mdb", f"database {name!r} is lost") from None
            return None

    def _create_databases(self, names: list[str]) -> dict[str, bool]:
        """Create databases and extend the list of databases, in one commit; return the list."""
        with self._lmdb.begin(write=True) as txn:
            listed = unpack_databases(txn.get(DATABASES_KEY), self.path)
            if self._is_checked:
                listed.update((name, name in self._plain_names) for name in names)
                txn.put(DATABASES_KEY, pack_databases(listed))
            handles = {name: self._lmdb.open_db(name.encode(), txn=txn) for name in names}
        self.databases.update(handles)
        return listed

    def _checked(self, txn: Any) -> Any:
        return CheckedTransaction(txn, self._plain, self.path) if self._is_checked else txn

    def read(self, *, buffers: bool = False) -> AbstractContextManager[Transaction]:
        """Open a read transaction, a consistent snapshot; keep it short, since it keeps old pages alive.

        With ``buffers``, values are views into the map that must not be used after the block.
        """
        return _Read(self, buffers)

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """Open a write transaction that commits at the end of the block and aborts if the block raises."""
        with self._write_lock, translate_storage_errors(self.path):
            self._grow_early()
            txn = self._begin_write()
            try:
                yield self._checked(txn)
            except BaseException:
                txn.abort()
                raise
            txn.commit()

    def update(self, change: Callable[[WriteTransaction], T]) -> T:
        """Run ``change`` in a write transaction; it runs again if the map has to grow."""
        with self._write_lock:
            while True:
                try:
                    with self.write() as txn:
                        return change(txn)
                except lmdb.MapFullError:
                    with translate_storage_errors(self.path):
                        self.grow()

    def _begin_read(self, buffers: bool) -> Any:
        with self._map_changed:
            try:
                txn = self._lmdb.begin(write=False, buffers=buffers)
            except lmdb.MapResizedError:
                self._remap(0)
                txn = self._lmdb.begin(write=False, buffers=buffers)
            self._readers += 1
            return txn

    def _begin_write(self) -> Any:
        try:
            return self._lmdb.begin(write=True)
        except lmdb.MapResizedError:
            with self._map_changed:
                self._remap(0)
            return self._lmdb.begin(write=True)

    def _grow_early(self) -> None:
        info = self._lmdb.info()
        if 2 * info["last_pgno"] * self._page_bytes > info["map_size"]:
            with self._map_changed:
                if self._map_changed.wait_for(self._has_no_readers, _SHORT_WAIT_SECONDS):
                    self._lmdb.set_mapsize(2 * info["map_size"])

    def grow(self) -> None:
        """Double the map size; only possible while this process has no open transaction on it."""
        with self._map_changed:
            self._remap(2 * self._lmdb.info()["map_size"])

    def _remap(self, size: int) -> None:
        """Change the map size once this process has no readers; 0 adopts the size that another process has set."""
        if not self._map_changed.wait_for(self._has_no_readers, _LONG_WAIT_SECONDS):
            raise StorageError(
                f"cannot resize {str(self.path)!r} while it is being read",
                hint="keep reads and views short",
                path=str(self.path),
            )
        self._lmdb.set_mapsize(size)

    def _has_no_readers(self) -> bool:
        return self._readers == 0

    def last_commit(self) -> int:
        """Return the id of the last commit by any process; much cheaper than a read transaction."""
        return int(self._lmdb.info()["last_txnid"])

    def clear_stale_readers(self) -> int:
        """Free the reader slots, and thus the old pages, of processes that have died; return the number of slots."""
        return int(self._lmdb.reader_check())

    def sync(self) -> None:
        """Flush everything committed so far to disk."""
        with translate_storage_errors(self.path):
            self._lmdb.sync(True)

    def copy(self, path: Path, txn: Transaction) -> None:
        """Write the snapshot of a read transaction to an empty directory, without free pages; writers may continue."""
        with translate_storage_errors(path):
            self._lmdb.copy(str(path), compact=True, txn=getattr(txn, "unchecked", txn))

    def bytes_used(self) -> int:
        """Return the size of the data file in bytes, free pages included."""
        return int(self._lmdb.info()["last_pgno"]) * self._page_bytes

    @property
    def is_open(self) -> bool:
        """Whether this process may still use this object; otherwise call ``open_environment`` again."""
        return self._pid == os.getpid() and _open.get(str(self.path)) is self

    def _is_stale(self) -> bool:
        """Whether it was opened before a fork, or its files have been deleted or replaced."""
        return self._pid != os.getpid() or self._file != file_id(self.path)

    def close(self) -> None:
        """Close the environment for the whole process; the next ``open_environment`` call opens it again."""
        with _open_lock:
            _open.pop(str(self.path), None)
            self._release()

    def _release(self) -> None:
        """Close LMDB's handle; a forked child must close its copy before LMDB lets it open its own."""
        if self._pid != os.getpid() and self._readers:  # closing would also end the parent's reads
            raise StorageError(
                f"this process was forked while {str(self.path)!r} was being read",
                hint="start processes with spawn, or fork between reads",
                path=str(self.path),
            )
        self._lmdb.close()


class _Read:
    """A read transaction; a class, since a batch makes dozens of reads and a generator costs twice as much."""

    __slots__ = ("_buffers", "_environment", "_txn")

    def __init__(self, environment: Environment, buffers: bool) -> None:
        self._environment = environment
        self._buffers = buffers

    def __enter__(self) -> Transaction:
        environment = self._environment
        try:
            self._txn = environment._begin_read(self._buffers)
        except (lmdb.Error, OSError):
            with translate_storage_errors(environment.path):
                raise
        return environment._checked(self._txn)  # type: ignore[no-any-return]

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        environment = self._environment
        self._txn.abort()
        with environment._map_changed:
            environment._readers -= 1
            environment._map_changed.notify_all()
        translated = storage_error(error, environment.path) if isinstance(error, lmdb.Error | OSError) else None
        if translated is not None:
            raise translated from error


def open_environment(
    path: Path,
    databases: tuple[str, ...] = (),
    *,
    sync: bool = True,
    readonly: bool = False,
    plain: tuple[str, ...] = (),
    content: str = "",
) -> Environment:
    """Return this process's environment at ``path``; open it if it is not open yet.

    Values are stored with checksums, except those of ``plain`` databases. An environment that does not hold the
    expected ``content`` is refused.

    A read-only environment never waits for a writer, not even while it is opened; missing databases are None.
    """
    path = path.resolve()  # LMDB refuses to open the same directory twice
    name = str(path)
    with _open_lock:
        environment = _open.get(name)
        if environment is not None and (environment._is_stale() or (environment.readonly and not readonly)):
            environment._release()
            environment = None
        if environment is None:
            environment = _open[name] = Environment(
                path, databases, sync=sync, readonly=readonly, plain=plain, content=content
            )
        else:
            environment.expect(content)
            environment.open_databases(databases)
        return environment


def close_environments(directory: Path) -> None:
    """Close every environment of this process under ``directory``."""
    root = str(directory.resolve())
    inside = os.path.join(root, "")  # noqa: PTH118 - paths are compared as text, which is faster with many open
    for name, environment in list(_open.items()):
        if name == root or name.startswith(inside):
            environment.close()


os.register_at_fork(before=_open_lock.acquire, after_in_parent=_open_lock.release, after_in_child=_open_lock.release)


@contextmanager
def translate_storage_errors(path: Path) -> Iterator[None]:
    """Turn errors of LMDB and the file system into a ``StorageError``, except a full map, which ``update`` handles."""
    try:
        yield
    except (lmdb.Error, OSError) as error:
        translated = storage_error(error, path)
        if translated is None:
            raise
        raise translated from error


def make_private_directory(path: Path) -> None:
    """Create a directory that only its owner can access, or check that others cannot write to an existing one."""
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)
    status = path.stat()
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise StorageError(f"{str(path)!r} belongs to another user", hint="use a directory that you own")
    if stat.S_IMODE(status.st_mode) & stat.S_IWOTH:
        raise StorageError(f"{str(path)!r} is world-writable", hint=f"run: chmod 700 {path}", path=str(path))
