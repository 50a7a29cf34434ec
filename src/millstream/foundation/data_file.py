"""Check the structure of an LMDB data file without mapping it.

LMDB trusts its file: a page that is missing ends the process with SIGBUS, and a page that was overwritten may do the
same. This module reads the file with ordinary reads and follows the pages from the roots, so that damage is an error.
A file may end before the last page that LMDB has allocated, if the pages at the end were never used; only a page that
is referenced must exist.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from struct import Struct, error
from typing import Any, NamedTuple

import lmdb

from millstream.errors import DamagedError

_HEADER = Struct("<QHHHH")
_META = Struct("<IIQQ48s48sQQ")
_TREE = Struct("<IHHQQQQQ")
_NODE = Struct("<HHHH")
_PAGE_NUMBER = Struct("<Q")
_MAGIC = 0xBEEFC0DE
_NO_PAGE = 2**64 - 1
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_BIG_VALUE, _TREE_VALUE = 1, 2
_SMALL_BYTES = 1 << 20  # following 256 pages lasts some milliseconds
_CREATION_SECONDS = 1.0
_META_BYTES = _HEADER.size + _META.size


class Tree(NamedTuple):
    """The root of a B+ tree as LMDB stores it."""

    name: str
    depth: int
    entries: int
    root: int


class Meta(NamedTuple):
    """A meta page: the roots that a commit has written."""

    page_bytes: int
    last_page: int
    commit: int
    free: Tree
    main: Tree


def damaged(path: Path, reason: str) -> DamagedError:
    """Return the error for a damaged file or directory; the hint names the ways to repair it."""
    return DamagedError(
        f"{str(path)!r} is damaged: {reason}",
        hint="list all damage: millstream doctor DATA_DIR; then restore a savepoint or a backup, or reset the app",
        path=str(path),
    )


def check_not_empty(directory: Path) -> None:
    """Refuse an empty data file, which LMDB would take for a new one; another process may be creating it."""
    path = directory / "data.mdb"
    deadline = time.monotonic() + _CREATION_SECONDS
    while path.exists() and path.stat().st_size == 0:
        if time.monotonic() > deadline:
            raise damaged(path, "it is empty")
        time.sleep(_CREATION_SECONDS / 100)


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
    check_not_empty(directory)
    try:
        environment = lmdb.open(str(directory), readonly=True, create=False, lock=is_live, max_readers=1024)
    except lmdb.Error as problem:
        raise damaged(path, str(problem)) from problem
    try:
        pages = None
        while pages is None:
            with environment.begin() as txn:
                pages = check_structure(directory, txn.id())
        return pages
    finally:
        environment.close()


def check_structure(directory: Path, commit: int | None = None) -> int | None:
    """Follow all pages of a commit, by default the last, and return their number.

    The caller keeps a read transaction open, so that writers do not reuse the pages. None means that later commits
    have replaced the roots; try again with the next commit.
    """
    path = directory / "data.mdb"
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        metas = _read_metas(path, file)
        last = max(meta.commit for meta in metas) if commit is None else commit
        meta = next((meta for meta in metas if meta.commit == last), None)
        return None if meta is None else _Walk(path, file, meta).check()
    except error as problem:
        raise damaged(path, f"a page has an invalid layout ({problem})") from problem
    finally:
        os.close(file)


def _read_metas(path: Path, file: int) -> list[Meta]:
    first = _read_meta(path, os.pread(file, _META_BYTES, 0))
    return [first, _read_meta(path, os.pread(file, _META_BYTES, first.page_bytes))]


def _read_meta(path: Path, data: bytes) -> Meta:
    if len(data) < _META_BYTES:
        raise damaged(path, f"it has {path.stat().st_size} bytes, less than its header")
    flags = _HEADER.unpack_from(data)[2]
    magic, _, _, _, free, main, last_page, commit = _META.unpack_from(data, _HEADER.size)
    page_bytes = _TREE.unpack(free)[0]
    if magic != _MAGIC or not flags & _META_PAGE or page_bytes not in (1 << power for power in range(9, 17)):
        raise damaged(path, "its header is not the header of an LMDB file")
    return Meta(page_bytes, last_page, commit, _tree("free pages", free), _tree("main", main))


def _tree(name: str, data: bytes) -> Tree:
    _, _, depth, _, _, _, entries, root = _TREE.unpack(data)
    return Tree(name, depth, entries, root)


class _Walk:
    def __init__(self, path: Path, file: int, meta: Meta) -> None:
        self._path = path
        self._file = file
        self._meta = meta
        self._seen: set[int] = set()
        self._trees = [meta.free, meta.main]

    def check(self) -> int:
        """Check every tree; named databases are appended to the list while the main tree is followed."""
        for tree in self._trees:
            entries = 0 if tree.root == _NO_PAGE else sum(self._entries(tree))
            if entries != tree.entries:
                raise damaged(self._path, f"database {tree.name!r} has {entries} of {tree.entries} entries")
        return len(self._seen)

    def _entries(self, tree: Tree) -> Iterator[int]:
        """Yield the number of entries of every leaf."""
        pending = [(tree.root, 1)]
        while pending:
            number, depth = pending.pop()
            data = self._page(number)
            is_leaf = depth == tree.depth
            self._check_flags(number, data, _LEAF if is_leaf else _BRANCH)
            offsets = self._offsets(number, data)
            if is_leaf:
                yield len(offsets)
                for offset in offsets:
                    self._check_leaf_node(tree, number, data, offset)
            else:
                for offset in offsets:
                    low, high, top, _ = _NODE.unpack_from(data, offset)
                    pending.append((low | high << 16 | top << 32, depth + 1))

    def _page(self, number: int) -> bytes:
        size = self._meta.page_bytes
        if not 2 <= number <= self._meta.last_page:
            raise damaged(self._path, f"page {number} of {self._meta.last_page} is referenced")
        if number in self._seen:
            raise damaged(self._path, f"page {number} is referenced twice")
        self._seen.add(number)
        data = os.pread(self._file, size, number * size)
        if len(data) < size:
            actual = os.fstat(self._file).st_size
            raise damaged(self._path, f"it ends at byte {actual}, before page {number}, which is in use")
        if _HEADER.unpack_from(data)[0] != number:
            raise damaged(self._path, f"page {number} was overwritten")
        return data

    def _check_flags(self, number: int, data: bytes, expected: int) -> None:
        if not _HEADER.unpack_from(data)[2] & expected:
            raise damaged(self._path, f"page {number} was overwritten")

    def _offsets(self, number: int, data: bytes) -> tuple[int, ...]:
        """Return the offsets of the nodes of a page."""
        _, _, _, lower, upper = _HEADER.unpack_from(data)
        if not _HEADER.size <= lower <= upper <= len(data) or lower % 2:
            raise damaged(self._path, f"page {number} was overwritten")
        count = (lower - _HEADER.size) // 2
        offsets = Struct(f"<{count}H").unpack_from(data, _HEADER.size)
        if any(not upper <= offset <= len(data) - _NODE.size for offset in offsets):
            raise damaged(self._path, f"page {number} was overwritten")
        return offsets

    def _check_leaf_node(self, tree: Tree, number: int, data: bytes, offset: int) -> None:
        low, high, flags, key_bytes = _NODE.unpack_from(data, offset)
        start, size = offset + _NODE.size + key_bytes, low | high << 16
        if start + (_PAGE_NUMBER.size if flags & _BIG_VALUE else size) > len(data):
            raise damaged(self._path, f"page {number} was overwritten")
        if flags & _BIG_VALUE:
            self._check_overflow(_PAGE_NUMBER.unpack_from(data, start)[0], size)
        elif flags & _TREE_VALUE and tree is self._meta.main:
            name = data[offset + _NODE.size : start].decode(errors="backslashreplace")
            self._trees.append(_tree(name, data[start : start + _TREE.size]))

    def _check_overflow(self, number: int, value_bytes: int) -> None:
        """Check the pages of a large value."""
        header = self._page(number)
        self._check_flags(number, header, _OVERFLOW)
        pages = int.from_bytes(header[12:16], "little")
        size = self._meta.page_bytes
        if pages * size < _HEADER.size + value_bytes:
            raise damaged(self._path, f"page {number} was overwritten")
        last = number + pages - 1
        if last > self._meta.last_page or os.fstat(self._file).st_size < (last + 1) * size:
            raise damaged(self._path, f"it ends before page {last}, which is in use")
