"""Alert rules and their history, stored in the data directory so that every server of it sees the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from millstream.errors import DefinitionError, UnknownTableError
from millstream.foundation.names import check_name
from millstream.foundation.storage import Environment, open_environment
from millstream.foundation.transactions import Transaction

AlertKind = Literal["lag", "late", "dead_letters", "failure", "table"]
_RULES, _HISTORY, _OUTBOX = "rules", "history", "outbox"
_MAX_RULES = 100
_MAX_EVENTS = 500
Text = Annotated[str, Meta(max_length=1000)]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to raise an alert, and where to send it.

    ``lag`` is the number of unread records, ``late`` and ``dead_letters`` count records of the last minute, ``failure``
    is an app that failed, and ``table`` is the number in a row, or in its ``field``. All but ``failure`` are compared
    with ``limit``.
    """

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    app: Annotated[str, Meta(min_length=1, max_length=200)]
    what: AlertKind
    above: bool = True
    limit: Annotated[float, Meta(ge=-1e15, le=1e15)] = 0.0
    table: Annotated[str, Meta(max_length=200)] | None = None
    key: Text | None = None
    field: Text | None = None
    to: Annotated[Text | None, Meta(description="https://… for a webhook, or mailto:NAME@HOST.")] = None

    def checked(self) -> Rule:
        """Return the rule if it is valid."""
        check_name("alert", self.name)
        check_name("app", self.app)
        if self.what == "table" and (not self.table or not self.key):
            raise DefinitionError("an alert on a table needs a table and a key", hint='set "table" and "key"')
        if self.to is not None and not self.to.startswith(("http://", "https://", "mailto:")):
            raise DefinitionError(f"cannot send alerts to {self.to!r:.80}", hint="use https://… or mailto:NAME@HOST")
        return self


class AlertEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that was raised or resolved, at a wall-clock time in milliseconds."""

    at: int
    rule: str
    app: str
    is_raised: bool
    message: str
    delivery: str
    """Where the message was sent, or why sending failed."""


class PendingAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An event that still has to be sent to ``to``; times are wall-clock times in milliseconds."""

    number: int
    """The number of the event in the history."""
    to: str
    attempts: int = 0
    next_at: int = 0
    """The earliest time of the next attempt."""


class _StoredEvent(AlertEvent, frozen=True, kw_only=True):
    """An event as stored on disk, where the names of fields never change."""

    delivery: str = msgspec.field(name="told")


def _encoded(event: AlertEvent) -> bytes:
    return msgspec.json.encode(_StoredEvent(**msgspec.structs.asdict(event)))


def _decoded(data: bytes) -> AlertEvent:
    return AlertEvent(**msgspec.structs.asdict(msgspec.json.decode(data, type=_StoredEvent)))


class AlertStore:
    """The rules and the history of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.directory = data_dir / "alerts"

    def rules(self) -> list[Rule]:
        """Return all rules by name."""
        return [msgspec.json.decode(data, type=Rule) for _, data in self._items(_RULES)]

    def put(self, rule: Rule) -> None:
        """Store a rule; it replaces another of the same name."""
        names = {stored.name for stored in self.rules()}
        if rule.name not in names and len(names) >= _MAX_RULES:
            raise DefinitionError(f"there are already {_MAX_RULES} alerts", hint="delete one first")
        self._write(_RULES, rule.name.encode(), msgspec.json.encode(rule))

    def delete(self, name: str) -> None:
        """Delete a rule."""
        if not self.exists or name not in {rule.name for rule in self.rules()}:
            raise UnknownTableError(f"there is no alert {name!r:.80}", hint="see /api/alerts")
        self._write(_RULES, name.encode(), None)

    def events(self, limit: int = 100) -> list[AlertEvent]:
        """Return the newest events, newest first."""
        newest = self._items(_HISTORY)[::-1][:limit]
        return [_decoded(data) for _, data in newest]

    def add_event(self, event: AlertEvent, to: str | None = None) -> None:
        """Add an event to the history, and in the same commit to the events that have to be sent, if ``to`` is given.

        The oldest events are deleted if there are too many, but not if they still have to be sent.
        """
        keys, unsent = [key for key, _ in self._items(_HISTORY)], {key for key, _ in self._items(_OUTBOX)}
        key = (int.from_bytes(keys[-1]) + 1 if keys else 1).to_bytes(8)
        old = [key for key in keys[: max(0, len(keys) + 1 - _MAX_EVENTS)] if key not in unsent]
        env = self._open()

        def change(txn: Transaction) -> None:
            txn.put(key, _encoded(event), db=env.databases[_HISTORY])
            if to is not None:
                pending = PendingAlert(number=int.from_bytes(key), to=to)
                txn.put(key, msgspec.json.encode(pending), db=env.databases[_OUTBOX])
            for old_key in old:
                txn.delete(old_key, db=env.databases[_HISTORY])

        env.update(change)

    def pending(self) -> list[tuple[PendingAlert, AlertEvent]]:
        """Return the events that have to be sent, in the order in which they happened."""
        events = dict(self._items(_HISTORY))
        return [
            (msgspec.json.decode(data, type=PendingAlert), _decoded(events[key]))
            for key, data in self._items(_OUTBOX)
            if key in events
        ]

    def set_delivery(self, pending: PendingAlert, event: AlertEvent, *, is_settled: bool) -> None:
        """Store the outcome of an attempt in the history; the event has no further attempts if it is settled."""
        env, key = self._open(), pending.number.to_bytes(8)

        def change(txn: Transaction) -> None:
            txn.put(key, _encoded(event), db=env.databases[_HISTORY])
            if is_settled:
                txn.delete(key, db=env.databases[_OUTBOX])
            else:
                txn.put(key, msgspec.json.encode(pending), db=env.databases[_OUTBOX])

        env.update(change)

    @property
    def exists(self) -> bool:
        return (self.directory / "data.mdb").exists()

    def _open(self) -> Environment:
        return open_environment(self.directory, (_RULES, _HISTORY, _OUTBOX))

    def _items(self, database: str) -> list[tuple[bytes, bytes]]:
        if not self.exists:
            return []
        env = self._open()
        with env.read() as txn, txn.cursor(env.databases[database]) as cursor:
            return list(cursor)

    def _write(self, database: str, key: bytes, value: bytes | None) -> None:
        env = self._open()

        def change(txn: Transaction) -> None:
            if value is None:
                txn.delete(key, db=env.databases[database])
            else:
                txn.put(key, value, db=env.databases[database])

        env.update(change)
