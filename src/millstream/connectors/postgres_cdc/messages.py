"""Messages of the replication stream and of the plugin pgoutput, protocol version 1.

Rows (insert, update, delete) are many, and are decoded by column in ``cells``; the others are decoded here.
"""

from __future__ import annotations

from struct import Struct

import msgspec

from millstream.connectors.change_data.relation import RelationColumn, ReplicatedTable

HEADER_BYTES = 25
"""Of the message that carries a message of pgoutput: its kind, its start, the end of the log, and the server's time."""
DATA, KEEPALIVE = ord("w"), ord("k")
BEGIN, COMMIT, RELATION, TRUNCATE, MESSAGE = (ord(kind) for kind in "BCRTM")
NEW_TUPLE = ord("N")
_EPOCH_MICROSECONDS = 946_684_800_000_000
"""Between the epochs of Unix and Postgres."""

_BEGIN = Struct(">QqI")
_COMMIT = Struct(">BQQq")
_KEEPALIVE = Struct(">QqB")
_STATUS = Struct(">cQQQqB")
_RELATION = Struct(">I")
_COLUMN = Struct(">Ii")
_MESSAGE = Struct(">BQ")


class Begin(msgspec.Struct, frozen=True):
    """The start of a transaction, which is sent when it has committed."""

    commit_time: int
    """Microseconds since 1970."""
    transaction: int
    """The lower 32 bits of its id."""


class Emitted(msgspec.Struct, frozen=True):
    """What ``pg_logical_emit_message`` wrote."""

    is_transactional: bool
    prefix: str
    content: bytes


def parse_begin(data: bytes) -> Begin:
    """Read the message at the start of a transaction."""
    _, time, transaction = _BEGIN.unpack_from(data, HEADER_BYTES + 1)
    return Begin(time + _EPOCH_MICROSECONDS, transaction)


def parse_commit(data: bytes) -> int:
    """Return the position after a transaction."""
    end: int = _COMMIT.unpack_from(data, HEADER_BYTES + 1)[2]
    return end


def parse_keepalive(data: bytes) -> tuple[int, bool]:
    """Return up to where everything has been sent, and whether the server wants an answer."""
    end, _, wants_answer = _KEEPALIVE.unpack_from(data, 1)
    return end, bool(wants_answer)


def status_message(flushed: int, time: int, *, wants_answer: bool) -> bytes:
    """Return the message that tells the server what it may forget."""
    return _STATUS.pack(b"r", flushed, flushed, flushed, time - _EPOCH_MICROSECONDS, wants_answer)


def parse_relation(data: bytes) -> ReplicatedTable:
    """Read the description of a table."""
    oid = _RELATION.unpack_from(data, HEADER_BYTES + 1)[0]
    schema, position = _text(data, HEADER_BYTES + 5)
    table, position = _text(data, position)
    identity, count = chr(data[position]), int.from_bytes(data[position + 1 : position + 3], "big")
    position += 3
    columns = []
    for _ in range(count):
        is_key = bool(data[position] & 1)
        name, position = _text(data, position + 1)
        type_id, modifier = _COLUMN.unpack_from(data, position)
        columns.append(RelationColumn(name, type_id, modifier, is_key))
        position += _COLUMN.size
    return ReplicatedTable(schema or "pg_catalog", table, tuple(columns), oid, identity)


def parse_truncate(data: bytes) -> list[int]:
    """Return the object ids of the truncated tables."""
    count = _RELATION.unpack_from(data, HEADER_BYTES + 1)[0]
    start = HEADER_BYTES + 6
    return [int.from_bytes(data[start + 4 * index : start + 4 * index + 4], "big") for index in range(count)]


def parse_emitted(data: bytes) -> Emitted:
    """Read what ``pg_logical_emit_message`` wrote."""
    flags, _ = _MESSAGE.unpack_from(data, HEADER_BYTES + 1)
    prefix, position = _text(data, HEADER_BYTES + 1 + _MESSAGE.size)
    length = int.from_bytes(data[position : position + 4], "big")
    return Emitted(bool(flags & 1), prefix, data[position + 4 : position + 4 + length])


def parse_start(data: bytes) -> int:
    """Return the place in the log that a message comes from."""
    return int.from_bytes(data[1:9], "big")


def relation_id(data: bytes) -> int:
    """Return the object id of the table of a row message."""
    return int.from_bytes(data[HEADER_BYTES + 1 : HEADER_BYTES + 5], "big")


def _text(data: bytes, position: int) -> tuple[str, int]:
    end = data.index(b"\0", position)
    return data[position:end].decode(), end + 1
