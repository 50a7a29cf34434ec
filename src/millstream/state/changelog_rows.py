"""The rows of a state as records of a changelog, and back.

The key of a record is the name of a database and the key of a row. A value that is too long for a record is split: the
first record has a header with the number of parts, the others follow it in the same transaction, each under a key of
its own. If a later value has fewer parts, the unnecessary ones of the earlier value remain in the topic; a reader
ignores parts that do not follow their predecessor.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from millstream.foundation.blocks import Block, block_of, headers_of
from millstream.records import Headers
from millstream.state.recording import Changes, Rows
from millstream.state.task import COMMIT_ROW, store_database

MAX_VALUE_BYTES = 900_000
POSITIONS = "changelog"
"""The database of an environment that stores its position in the changelog; it is not part of the changelog itself."""
_PARTS = "parts"
_SEPARATOR = b"\0"
_PART = b"\1"
_database_name = functools.lru_cache(1024)(bytes.decode)


class _Record(NamedTuple):
    key: bytes
    value: bytes | None
    headers: Headers = ()


def changelog_block(changes: Changes) -> Block:
    """Return changes as a block; the version of a task is last, so a reader that sees it has seen everything before."""
    ordered = [item for item in changes.items() if item[0] != COMMIT_ROW and item[0][0] != POSITIONS]
    if COMMIT_ROW in changes:
        ordered.append((COMMIT_ROW, changes[COMMIT_ROW]))
    now = time.time_ns() // 1_000_000
    if all(value is None or len(value) <= MAX_VALUE_BYTES for _, value in ordered):
        keys = [database.encode() + _SEPARATOR + key for (database, key), _ in ordered]
        return block_of(keys, [value for _, value in ordered], [now] * len(keys))
    records = [record for (database, key), value in ordered for record in _records(database, key, value)]
    columns = [record.key for record in records], [record.value for record in records], [now] * len(records)
    return block_of(*columns, [record.headers for record in records])


def _records(database: str, key: bytes, value: bytes | None) -> Iterator[_Record]:
    name = database.encode() + _SEPARATOR + key
    if value is None or len(value) <= MAX_VALUE_BYTES:
        yield _Record(name, value)
        return
    parts = [value[start : start + MAX_VALUE_BYTES] for start in range(0, len(value), MAX_VALUE_BYTES)]
    yield _Record(name, parts[0], ((_PARTS, b"%d" % len(parts)),))
    for number, part in enumerate(parts[1:], 1):
        yield _Record(_PART + number.to_bytes(4) + name, part)


class RowAssembler:
    """Turns the blocks of a changelog into rows; a split value may continue in the next block."""

    def __init__(self) -> None:
        self._name = b""
        self._expected = 0
        self._parts: list[bytes] = []

    @property
    def is_between_rows(self) -> bool:
        """Whether no value is incomplete."""
        return not self._parts

    def rows_of(self, block: Block) -> Rows:
        """Return the complete rows of the next block."""
        keys, values = block.column(0).to_pylist(), block.column(1).to_pylist()
        headers = headers_of(block)
        if headers is None and not self._parts and not any(key.startswith(_PART) for key in keys):
            return [_row(key, value) for key, value in zip(keys, values, strict=True)]
        return list(self._assembled(keys, values, headers or [()] * len(keys)))

    def _assembled(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], headers: Sequence[Headers]
    ) -> Iterator[tuple[str, bytes, bytes | None]]:
        for key, value, pairs in zip(keys, values, headers, strict=True):
            if key.startswith(_PART):
                number = int.from_bytes(key[1:5])
                if key[5:] == self._name and number == len(self._parts):
                    self._parts.append(value or b"")
                    if len(self._parts) == self._expected:
                        yield _row(self._name, b"".join(self._parts))
                        self._parts = []
                continue
            self._parts = []
            count = next((int(text or 0) for name, text in pairs if name == _PARTS), 1)
            if count > 1:
                self._name, self._expected, self._parts = key, count, [value or b""]
            else:
                yield _row(key, value)


def is_changelog_key(key: bytes) -> bool:
    """Whether a record with this key can be a row of a state."""
    database, separator, _ = key.partition(_SEPARATOR)
    is_row = separator and (database == COMMIT_ROW[0].encode() or database.startswith(store_database("").encode()))
    return bool(is_row) or key.startswith(_PART)


def _row(name: bytes, value: bytes | None) -> tuple[str, bytes, bytes | None]:
    database, _, key = name.partition(_SEPARATOR)
    return _database_name(database), key, value
