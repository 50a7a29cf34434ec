"""The events of alerts, as they are in the topic ``APP.alerts``: one per change of status, the last one by key counts.

The format is stable: fields are added with a default, and never renamed or removed.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

AlertStatus: TypeAlias = Literal["pending", "firing", "resolved"]
Reason: TypeAlias = Literal["condition", "missing data", "deleted"]


class AlertEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alert that became pending, firing or resolved; times are in milliseconds since 1970.

    Its key in the topic is ``ALERT/KEY``. A tombstone means that a pending alert did not last.
    """

    alert: str
    app: str
    key: str | None
    """The key of the stream or table as text."""
    status: AlertStatus
    labels: dict[str, str]
    """Names the alert for groups and silences: ``alertname``, ``app``, ``key`` and those of the user."""
    since: int
    """Since when the condition holds."""
    fired: int | None = None
    """Since when the alert is firing."""
    resolved: int | None = None
    reason: Reason = "condition"
    """Why the status changed."""
    summary: str = ""
    value: Any = None
    """The value of the last record for which the condition held."""

    @property
    def id(self) -> str:
        """The key of the event in the topic."""
        return event_key(self.alert, self.key)


def event_key(alert: str, key: str | None) -> str:
    """Return the key of an alert's events."""
    return alert if key is None else f"{alert}/{key}"


def alerts_topic(app: str) -> str:
    """Return the topic with the alerts of an app."""
    return f"{app}.alerts"


def silences_topic(app: str) -> str:
    """Return the topic with the silences of an app."""
    return f"{app}.silences"
