"""Check an LMDB data file without mapping it.

LMDB trusts its file: a page that is missing ends the process with SIGBUS, and a page that was overwritten may do the
same. This module reads the file with ordinary reads and follows the pages from the roots, so that damage is an error.
A file may end before the last page that LMDB has allocated, if the pages at the end were never used; only a page that
is referenced must exist.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from struct import error
from typing import Any

import lmdb

from millstream.foundation.checked import FORMAT_KEY
from millstream.foundation.damage import damaged
from millstream.foundation.page_walk import PageWalk, read_metas

_SMALL_BYTES = 1 << 20  # following 256 pages lasts some milliseconds
_CREATION_SECONDS, _OLD_SECONDS = 1.0, 600.0
_LOCK_BYTES = 8192
"""What an environment uses of its lock file: a header, and the entries of up to 125 readers."""
_NEW_BYTES = 65_536
"""More than LMDB writes to create an environment."""


def reserve_space(directory: Path) -> None:
    """Raise before LMDB creates the files of an environment on a full disk.

    LMDB maps its lock file and writes to the map: a page for which there is no space ends the process with SIGBUS. And
    it would leave a data file without a header, which looks like a damaged one.
    """
    _reserve_lock(directory / "lock.mdb")
    if not (directory / "data.mdb").exists():
        status = os.statvfs(directory)
        if status.f_bavail * status.f_frsize < _NEW_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))


def _reserve_lock(path: Path) -> None:
    """Allocate a lock file that is empty; closing one that is used would release the locks that LMDB holds on it."""
    if (path.exists() and path.stat().st_size > 0) or not hasattr(os, "posix_fallocate"):
        return
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, _LOCK_BYTES)
    finally:
        os.close(file)


def check_header(directory: Path) -> None:
    """Check the header of a data file, if there is one, before LMDB maps the file.

    LMDB would take an empty file for a new one, but another process may be creating it, unless it is old.
    """
    path = directory / "data.mdb"
    deadline = time.monotonic() + _CREATION_SECONDS
    while path.exists() and (status := path.stat()).st_size == 0:
        if time.monotonic() > deadline or time.time() - status.st_mtime > _OLD_SECONDS:
            raise damaged(path, "it is empty")
        time.sleep(_CREATION_SECONDS / 100)
    if path.exists():
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            read_metas(path, file)
        finally:
            os.close(file)


def check_file(directory: Path, environment: Any) -> None:
    """Check that the pages of an environment that was just opened exist, before LMDB touches them.

    A file that looks too short is followed, and so is a small file, since that is cheap.
    """
    page_bytes = environment.stat()["psize"]
    is_checked = False
    while not is_checked:
        with environment.begin() as txn:  # so that writers keep the pages; it reads nothing but the header
            expected = (environment.info()["last_pgno"] + 1) * page_bytes
            size = (directory / "data.mdb").stat().st_size
            is_checked = _SMALL_BYTES < size >= expected or check_structure(directory, txn.id()) is not None


def check_environment(directory: Path, *, is_live: bool = True) -> int:
    """Follow all pages of an environment that other processes may write to, and return their number.

    A copy is not live: it is checked without a lock file, which would be created in it.
    """
    path = directory / "data.mdb"
    check_header(directory)
    try:
        environment = lmdb.open(str(directory), readonly=True, create=False, lock=is_live, max_readers=1024)
    except lmdb.Error as problem:
        raise damaged(path, str(problem)) from problem
    try:
        pages = None
        while pages is None:
            with environment.begin() as txn:
                pages = check_structure(directory, txn.id())
                if pages is not None:  # LMDB can read them
                    read_format(directory, txn)
        return pages
    finally:
        environment.close()


def read_format(directory: Path, txn: Any) -> bytes | None:
    """Return the stored format of an environment, None of a new one; entries without a valid format are damage."""
    stored: bytes | None = txn.get(FORMAT_KEY)
    is_new = stored is None and txn.stat()["entries"] == 0
    if not is_new and (stored is None or not stored.isdigit() or stored == b"0"):
        raise damaged(directory / "data.mdb", f"its format {stored!r} is not valid")
    return stored


def check_structure(directory: Path, commit: int | None = None) -> int | None:
    """Follow all pages of a commit, by default the last, and return their number.

    The caller keeps a read transaction open, so that writers do not reuse the pages. None means that later commits
    have replaced the roots; try again with the next commit.
    """
    path = directory / "data.mdb"
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        metas = read_metas(path, file)
        last = max(meta.commit for meta in metas) if commit is None else commit
        meta = next((meta for meta in metas if meta.commit == last), None)
        return None if meta is None else PageWalk(path, file, meta).check()
    except error as problem:
        raise damaged(path, f"a page has an invalid layout ({problem})") from problem
    finally:
        os.close(file)


def file_id(directory: Path) -> tuple[int, int] | None:
    """Return what tells the data file of a directory from one that replaced it; None without a file."""
    try:
        status = (directory / "data.mdb").stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def file_bytes(directory: Path) -> int:
    """Return the size of the data file of a directory, 0 without a file."""
    data = directory / "data.mdb"
    return data.stat().st_size if data.exists() else 0
