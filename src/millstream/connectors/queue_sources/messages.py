"""Messages that a broker delivers again until they are acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from millstream.connect.protocols import Intake
from millstream.connectors.payloads import Payload, RecordFields, block_of_payloads, now_milliseconds, read_payload
from millstream.connectors.seen_ids import SeenIds
from millstream.records import Headers

MOST = 1_000
"""How many messages are taken at a time."""


class QueueMessage(NamedTuple):
    """A message as the broker has delivered it."""

    body: bytes
    key: str | None
    """The key if no field of the payload is one."""
    id: str | None
    """The id that the broker or the sender has given it."""
    timestamp: int | None
    headers: Headers


def intake_of(topic: str, messages: Sequence[QueueMessage], fields: RecordFields, seen: SeenIds) -> Intake | None:
    """Return the messages whose ids are new; None if there are none, and then all of them are durable."""
    now = now_milliseconds()
    payloads: list[Payload] = []
    headers: list[Headers] = []
    for message in messages:
        payload = _payload(message, fields, now)
        if payload.id is None or seen.add(payload.id):
            payloads.append(payload)
            headers.append(message.headers)
    if not payloads:
        return None
    block = block_of_payloads(payloads, headers if any(headers) else None)
    return Intake(records={topic: block}, position=msgspec.json.encode(seen.stored()))


def _payload(message: QueueMessage, fields: RecordFields, now: int) -> Payload:
    """Return a message as a record; an empty one with a key is a tombstone."""
    given = read_payload(message.body, fields, now if message.timestamp is None else message.timestamp)
    key = given.key if given.key is not None or message.key is None else message.key.encode()
    value = given.value or (None if key is not None else b"")
    return Payload(key, value, given.timestamp, given.id or message.id)
