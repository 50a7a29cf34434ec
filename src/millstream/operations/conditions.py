"""The value that an alert rule compares with its limit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from millstream.batch.connector_status import connector_statuses
from millstream.errors import MillstreamError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import lock_file
from millstream.operations.data_directory import DataDirectory
from millstream.operations.lag import lag_of
from millstream.operations.rules import Rule
from millstream.tables.typed_keys import find_row

_MINUTE_MS = 60_000
_ATTEMPTS = 3
"""After this many attempts, a source or sink that goes on trying counts as failed."""


def rule_value(directory: DataDirectory, rule: Rule) -> tuple[float | None, str]:
    """Return the current value of a rule, None if there is none, and a message that states it."""
    try:
        return _value(directory, rule)
    except MillstreamError as error:
        return None, error.message


def is_met(rule: Rule, value: float | None) -> bool:
    """Whether a value is beyond the limit of its rule."""
    if value is None:
        return False
    return value > rule.limit if rule.above else value < rule.limit


def _value(directory: DataDirectory, rule: Rule) -> tuple[float | None, str]:
    if rule.what == "table":
        return _row_value(directory, rule)
    journal = directory.journal(rule.app)
    if rule.what == "lag":
        lag = sum(lag_of(directory, journal).values())
        return lag, f"{rule.app} has a lag of {lag:,} records"
    if rule.what == "failure":
        return _failure(directory, rule.app)
    since = time.time_ns() // 1_000_000 - _MINUTE_MS
    recent = [batch for batch in journal.history.batches(1000) if batch.ended_at >= since]
    if rule.what == "late":
        late = sum(batch.late for batch in recent)
        return late, f"{rule.app} had {late:,} late records in the last minute"
    dead_letters = sum(batch.dead_letters for batch in recent)
    return dead_letters, f"{rule.app} had {dead_letters:,} dead letters in the last minute"


def _failure(directory: DataDirectory, app: str) -> tuple[float, str]:
    """Return 1 if an app has ended with an error, or one of its sources and sinks fails again and again."""
    if not FileLock(lock_file(directory.path, app)).is_held():
        failure = directory.journal(app).history.failure()
        return (0, f"{app} has not failed") if failure is None else (1, f"{app} failed: {failure.message}")
    for connector in connector_statuses(directory.path, app):
        if connector.failure is not None and connector.failure.attempts >= _ATTEMPTS:
            return 1, f"{connector.name} of {app} fails: {connector.failure.message}"
    return 0, f"{app} has not failed"


def _row_value(directory: DataDirectory, rule: Rule) -> tuple[float | None, str]:
    row = find_row(directory.tables(rule.app)[rule.table or ""], rule.key or "")
    name = f"{rule.table}[{rule.key}]" + (f".{rule.field}" if rule.field else "")
    if row is None:
        return None, f"{name} does not exist"
    value = _nested(row.value, rule.field.split(".") if rule.field else ())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, f"{name} is not a number"
    return value, f"{name} is {value:,}"


def _nested(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
