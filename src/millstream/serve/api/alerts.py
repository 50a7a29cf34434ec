"""Alerts: rules, their status, and the events of all apps."""

from __future__ import annotations

import msgspec

from millstream.alerts.events import AlertEvent
from millstream.alerts.notifications import Notification, notification
from millstream.broker import Broker
from millstream.operations.alert_topics import ReadBudget, alert_apps, current_alerts, recent_events
from millstream.operations.alert_watch import AlertStatus
from millstream.operations.rules import Rule
from millstream.operations.targets import send_once
from millstream.serve.api.params import Name, ShortText
from millstream.serve.api.topics import Deletion, Done, not_confirmed
from millstream.serve.operations import Operation
from millstream.serve.site import Site

_MAX_EVENTS = 100
_READ_BYTES, _READ_SECONDS = 32 << 20, 2.0


class AlertOverview(msgspec.Struct, frozen=True, kw_only=True):
    """All rules, the alerts of all apps that are pending or firing, and the newest events, newest first."""

    rules: list[AlertStatus]
    active: list[AlertEvent]
    events: list[AlertEvent]
    is_complete: bool = True
    """False if there were too many events to read all: then alerts that have not changed for long can be missing."""


class AlertParams(msgspec.Struct, frozen=True, kw_only=True):
    alert: Name


class TestMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of a test message."""

    message: ShortText = "this is a test"


def list_alerts(site: Site, _: object = None) -> AlertOverview:
    """Return all rules, active alerts and the newest events."""

    budget = ReadBudget(size=_READ_BYTES, seconds=_READ_SECONDS)

    def read(broker: Broker) -> tuple[list[AlertEvent], list[AlertEvent]]:
        apps = alert_apps(broker)
        events = [event for app in apps for event in recent_events(broker, app, _MAX_EVENTS, budget)]
        active = [event for app in apps for event in current_alerts(broker, app, budget) if event.status != "resolved"]
        return active, sorted(events, key=_time, reverse=True)[:_MAX_EVENTS]

    nothing: tuple[list[AlertEvent], list[AlertEvent]] = ([], [])
    active, events = site.directory.query_broker(read, nothing)
    return AlertOverview(rules=site.watch.statuses(), active=active, events=events, is_complete=not budget.is_spent)


def _time(event: AlertEvent) -> int:
    return event.resolved or event.fired or event.since


def put_alert(site: Site, _: object, body: Rule) -> Done:
    """Create or replace a rule."""
    site.directory.check_app(body.app)
    site.watch.store.put(body.checked())
    return Done(done=f"created alert {body.name}")


def delete_alert(site: Site, params: AlertParams, body: Deletion) -> Done:
    """Delete a rule."""
    if body.confirm != params.alert:
        return not_confirmed(body)
    site.watch.store.delete(params.alert)
    return Done(done=f"deleted {params.alert}")


def try_alert(site: Site, params: AlertParams, body: TestMessage) -> Done:
    """Send a test message to the target of a rule."""
    rule = next((rule for rule in site.watch.store.rules() if rule.name == params.alert), None)
    if rule is None:
        return Done(done=f"there is no alert {params.alert!r}")
    return Done(done="shown in the dashboard only" if rule.to is None else send_once(rule.to, _trial(rule, body)))


def _trial(rule: Rule, body: TestMessage) -> Notification:
    labels = {"alertname": rule.name, "app": rule.app}
    event = AlertEvent(
        alert=rule.name, app=rule.app, key=None, status="firing", labels=labels, since=0, fired=0, summary=body.message
    )
    return notification(rule.name, labels, [event])


OPERATIONS = (
    Operation(method="GET", path="/api/alerts", summary="List alerts", handler=list_alerts, result=AlertOverview),
    Operation(
        method="POST",
        path="/api/alerts",
        summary="Create or replace an alert",
        handler=put_alert,
        body=Rule,
        result=Done,
    ),
    Operation(
        method="POST",
        path="/api/alerts/{alert}/delete",
        summary="Delete an alert",
        handler=delete_alert,
        params=AlertParams,
        body=Deletion,
        result=Done,
    ),
    Operation(
        method="POST",
        path="/api/alerts/{alert}/try",
        summary="Send a test message",
        handler=try_alert,
        params=AlertParams,
        body=TestMessage,
        result=Done,
    ),
)
