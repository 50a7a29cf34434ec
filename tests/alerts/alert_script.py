"""The script of alerts and silences that Millstream and Alertmanager both run.

time    0    1    2    3    4    5    6    7    8    9   in units; an event is half a unit away from the looks
looks        x         x         x         x         x   group_wait is 1, group_interval 2, repeat_interval 5
"""

from __future__ import annotations

from typing import Any, NamedTuple

from millstream.alerts.notifications import fingerprint

LOOKS = 5
GROUP_WAIT, GROUP_INTERVAL, REPEAT_INTERVAL = 1, 2, 5


class Change(NamedTuple):
    at: float
    """In units."""
    group: str
    alert: str
    fires: bool

    @property
    def key(self) -> str:
        return f"{self.group}-{self.alert}"

    @property
    def labels(self) -> dict[str, str]:
        return {"alertname": "load", "app": "am", "key": self.key, "group": self.group}


class Silencing(NamedTuple):
    matchers: tuple[str, ...]
    ends: float | None
    """When it is ended by hand, in units."""


CHANGES = sorted(
    [
        Change(0.0, "resolved", "a", True),  # fires, and is resolved later
        Change(3.5, "resolved", "a", False),
        Change(0.0, "short", "a", True),  # resolved before group_wait is over: no notification
        Change(0.5, "short", "a", False),
        Change(0.0, "second", "a", True),  # a second alert of the group is notified with the first one
        Change(2.0, "second", "b", True),
        Change(0.0, "partly", "a", True),  # one of two is resolved
        Change(0.0, "partly", "b", True),
        Change(2.0, "partly", "a", False),
        Change(0.0, "between", "a", True),  # b begins and ends between two looks
        Change(1.5, "between", "b", True),
        Change(2.5, "between", "b", False),
        Change(0.0, "unchanged", "a", True),  # repeated after repeat_interval
        Change(0.0, "silenced", "a", True),  # notified when the silence is over
        Change(0.0, "hidden", "a", True),  # a is silenced, b is not
        Change(0.0, "hidden", "b", True),
        Change(0.0, "again", "a", True),  # resolved and firing again before the next look
        Change(1.5, "again", "a", False),
        Change(2.5, "again", "a", True),
    ],
    key=lambda change: change.at,
)
SILENCES = (Silencing(("group=silenced",), 4.0), Silencing(("group=~hid.*", "key!=hidden-b"), None))

Notified = dict[str, list[tuple[int, str, list[tuple[str, str, str]]]]]
"""By group: the number of the look, the status, and the status, key and fingerprint of each alert."""


def look_after(at: float) -> int:
    """Return the number of the look that sees what happens at a time, the first one is 1."""
    return 1 + sum(at > GROUP_WAIT + number * GROUP_INTERVAL for number in range(LOOKS))


def alerts_at_looks(group: str) -> list[dict[str, str]]:
    """Return what each look finds in a group: alerts that fire, and those that were resolved since the last look.

    The alerts are named as in the log of Alertmanager. Looks at a group without alerts are left out.
    """
    looks: list[dict[str, str]] = []
    alerts: dict[str, str] = {}
    for number in range(1, LOOKS + 1):
        for change in CHANGES:
            if change.group == group and look_after(change.at) == number:
                alerts[fingerprint(change.labels)[:7]] = "active" if change.fires else "resolved"
        if alerts:
            looks.append(dict(alerts))
        alerts = {name: status for name, status in alerts.items() if status == "active"}
    return looks


def add(sent: Notified, look: int, notification: dict[str, Any]) -> None:
    """Add a notification; where both must agree apart from the time, and where only a part is compared."""
    labels = [alert["labels"] for alert in notification["alerts"]]
    group = notification["groupLabels"]["group"]
    assert notification["groupKey"] == group_key(group)
    assert notification["receiver"] == "people"
    assert notification["version"] == "4"
    assert notification["commonLabels"] == dict(set.intersection(*(set(each.items()) for each in labels)))
    alerts = [(alert["status"], alert["labels"]["key"], alert["fingerprint"]) for alert in notification["alerts"]]
    sent.setdefault(group, []).append((look, notification["status"], alerts))


def group_key(group: str) -> str:
    return f'{{}}:{{group="{group}"}}'
