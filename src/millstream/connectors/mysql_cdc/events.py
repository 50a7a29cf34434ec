"""Events of the binary log: their headers, and the small ones; rows are decoded in ``row_events``."""

from __future__ import annotations

import uuid
import zlib
from struct import Struct
from typing import Final, NamedTuple

from millstream.connectors.mysql_cdc.bytes_reading import read_integer

QUERY, STOP, ROTATE, FORMAT, XID, TABLE_MAP, INCIDENT, HEARTBEAT = 2, 3, 4, 15, 16, 19, 26, 27
GTID, ANONYMOUS_GTID, XA_PREPARE, PARTIAL_UPDATE, PAYLOAD, HEARTBEAT_2, TAGGED_GTID = 33, 34, 38, 39, 40, 41, 42
MARIADB_GTID, COMPRESSED_QUERY = 162, 165
WRITES: Final = frozenset({23, 30, 166, 169})
UPDATES: Final = frozenset({24, 31, 167, 170})
DELETES: Final = frozenset({25, 32, 168, 171})
SECOND_VERSION: Final = frozenset({30, 31, 32, 169, 170, 171})
COMPRESSED: Final = frozenset(range(165, 172))
HEADER_BYTES: Final = 19

_HEADER = Struct("<IBIIIH")
_QUERY = Struct("<IIBHH")
_MARIADB_GTID = Struct("<QIB")
_STANDALONE = 1
_ARTIFICIAL = 0x20


class Header(NamedTuple):
    """What every event begins with."""

    time: int
    """Seconds since 1970."""
    kind: int
    server_id: int
    size: int
    end: int
    """Where the event ends in its file; 0 if it is not in the file."""
    flags: int

    @property
    def is_artificial(self) -> bool:
        """Whether the server made the event for this stream."""
        return bool(self.flags & _ARTIFICIAL)


class LoggedStatement(NamedTuple):
    """A statement."""

    database: str
    statement: str


class Begun(NamedTuple):
    """The id of a transaction, at its start."""

    gtid: str
    has_begun: bool
    """False if a statement such as BEGIN, or one that is a transaction of its own, follows."""


def parse_header(event: bytes) -> Header:
    return Header(*_HEADER.unpack_from(event))


def parse_rotate(event: bytes) -> tuple[str, int]:
    """Return the file and the offset where the log continues."""
    return event[HEADER_BYTES + 8 :].decode(), int.from_bytes(event[HEADER_BYTES : HEADER_BYTES + 8], "little")


def parse_query(event: bytes, *, is_compressed: bool) -> LoggedStatement:
    """Read a statement."""
    _, _, database_length, _, status_length = _QUERY.unpack_from(event, HEADER_BYTES)
    start = HEADER_BYTES + _QUERY.size + status_length
    end = start + database_length
    text = event[end + 1 :]
    statement = uncompressed(text) if is_compressed else text
    return LoggedStatement(event[start:end].decode("utf-8", "replace"), statement.decode("utf-8", "replace"))


def parse_mariadb_gtid(event: bytes, server_id: int) -> Begun:
    """Read the start of a transaction of MariaDB."""
    number, domain, flags = _MARIADB_GTID.unpack_from(event, HEADER_BYTES)
    return Begun(f"{domain}-{server_id}-{number}", not flags & _STANDALONE)


def parse_gtid(event: bytes) -> Begun:
    """Read the id of a transaction of MySQL."""
    source = uuid.UUID(bytes=event[HEADER_BYTES + 1 : HEADER_BYTES + 17])
    return Begun(f"{source}:{int.from_bytes(event[HEADER_BYTES + 17 : HEADER_BYTES + 25], 'little')}", False)


def is_one_phase(event: bytes) -> bool:
    """Return whether an XA PREPARE is also the commit."""
    return bool(event[HEADER_BYTES])


def uncompressed(data: bytes) -> bytes:
    """Return what MariaDB has compressed: a byte with the length of the length, the length, and zlib's stream."""
    return zlib.decompress(data[1 + (data[0] & 7) :])


def table_id(event: bytes) -> bytes:
    """Return the number of a table, which holds until the log is rotated."""
    return event[HEADER_BYTES : HEADER_BYTES + 6]


class RowsStart(NamedTuple):
    """Where the rows of an event are."""

    data: bytes
    at: int
    is_full: bool
    """Whether all columns are there."""


def rows_start(event: bytes, kind: int) -> RowsStart:
    """Find the rows of an event, and whether they have all columns."""
    at = HEADER_BYTES + 8
    if kind in SECOND_VERSION:
        at += int.from_bytes(event[at : at + 2], "little")
    columns, at = read_integer(event, at)
    size = (columns + 7) // 8
    bitmaps = 2 if kind in UPDATES else 1
    everything = (1 << columns) - 1
    is_full = all(
        int.from_bytes(event[at + size * number : at + size * (number + 1)], "little") & everything == everything
        for number in range(bitmaps)
    )
    at += size * bitmaps
    return RowsStart(uncompressed(event[at:]), 0, is_full) if kind in COMPRESSED else RowsStart(event, at, is_full)
