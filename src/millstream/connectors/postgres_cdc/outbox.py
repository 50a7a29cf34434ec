"""Records that applications put into their own transactions: by a message in the log, or in an outbox table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from millstream.connectors.change_data.changes import TableChanges
from millstream.connectors.change_data.relation import INSERT
from millstream.connectors.postgres_cdc.messages import Emitted
from millstream.errors import ConnectorError
from millstream.foundation.blocks import Block, block_of
from millstream.records import Headers

PREFIX = "millstream:"


class Envelope(msgspec.Struct, array_like=True, frozen=True):
    """What ``emit`` writes into the log."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Envelope).decode


def emit(
    cursor: Any, topic: str, key: str | bytes | None, value: Any, *, headers: Mapping[str, str] | None = None
) -> None:
    """Write a record to a topic as part of the current transaction, without a table.

    The source reads it from the log if its ``messages`` include the topic. Rolled back with the transaction. Bytes are
    written as they are, texts as UTF-8, and other values as JSON. ``cursor`` is any cursor of DB-API 2.
    """
    pairs = tuple((name, text.encode()) for name, text in (headers or {}).items())
    content = _encode(Envelope(_plain(key), _plain(value), pairs))
    cursor.execute("SELECT pg_logical_emit_message(true, %s, %s::bytea)", (PREFIX + topic, "\\x" + content.hex()))


def _plain(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def emitted_record(emitted: Emitted) -> tuple[str, Envelope]:
    """Return the topic and the record of a message; one that ``emit`` has not written is a value without a key."""
    topic = emitted.prefix.removeprefix(PREFIX)
    try:
        return topic, _decode(emitted.content)
    except msgspec.MsgspecError:
        return topic, Envelope(None, emitted.content)


class OutboxTable(msgspec.Struct, frozen=True, kw_only=True):
    """An outbox table as Debezium's event router reads it: id, aggregatetype, aggregateid, type and payload.

    Each inserted row is a record: ``topic`` names its topic, where ``{type}`` is its ``aggregatetype``; ``aggregateid``
    is the key, ``payload`` the value, and the header ``id`` has the id of the row. Updates and deletes are ignored, so
    that rows can be deleted at once.
    """

    table: str
    types: tuple[str, ...]
    """The values of ``aggregatetype``, whose topics are created."""
    topic: str = "outbox.event.{type}"

    def blocks(self, changes: TableChanges) -> dict[str, Block]:
        """Return the records of inserted rows by topic."""
        names = [column.name for column in changes.relation.columns]
        missing = {"id", "aggregatetype", "aggregateid", "payload"} - set(names)
        if missing:
            raise ConnectorError(
                f"outbox table {self.table} has no column {min(missing)!r}",
                hint="add it, as Debezium's layout has it",
            )
        records: dict[str, list[tuple[bytes | None, bytes | None, int, Headers]]] = {}
        for index, operation in enumerate(changes.operations.tolist()):
            if operation == INSERT:
                row = dict(zip(names, changes.cells.row(index), strict=True))
                topic = self.topic.format(type=(row["aggregatetype"] or b"").decode())
                headers: Headers = (("id", row["id"] or b""),)
                time = int(changes.times[index]) // 1000
                records.setdefault(topic, []).append((row["aggregateid"], row["payload"], time, headers))
        return {topic: block_of(*(list(part) for part in zip(*rows, strict=True))) for topic, rows in records.items()}
