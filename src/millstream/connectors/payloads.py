"""Read key, time, id and deletion of a record from the JSON payload in which another system sends it."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import msgspec

from millstream.errors import ConnectorError
from millstream.foundation.blocks import Block, block_of
from millstream.foundation.json_text import key_text
from millstream.foundation.typed_decoding import decode_json
from millstream.records import Headers

_MISSING = object()


class RecordFields(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of fields in a payload, such as ``order.id``; a payload without such a field is taken without it."""

    key: str | None = None
    timestamp: str | None = None
    """Milliseconds since 1970, or text of ISO 8601."""
    id: str | None = None
    """What makes two payloads the same message."""
    deleted: str | None = None
    """If the field is true, the record is a tombstone of its key."""

    @property
    def is_empty(self) -> bool:
        """Whether no payload has to be decoded."""
        return not (self.key or self.timestamp or self.id or self.deleted)


class Payload(msgspec.Struct, frozen=True):
    """A payload as a record, and the id of its message."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    id: str | None = None


def value_at(document: Any, path: str) -> Any:
    """Return the value at a path of names and numbers, None if there is none.

    >>> value_at({"orders": [{"id": 7}]}, "orders.0.id")
    7
    """
    for name in path.split("."):
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, list) and name.isascii() and name.isdigit() and int(name) < len(document):
            document = document[int(name)]
        else:
            return None
    return document


def read_payload(value: bytes, fields: RecordFields, now: int) -> Payload:
    """Return a payload as a record; one that is not JSON has no fields, and the consumer's error policy applies."""
    document = _MISSING
    if not fields.is_empty:
        try:
            document = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            document = _MISSING
    return Payload(None, value, now) if document is _MISSING else document_payload(document, value, fields, now)


def document_payload(document: Any, value: bytes, fields: RecordFields, now: int) -> Payload:
    """Return a decoded payload as a record."""

    def field(path: str | None) -> Any:
        return None if path is None else value_at(document, path)

    key, message = field(fields.key), field(fields.id)
    return Payload(
        key=None if key is None else key_text(key).encode(),
        value=None if key is not None and field(fields.deleted) is True else value,
        timestamp=_milliseconds(field(fields.timestamp), now),
        id=None if message is None else key_text(message),
    )


def block_of_payloads(payloads: list[Payload], headers: list[Headers] | None = None) -> Block:
    """Return payloads as a block of records."""
    return block_of(
        [payload.key for payload in payloads],
        [payload.value for payload in payloads],
        [payload.timestamp for payload in payloads],
        headers,
    )


def now_milliseconds() -> int:
    """Return the time of this host."""
    return time.time_ns() // 1_000_000


def decoded_position(data: bytes, kind: type[Any], what: str) -> Any:
    """Read a position that the same source has written, perhaps in another version."""
    try:
        return decode_json(data, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConnectorError(
            f"the position is not one of {what}: {error}",
            hint="look at: millstream connect positions NAME; give the source another name to begin again",
        ) from error


def _milliseconds(value: Any, now: int) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 53:
        return int(value)
    if isinstance(value, str):
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            return now
        return round((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)
    return now
