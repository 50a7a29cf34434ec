"""Notifications: the alerts of a group, in the format of Alertmanager's webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cmp_to_key
from typing import Literal

import msgspec

from millstream.alerts.events import AlertEvent

_ZERO_TIME = "0001-01-01T00:00:00Z"
_FNV_OFFSET, _FNV_PRIME, _SEPARATOR = 14695981039346656037, 1099511628211, b"\xff"


class NotifiedAlert(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An alert in a notification."""

    status: Literal["firing", "resolved"]
    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str
    generator_url: str = msgspec.field(default="", name="generatorURL")
    fingerprint: str


class Notification(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The alerts of a group at one time: firing if one of them is.

    ``title`` and ``str()`` are for people, for example in templates: ``Slack(url, text="{value}")``.
    """

    version: str = "4"
    group_key: str
    truncated_alerts: int = 0
    status: Literal["firing", "resolved"]
    receiver: str
    group_labels: dict[str, str]
    common_labels: dict[str, str]
    common_annotations: dict[str, str]
    external_url: str = msgspec.field(default="", name="externalURL")
    alerts: tuple[NotifiedAlert, ...]

    @property
    def title(self) -> str:
        """One line: status, the number of firing alerts, and the labels of the group."""
        firing = sum(alert.status == "firing" for alert in self.alerts)
        status = f"FIRING:{firing}" if firing else "RESOLVED"
        names = " ".join(self.group_labels.values()) or self.common_labels.get("alertname", self.receiver)
        return f"[{status}] {names}"

    def __str__(self) -> str:
        return "\n".join([self.title, *(_line(alert) for alert in self.alerts)])


def notification(receiver: str, group_labels: dict[str, str], events: Iterable[AlertEvent]) -> Notification:
    """Return the notification of some alerts, in the order of Alertmanager."""
    alerts = tuple(_notified(event) for event in events)
    is_firing = any(alert.status == "firing" for alert in alerts)
    return Notification(
        group_key=group_key(group_labels),
        status="firing" if is_firing else "resolved",
        receiver=receiver,
        group_labels=group_labels,
        common_labels=_common([alert.labels for alert in alerts]),
        common_annotations=_common([alert.annotations for alert in alerts]),
        alerts=alerts,
    )


def in_order(events: Iterable[AlertEvent]) -> list[AlertEvent]:
    """Return alerts by job, instance and then all labels, as Alertmanager sorts them."""
    return sorted(events, key=_order)


def group_key(labels: Mapping[str, str]) -> str:
    """Return the name of a group: its labels.

    >>> group_key({"hall": "A", "app": "heat"})
    '{}:{app="heat", hall="A"}'
    """
    quoted = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in sorted(labels.items()))
    return f"{{}}:{{{', '.join(quoted)}}}"


def fingerprint(labels: Mapping[str, str]) -> str:
    """Return the hash of labels by which Prometheus and Alertmanager know an alert.

    >>> fingerprint({})
    'cbf29ce484222325'
    """
    total = _FNV_OFFSET
    for name, value in sorted(labels.items()):
        for byte in name.encode() + _SEPARATOR + value.encode() + _SEPARATOR:
            total = (total ^ byte) * _FNV_PRIME % 2**64
    return f"{total:016x}"


def _notified(event: AlertEvent) -> NotifiedAlert:
    return NotifiedAlert(
        status="resolved" if event.status == "resolved" else "firing",
        labels=event.labels,
        annotations={"summary": event.summary} if event.summary else {},
        starts_at=_time(event.fired),
        ends_at=_time(event.resolved),
        fingerprint=fingerprint(event.labels),
    )


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return _ZERO_TIME
    text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _common(labels: list[dict[str, str]]) -> dict[str, str]:
    first, *others = labels or [{}]
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _line(alert: NotifiedAlert) -> str:
    names = ", ".join(f"{name}={value}" for name, value in sorted(alert.labels.items()))
    return f"{alert.status}: {alert.annotations.get('summary') or names}"


def _compare(event: AlertEvent, other: AlertEvent) -> int:
    left, right = event.labels, other.labels
    for name in ("job", "instance"):
        if (name in left) != (name in right):
            return -1 if name in left else 1
        if name in left and left[name] != right[name]:
            return -1 if left[name] < right[name] else 1
    if len(left) != len(right):
        return -1 if len(left) < len(right) else 1
    for name in sorted({*left, *right}):
        if name not in left or name not in right:
            return -1 if name in right else 1
        if left[name] != right[name]:
            return -1 if left[name] < right[name] else 1
    return 0


_order = cmp_to_key(_compare)
