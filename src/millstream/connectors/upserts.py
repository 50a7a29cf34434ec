"""The last record of each key, for targets that keep one row for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.connect.protocols import Rejected
from millstream.connectors.rendering import rejected
from millstream.errors import SerdeError
from millstream.foundation.json_text import key_text
from millstream.records import Record


def latest_by_key(records: Sequence[Record[Any, Any]]) -> tuple[list[Record[Any, Any]], list[Rejected]]:
    """Return the last record of each key as text, and those that have no key."""
    latest: dict[str, Record[Any, Any]] = {}
    problems = []
    for record in records:
        try:
            if record.key is None:
                raise SerdeError("the record has no key", hint="set one with select_key")
            latest[key_text(record.key)] = record
        except SerdeError as error:
            problems.append(rejected(record, error))
    return list(latest.values()), problems
