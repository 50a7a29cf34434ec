"""Alert rules and their history, kept in the data directory so that every server of it sees the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from millstream.errors import DefinitionError, UnknownTableError
from millstream.foundation.names import check_name
from millstream.foundation.storage import Environment, open_environment

What = Literal["lag", "late", "dead_letters", "failure", "table"]
_RULES, _HISTORY = "rules", "history"
_MOST_RULES = 100
_MOST_EVENTS = 500
Text = Annotated[str, Meta(max_length=1000)]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to raise an alert, and whom to tell.

    ``lag`` is records that wait, ``late`` and ``dead_letters`` are records within the last minute, ``failure`` is an
    app that failed, and ``table`` is the number in a row, or in its ``field``. All but ``failure`` compare with
    ``limit``.
    """

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    app: Annotated[str, Meta(min_length=1, max_length=200)]
    what: What
    above: bool = True
    limit: Annotated[float, Meta(ge=-1e15, le=1e15)] = 0.0
    table: Annotated[str, Meta(max_length=200)] | None = None
    key: Text | None = None
    field: Text | None = None
    to: Annotated[Text | None, Meta(description="https://… for a webhook, or mailto:NAME@HOST.")] = None

    def checked(self) -> Rule:
        """Return the rule if it can be followed."""
        check_name("alert", self.name)
        check_name("app", self.app)
        if self.what == "table" and (not self.table or not self.key):
            raise DefinitionError("an alert on a table needs a table and a key", hint='give "table" and "key"')
        if self.to is not None and not self.to.startswith(("http://", "https://", "mailto:")):
            raise DefinitionError(f"cannot tell {self.to!r:.80}", hint="give https://… or mailto:NAME@HOST")
        return self


class AlertEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that was raised or that went away, at a wall time in milliseconds."""

    at: int
    rule: str
    app: str
    is_raised: bool
    message: str
    told: str
    """What became of the message: to whom it went, or why it could not."""


class AlertBook:
    """The rules and the history of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.directory = data_dir / "alerts"

    def rules(self) -> list[Rule]:
        """Return all rules by name."""
        return [msgspec.json.decode(data, type=Rule) for _, data in self._all(_RULES)]

    def put(self, rule: Rule) -> None:
        """Store a new rule, or one in the place of another of its name."""
        known = {one.name for one in self.rules()}
        if rule.name not in known and len(known) >= _MOST_RULES:
            raise DefinitionError(f"there are {_MOST_RULES} alerts already", hint="delete one first")
        self._write(_RULES, rule.name.encode(), msgspec.json.encode(rule))

    def delete(self, name: str) -> None:
        """Forget a rule."""
        if not self.is_there or name not in {one.name for one in self.rules()}:
            raise UnknownTableError(f"there is no alert {name!r:.80}", hint="see /api/alerts")
        self._write(_RULES, name.encode(), None)

    def events(self, limit: int = 100) -> list[AlertEvent]:
        """Return what has happened, newest first."""
        found = [msgspec.json.decode(data, type=AlertEvent) for _, data in self._all(_HISTORY)]
        return found[::-1][:limit]

    def note(self, event: AlertEvent) -> None:
        """Add to the history, and let go of what is oldest."""
        keys = [key for key, _ in self._all(_HISTORY)]
        number = int.from_bytes(keys[-1]) + 1 if keys else 1
        self._write(_HISTORY, number.to_bytes(8), msgspec.json.encode(event))
        for key in keys[: max(0, len(keys) + 1 - _MOST_EVENTS)]:
            self._write(_HISTORY, key, None)

    @property
    def is_there(self) -> bool:
        return (self.directory / "data.mdb").exists()

    def _open(self) -> Environment:
        return open_environment(self.directory, (_RULES, _HISTORY))

    def _all(self, database: str) -> list[tuple[bytes, bytes]]:
        if not self.is_there:
            return []
        place = self._open()
        with place.read() as txn, txn.cursor(place.databases[database]) as cursor:
            return list(cursor)

    def _write(self, database: str, key: bytes, value: bytes | None) -> None:
        place = self._open()

        def change(txn: Any) -> None:
            if value is None:
                txn.delete(key, db=place.databases[database])
            else:
                txn.put(key, value, db=place.databases[database])

        place.update(change)
