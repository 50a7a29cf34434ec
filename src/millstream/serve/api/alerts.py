"""Alerts: rules, their status, and the history of events."""

from __future__ import annotations

import time

import msgspec

from millstream.serve.alert_rules import AlertEvent, Rule
from millstream.serve.alert_watch import AlertStatus
from millstream.serve.api.params import Name
from millstream.serve.api.topics import Deletion, Done, not_confirmed
from millstream.serve.notify import notify
from millstream.serve.operations import Operation
from millstream.serve.site import Site


class Alerts(msgspec.Struct, frozen=True, kw_only=True):
    """All rules and the newest events, newest first."""

    rules: list[AlertStatus]
    events: list[AlertEvent]


class AlertParams(msgspec.Struct, frozen=True, kw_only=True):
    alert: Name


class TestMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of a test message."""

    message: str = "this is a test"


def list_alerts(site: Site, _: object = None) -> Alerts:
    """Return all rules and the newest events."""
    return Alerts(rules=site.watch.statuses(), events=site.watch.store.events())


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
    at = time.time_ns() // 1_000_000
    event = AlertEvent(at=at, rule=rule.name, app=rule.app, is_raised=True, message=body.message, delivery="")
    return Done(done="shown in the dashboard only" if rule.to is None else notify(rule.to, event).text)


OPERATIONS = (
    Operation(method="GET", path="/api/alerts", summary="List alerts", handler=list_alerts, result=Alerts),
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
