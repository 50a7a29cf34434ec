"""Alerts and their notifications: processors with stores and timers, which get their records by key."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.plan.processors import Process


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alert(Process):
    """Evaluate the condition of an alert for each key, and forward an event when its status changes."""

    alert: str
    severity: str | None = None
    lasting: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Notify(Process):
    """Group alerts, and forward the notifications of each group when they are due."""

    group_by: tuple[str, ...]
    group_wait: int
    group_interval: int
    repeat_interval: int


ALERTS = (Alert, Notify)
