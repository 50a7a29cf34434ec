"""Suppression: how long changes of a table are held back, and what happens when the buffer is full."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError

WhenFull: TypeAlias = Literal["emit_early", "shut_down"]


class UntilWindowCloses(msgspec.Struct, frozen=True, tag="until_window_closes"):
    """Hold back the result of each window until it can no longer change."""

    max_records: int | None = None
    max_bytes: int | None = None
    when_full: WhenFull = "shut_down"


class UntilTimeLimit(msgspec.Struct, frozen=True, tag="until_time_limit"):
    """Hold back changes of a row for ``wait`` milliseconds after the first of them; then pass on the last one."""

    wait: int
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: WhenFull = "emit_early"


Suppression: TypeAlias = UntilWindowCloses | UntilTimeLimit


def until_window_closes(*, max_records: int | None = None, max_bytes: int | None = None) -> UntilWindowCloses:
    """Pass on one result per window, when it has closed. If a limit of the buffer is reached, the app stops."""
    _check_limits(max_records, max_bytes)
    return UntilWindowCloses(max_records, max_bytes)


def until_time_limit(
    wait: Duration,
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    when_full: WhenFull = "emit_early",
) -> UntilTimeLimit:
    """Pass on at most one change per row and ``wait`` of stream time.

    If a limit of the buffer is reached, the oldest rows are passed on early, or with ``"shut_down"`` the app stops.
    """
    _check_limits(max_records, max_bytes)
    if when_full not in ("emit_early", "shut_down"):
        raise DefinitionError(f"when_full={when_full!r} is unknown", hint='use "emit_early" or "shut_down"')
    return UntilTimeLimit(milliseconds(wait), max_records, max_bytes, when_full)


def _check_limits(max_records: int | None, max_bytes: int | None) -> None:
    for name, limit in (("max_records", max_records), ("max_bytes", max_bytes)):
        if limit is not None and limit < 0:
            raise DefinitionError(f"{name}={limit} is not valid", hint="use 0 or more, or omit it for no limit")
