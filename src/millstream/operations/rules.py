"""Alert rules over numbers of the operation, stored in the data directory so that every process on it sees the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from millstream.errors import DefinitionError, UnknownTableError
from millstream.foundation.content import ALERT_RULES
from millstream.foundation.names import check_name
from millstream.foundation.storage import Environment, open_environment
from millstream.foundation.transactions import Transaction
from millstream.foundation.typed_decoding import decode_json

AlertKind = Literal["lag", "late", "dead_letters", "failure", "table"]
_RULES = "rules"
_MAX_RULES = 100
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
        if self.to is not None and not _is_target(self.to):
            raise DefinitionError(f"cannot send alerts to {self.to!r:.80}", hint="use https://… or mailto:NAME@HOST")
        return self


def _is_target(to: str) -> bool:
    """Whether a text is a web address with a host, or a mail address."""
    if to.startswith("mailto:"):
        return "@" in to and to.isprintable()
    try:
        parts = urlsplit(to)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # of an address in brackets, or of a port
        return False


class RuleStore:
    """The rules of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.directory = data_dir / "alerts"

    def rules(self) -> list[Rule]:
        """Return all rules by name."""
        return [decode_json(data, Rule) for _, data in self._items(_RULES)]

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

    @property
    def exists(self) -> bool:
        return (self.directory / "data.mdb").exists()

    def _open(self) -> Environment:
        return open_environment(self.directory, (_RULES,), content=ALERT_RULES)

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
