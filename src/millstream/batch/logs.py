"""One line per batch in the log: its event, then facts as ``name=value``; as data in ``record.facts`` too."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from millstream.batch.report import BatchReport

_log = logging.getLogger("millstream.batch")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:")


def log_batch(app: str, report: BatchReport) -> None:
    """Tell of a batch at level info."""
    if _log.isEnabledFor(logging.INFO):
        event(_log, logging.INFO, "batch done", facts_of(app, report))


def event(log: logging.Logger, level: int, name: str, facts: Mapping[str, Any]) -> None:
    """Log an event with its facts."""
    log.log(level, "%s %s", name, " ".join(_fact(*one) for one in facts.items()), extra={"event": name, "facts": facts})


def facts_of(app: str, report: BatchReport) -> dict[str, Any]:
    """Return what a line tells of a batch; times in milliseconds."""
    phases = msgspec.structs.asdict(report.phases)
    return {
        "app": app,
        "batch": report.plan.number,
        "in": report.records_in,
        "out": report.records_out,
        "late": report.late,
        "dropped": sum(report.dropped.values()),
        "dead_letters": report.dead_letters,
        "lag": sum(report.lag.values()),
        "ms": round(report.seconds * 1000, 1),
        **{f"{phase}_ms": round(seconds * 1000, 1) for phase, seconds in phases.items()},
    }


def _fact(name: str, value: Any) -> str:
    r"""Return a fact as text that cannot break out of its line.

    >>> _fact("app", "words"), _fact("error", "two\nlines")
    ('app=words', 'error="two\\nlines"')
    """
    text = str(value)
    return f"{name}={text}" if text and _PLAIN.issuperset(text) else f"{name}={msgspec.json.encode(text).decode()}"
