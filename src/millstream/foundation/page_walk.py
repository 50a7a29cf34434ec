"""Follow the pages of an LMDB data file with ordinary reads, and check what they contain.

Every page that is referenced must exist, once, and be of the right kind; keys must be in order, within the bounds that
the parent page gives; free pages must not be in use; values must match their checksums.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from millstream.foundation.checked import (
    DATABASES_KEY,
    FORMAT_KEY,
    RESIDUE,
    UNCHECKED_FORMAT,
    unpack_databases,
    without_checksum,
)
from millstream.foundation.damage import damaged

_HEADER = Struct("<QHHHH")
_META = Struct("<IIQQ48s48sQQ")
_TREE = Struct("<IHHQQQQQ")
_NODE = Struct("<HHHH")
_NUMBER = Struct("<Q")
_MAGIC = 0xBEEFC0DE
_NO_PAGE = 2**64 - 1
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_BIG_VALUE, _TREE_VALUE = 1, 2
_MAX_MAP_BYTES = 1 << 46  # half of the address space
_PAGE_SIZES = {1 << power for power in range(9, 17)}
_META_BYTES = _HEADER.size + _META.size


class Tree(NamedTuple):
    """The root of a B+ tree as LMDB stores it."""

    name: str
    flags: int
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


def read_metas(path: Path, file: int) -> list[Meta]:
    """Return both meta pages; commits write them in turn, so they belong to consecutive commits."""
    metas = _metas(path, file)
    while not _are_consecutive(metas):
        again = _metas(path, file)
        if again == metas:  # otherwise a commit came in between
            raise damaged(path, f"its headers belong to commits {metas[0].commit} and {metas[1].commit}")
        metas = again
    return metas


def _are_consecutive(metas: list[Meta]) -> bool:
    first, second = (meta.commit for meta in metas)
    return first == second == 0 or (abs(first - second) == 1 and first % 2 == 0)


def _metas(path: Path, file: int) -> list[Meta]:
    first = _meta(path, os.pread(file, _META_BYTES, 0))
    return [first, _meta(path, os.pread(file, _META_BYTES, first.page_bytes))]


def _meta(path: Path, data: bytes) -> Meta:
    if len(data) < _META_BYTES:
        raise damaged(path, f"it has {path.stat().st_size} bytes, less than its header")
    flags = _HEADER.unpack_from(data)[2]
    magic, version, _, map_bytes, free, main, last_page, commit = _META.unpack_from(data, _HEADER.size)
    page_bytes = _TREE.unpack(free)[0]
    if (magic, version) != (_MAGIC, 1) or not flags & _META_PAGE or page_bytes not in _PAGE_SIZES:
        raise damaged(path, "its header is not the header of an LMDB file")
    if map_bytes > _MAX_MAP_BYTES or map_bytes % page_bytes or (last_page + 1) * page_bytes > map_bytes:
        raise damaged(path, f"its header has {last_page} pages in {map_bytes} bytes")
    return Meta(page_bytes, last_page, commit, _tree("free pages", free), _tree("main", main))


def _tree(name: str, data: bytes) -> Tree:
    _, flags, depth, _, _, _, entries, root = _TREE.unpack(data)
    return Tree(name, flags, depth, entries, root)


class PageWalk:
    """One walk over all pages of a commit."""

    def __init__(self, path: Path, file: int, meta: Meta) -> None:
        self._path = path
        self._file = file
        self._meta = meta
        self._seen: set[int] = set()
        self._trees: list[Tree] = []
        self._is_checked = False
        self._listed: dict[str, bool] = {}

    def check(self) -> int:
        """Check everything and return the number of pages in use."""
        self._check_tree(self._meta.main, self._check_main_row)
        lost = self._listed.keys() - {tree.name for tree in self._trees}
        if lost:
            raise damaged(self._path, f"database {min(lost)!r} is lost")
        for tree in self._trees:
            is_checked = self._is_checked and not self._listed.get(tree.name)
            self._check_tree(tree, self._check_row if is_checked else None)
        in_use = len(self._seen)
        self._check_tree(self._meta.free, self._check_free_row)
        return in_use

    def _check_tree(self, tree: Tree, check_row: Callable[[bytes, bytes], None] | None) -> None:
        is_free_list = tree is self._meta.free
        if tree.flags != 0 and not is_free_list:
            raise damaged(self._path, f"database {tree.name!r} has the flags {tree.flags}")
        entries = 0 if tree.root == _NO_PAGE else sum(self._entries(tree, check_row, is_free_list))
        if entries != tree.entries:
            raise damaged(self._path, f"database {tree.name!r} has {entries} of {tree.entries} entries")

    def _entries(
        self, tree: Tree, check_row: Callable[[bytes, bytes], None] | None, is_free_list: bool
    ) -> Iterator[int]:
        """Yield the number of entries of every leaf."""
        pending: list[tuple[int, int, bytes, bytes | None]] = [(tree.root, 1, b"", None)]
        while pending:
            number, depth, low, high = pending.pop()
            data = self._page(number)
            is_leaf = depth == tree.depth
            self._check_flags(number, data, _LEAF if is_leaf else _BRANCH)
            offsets = self._offsets(number, data)
            keys = self._keys(number, data, offsets)
            if not is_leaf:
                keys[0] = low  # the first key of a branch is empty
            if not is_free_list:
                self._check_order(number, keys, low, high)
            if is_leaf:
                yield len(offsets)
                for offset, key in zip(offsets, keys, strict=True):
                    self._check_leaf_node(number, data, offset, key, check_row)
            else:
                ends = [*keys[1:], high]
                for offset, key, end in zip(offsets, keys, ends, strict=True):
                    start, middle, top, _ = _NODE.unpack_from(data, offset)
                    pending.append((start | middle << 16 | top << 32, depth + 1, key, end))

    def _page(self, number: int) -> bytes:
        size = self._meta.page_bytes
        self._take(number)
        data = os.pread(self._file, size, number * size)
        if len(data) < size:
            actual = os.fstat(self._file).st_size
            raise damaged(self._path, f"it ends at byte {actual}, before page {number}, which is in use")
        if _HEADER.unpack_from(data)[0] != number:
            raise self._overwritten(number)
        return data

    def _take(self, number: int) -> None:
        if not 2 <= number <= self._meta.last_page:
            raise damaged(self._path, f"page {number} of {self._meta.last_page} is referenced")
        if number in self._seen:
            raise damaged(self._path, f"page {number} is referenced twice")
        self._seen.add(number)

    def _overwritten(self, number: int) -> Exception:
        return damaged(self._path, f"page {number} was overwritten")

    def _check_flags(self, number: int, data: bytes, expected: int) -> None:
        if not _HEADER.unpack_from(data)[2] & expected:
            raise self._overwritten(number)

    def _offsets(self, number: int, data: bytes) -> tuple[int, ...]:
        """Return the offsets of the nodes of a page."""
        _, _, _, lower, upper = _HEADER.unpack_from(data)
        if not _HEADER.size < lower <= upper <= len(data) or lower % 2:
            raise self._overwritten(number)
        count = (lower - _HEADER.size) // 2
        offsets = Struct(f"<{count}H").unpack_from(data, _HEADER.size)
        if any(not upper <= offset <= len(data) - _NODE.size for offset in offsets):
            raise self._overwritten(number)
        return offsets

    def _keys(self, number: int, data: bytes, offsets: tuple[int, ...]) -> list[bytes]:
        keys = []
        for offset in offsets:
            start = offset + _NODE.size
            end = start + int.from_bytes(data[offset + 6 : start], "little")
            if end > len(data):
                raise self._overwritten(number)
            keys.append(data[start:end])
        return keys

    def _check_order(self, number: int, keys: list[bytes], low: bytes, high: bytes | None) -> None:
        is_sorted = all(first < second for first, second in pairwise(keys))
        if not is_sorted or keys[0] < low or (high is not None and keys[-1] >= high):
            raise damaged(self._path, f"the keys of page {number} are not in order")

    def _check_leaf_node(
        self, number: int, data: bytes, offset: int, key: bytes, check_row: Callable[[bytes, bytes], None] | None
    ) -> None:
        low, high, flags, _ = _NODE.unpack_from(data, offset)
        start, size = offset + _NODE.size + len(key), low | high << 16
        if start + (_NUMBER.size if flags & _BIG_VALUE else size) > len(data):
            raise self._overwritten(number)
        if flags & _BIG_VALUE:
            value = self._big_value(_NUMBER.unpack_from(data, start)[0], size, is_read=check_row is not None)
        else:
            value = data[start : start + size]
        if flags & _TREE_VALUE:
            self._trees.append(_tree(key.decode(errors="backslashreplace"), value[: _TREE.size]))
        elif check_row is not None:
            check_row(key, value)

    def _big_value(self, number: int, value_bytes: int, *, is_read: bool) -> bytes:
        """Check the pages of a large value and return it, if it is needed."""
        header = self._page(number)
        self._check_flags(number, header, _OVERFLOW)
        pages = int.from_bytes(header[12:16], "little")
        size = self._meta.page_bytes
        if pages * size < _HEADER.size + value_bytes:  # a value that became shorter keeps its pages
            raise self._overwritten(number)
        last = number + pages - 1
        if last > self._meta.last_page or os.fstat(self._file).st_size < (last + 1) * size:
            raise damaged(self._path, f"it ends before page {last}, which is in use")
        for page in range(number + 1, last + 1):
            self._take(page)
        return os.pread(self._file, value_bytes, number * size + _HEADER.size) if is_read else b""

    def _check_main_row(self, key: bytes, value: bytes) -> None:
        """Read the format, and the list of databases."""
        if key == FORMAT_KEY:
            self._is_checked = value != UNCHECKED_FORMAT
        elif key == DATABASES_KEY:
            self._listed = unpack_databases(value, self._path.parent)

    def _check_row(self, key: bytes, value: bytes) -> None:
        if crc32(value, crc32(key)) != RESIDUE:
            without_checksum(key, value, self._path.parent)

    def _check_free_row(self, _key: bytes, value: bytes) -> None:
        """Check that free pages are not in use; a list of pages begins with their number."""
        count = _NUMBER.unpack_from(value)[0]
        if (count + 1) * _NUMBER.size > len(value):
            raise damaged(self._path, f"a list of {count} free pages has {len(value)} bytes")
        for page in Struct(f"<{count}Q").unpack_from(value, _NUMBER.size):
            self._take(page)
