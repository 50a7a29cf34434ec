"""Events for tests."""

from __future__ import annotations

from millstream.alerts.events import AlertEvent


def sample_event(key: str, *, fired: int, resolved: int | None = None) -> AlertEvent:
    """Return the event of an alert ``hot`` that fires or is resolved."""
    return AlertEvent(
        alert="hot",
        app="test",
        key=key,
        status="firing" if resolved is None else "resolved",
        labels={"alertname": "hot", "key": key},
        since=fired,
        fired=fired,
        resolved=resolved,
    )
