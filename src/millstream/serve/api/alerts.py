"""Alerts: rules, how they stand, and what has happened."""

from __future__ import annotations

import time

import msgspec

from millstream.serve.alert_rules import AlertEvent, Rule
from millstream.serve.api.params import Name
from millstream.serve.api.topics import Deletion, Done
from millstream.serve.notify import tell
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.serve.watch import Standing


class Alerts(msgspec.Struct, frozen=True, kw_only=True):
    """All rules and the newest events, newest first."""

    rules: list[Standing]
    events: list[AlertEvent]


class AlertParams(msgspec.Struct, frozen=True, kw_only=True):
    alert: Name


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to be sent as a trial."""

    message: str = "this is a trial"


def list_alerts(site: Site, _: object = None) -> Alerts:
    """Return rules and events."""
    return Alerts(rules=site.watch.standings(), events=site.watch.book.events())


def put_alert(site: Site, _: object, body: Rule) -> Done:
    """Store a rule."""
    site.place.check_app(body.app)
    site.watch.book.put(body.checked())
    return Done(done=f"watching {body.name}")


def delete_alert(site: Site, params: AlertParams, body: Deletion) -> Done:
    """Forget a rule."""
    if body.confirm != params.alert:
        return Done(done=f"nothing was deleted, since {body.confirm!r} is another name")
    site.watch.book.delete(params.alert)
    return Done(done=f"deleted {params.alert}")


def try_alert(site: Site, params: AlertParams, body: Trial) -> Done:
    """Send a trial message where a rule would send its alert."""
    rule = next((one for one in site.watch.book.rules() if one.name == params.alert), None)
    if rule is None:
        return Done(done=f"there is no alert {params.alert!r}")
    event = AlertEvent(
        at=time.time_ns() // 1_000_000, rule=rule.name, app=rule.app, is_raised=True, message=body.message, told=""
    )
    return Done(done=tell(rule.to, event))


OPERATIONS = (
    Operation(method="GET", path="/api/alerts", summary="List alerts", handler=list_alerts, answer=Alerts),
    Operation(
        method="POST",
        path="/api/alerts",
        summary="Watch something, or change what is watched",
        handler=put_alert,
        body=Rule,
        answer=Done,
    ),
    Operation(
        method="POST",
        path="/api/alerts/{alert}/delete",
        summary="Stop to watch something",
        handler=delete_alert,
        params=AlertParams,
        body=Deletion,
        answer=Done,
    ),
    Operation(
        method="POST",
        path="/api/alerts/{alert}/try",
        summary="Send a trial message",
        handler=try_alert,
        params=AlertParams,
        body=Trial,
        answer=Done,
    ),
)
