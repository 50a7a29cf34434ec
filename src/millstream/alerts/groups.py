"""Groups of alerts and when they are notified: the rules of Alertmanager, as functions of the time.

A group waits ``group_wait`` for further alerts before its first notification, and ``group_interval`` between the next
ones. It is notified if an alert fires that was not in the last notification, if alerts are resolved, or if nothing has
changed for ``repeat_interval``. What begins and ends between two looks is not notified.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from millstream.alerts.events import AlertEvent
from millstream.alerts.notifications import Notification, in_order, notification
from millstream.alerts.silences import Silence, is_silenced

ALL_LABELS = "..."


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """How alerts are grouped and how often groups are notified; times are in milliseconds."""

    receiver: str
    group_by: tuple[str, ...] = ("alertname",)
    """The labels whose values are equal within a group; ``...`` means all labels."""
    group_wait: int = 30_000
    group_interval: int = 300_000
    repeat_interval: int = 4 * 3_600_000
    send_resolved: bool = True

    def labels_of(self, event: AlertEvent) -> dict[str, str]:
        """Return the labels of the group of an alert; a label that it does not have is left out."""
        names = event.labels if ALL_LABELS in self.group_by else self.group_by
        return {name: event.labels[name] for name in sorted(names) if name in event.labels}


class LastSent(msgspec.Struct, frozen=True, kw_only=True):
    """The last notification of a group: when it was, and which alerts were firing and resolved."""

    at: int
    firing: frozenset[str]
    resolved: frozenset[str]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts that are notified together; times are on the wall clock, in milliseconds."""

    labels: dict[str, str]
    due: int
    """When the group is looked at next."""
    alerts: dict[str, AlertEvent] = {}
    """The firing alerts, and the resolved ones since the last look, by the key of their events."""
    has_flushed: bool = False
    sent: LastSent | None = None


def insert(group: Group | None, event: AlertEvent, route: Route, now: int) -> Group:
    """Return a group with an alert that fires or is resolved, a new one if there is none."""
    if group is None:
        group = Group(labels=route.labels_of(event), due=now + route.group_wait)
    alerts = {**group.alerts, event.id: event}
    has_waited = not group.has_flushed and (event.fired or 0) + route.group_wait < now
    return msgspec.structs.replace(group, alerts=alerts, due=now if has_waited else group.due)


def flush(
    group: Group, route: Route, now: int, silences: Iterable[Silence]
) -> tuple[Group | None, Notification | None]:
    """Look at a group that is due; return it, None if it is over, and the notification to send, if there is one."""
    active = [silence for silence in silences if silence.is_active(now)]
    audible = in_order(event for event in group.alerts.values() if not is_silenced(event.labels, active, now))
    firing = frozenset(event.id for event in audible if event.status == "firing")
    resolved = frozenset(event.id for event in audible if event.status == "resolved")
    sent, message = group.sent, None
    if audible and _needs_notification(group.sent, firing, resolved, route, now):
        sent = LastSent(at=now, firing=firing, resolved=resolved)
        shown = audible if route.send_resolved else [event for event in audible if event.status == "firing"]
        if shown:
            message = notification(route.receiver, group.labels, shown)
    left: dict[str, AlertEvent] = {key: event for key, event in group.alerts.items() if event.status == "firing"}
    if not left:  # the next alert is that of a new group, which waits for further ones
        return None, message
    due = now + route.group_interval
    return msgspec.structs.replace(group, alerts=left, sent=sent, has_flushed=True, due=due), message


def _needs_notification(
    sent: LastSent | None, firing: frozenset[str], resolved: frozenset[str], route: Route, now: int
) -> bool:
    if sent is None:
        return bool(firing)
    if not firing <= sent.firing:
        return True
    if not firing:
        return bool(sent.firing)
    if route.send_resolved and not resolved <= sent.resolved:
        return True
    return sent.at < now - route.repeat_interval


def silences_in(rows: Iterable[tuple[Any, Silence]]) -> list[Silence]:
    """Return the silences of a table's rows."""
    return [silence for _, silence in rows]
