"""What an alert rule looks at, as a number."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from millstream.errors import MillstreamError
from millstream.foundation.paths import lock_file
from millstream.foundation.storage import FileLock
from millstream.serve.alert_rules import Rule
from millstream.serve.lag import lag_of
from millstream.serve.place import Place
from millstream.tables.typed_keys import find_row

_MINUTE_MS = 60_000


def measured(place: Place, rule: Rule) -> tuple[float | None, str]:
    """Return the number that a rule is about, None if there is none now, and what it means in words."""
    try:
        return _measured(place, rule)
    except MillstreamError as error:
        return None, error.message


def is_met(rule: Rule, number: float | None) -> bool:
    """Whether a number is reason for an alert."""
    if number is None:
        return False
    return number > rule.limit if rule.above else number < rule.limit


def _measured(place: Place, rule: Rule) -> tuple[float | None, str]:
    if rule.what == "table":
        return _row_value(place, rule)
    journal = place.journal(rule.app)
    if rule.what == "lag":
        lag = sum(lag_of(place, journal).values())
        return lag, f"{lag:,} records wait for {rule.app}"
    if rule.what == "failure":
        failure = journal.history.failure()
        runs = FileLock(lock_file(place.data_dir, rule.app)).is_held()
        if failure is None or runs:
            return 0, f"{rule.app} has not failed"
        return 1, f"{rule.app} failed: {failure.message}"
    since = time.time_ns() // 1_000_000 - _MINUTE_MS
    recent = [one for one in journal.history.batches(1000) if one.ended_at >= since]
    if rule.what == "late":
        late = sum(one.late for one in recent)
        return late, f"{late:,} records of {rule.app} were late within a minute"
    letters = sum(one.dead_letters for one in recent)
    return letters, f"{letters:,} records of {rule.app} became dead letters within a minute"


def _row_value(place: Place, rule: Rule) -> tuple[float | None, str]:
    row = find_row(place.tables(rule.app)[rule.table or ""], rule.key or "")
    where = f"{rule.table}[{rule.key}]" + (f".{rule.field}" if rule.field else "")
    if row is None:
        return None, f"{where} is not there"
    value = _inside(row.value, rule.field.split(".") if rule.field else ())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, f"{where} is no number"
    return value, f"{where} is {value:,}"


def _inside(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
