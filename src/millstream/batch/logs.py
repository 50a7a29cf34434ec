"""Log one line per batch: an event, then its facts as ``name=value``; the facts are also in ``record.facts``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from millstream.batch.report import BatchReport

_log = logging.getLogger("millstream.batch")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:")


def log_batch(app: str, report: BatchReport) -> None:
    """Log a batch at level info."""
    if _log.isEnabledFor(logging.INFO):
        log_event(_log, logging.INFO, "batch done", batch_facts(app, report))


def log_event(log: logging.Logger, level: int, event: str, facts: Mapping[str, Any]) -> None:
    """Log an event with its facts."""
    text = " ".join(_fact(name, value) for name, value in facts.items())
    log.log(level, "%s %s", event, text, extra={"event": event, "facts": facts})


def batch_facts(app: str, report: BatchReport) -> dict[str, Any]:
    """Return the facts that are logged of a batch; times in milliseconds."""
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
    r"""Return a fact as text; a value with spaces or line breaks becomes a JSON string.

    >>> _fact("app", "words"), _fact("error", "two\nlines")
    ('app=words', 'error="two\\nlines"')
    """
    text = str(value)
    return f"{name}={text}" if text and _PLAIN.issuperset(text) else f"{name}={msgspec.json.encode(text).decode()}"
