"""Alerts: rules, their history, and a form to create one."""

from __future__ import annotations

from millstream.alerts.events import AlertEvent
from millstream.operations.alert_watch import AlertStatus
from millstream.serve.api.alerts import AlertOverview, list_alerts
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    NAME_PATTERN,
    action,
    badge,
    card,
    choice,
    empty,
    field,
    moment,
    number,
    table,
    url,
)
from millstream.serve.site import Site

_KINDS = (
    ("lag", "lag in records"),
    ("late", "late records per minute"),
    ("dead_letters", "dead letters per minute"),
    ("failure", "app has failed"),
    ("table", "number in a table"),
)


def alerts_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the page."""
    alerts = list_alerts(site)
    rules = [_rule(status) for status in alerts.rules]
    shown: Content = element("div", rules, class_="rules") if rules else _no_alerts()
    return (
        card("Active alerts", _active(alerts), live="active", wide=True),
        card("Rules", shown, live="rules", wide=True),
        card("History", _events(alerts.events), live="events", wide=True),
        card("Create an alert", _form(site.directory.apps()), wide=True),
    )


def _no_alerts() -> Markup:
    return empty(
        "There are no rules yet",
        element("p", "A rule raises an alert when a number passes its limit, and sends it to a webhook or by mail."),
        element("p", "For example: the lag of an app is above 10,000 records."),
    )


def _rule(status: AlertStatus) -> Markup:
    rule = status.rule
    limit = "" if rule.what == "failure" else f" {'above' if rule.above else 'below'} {number(rule.limit)}"
    row = f" {rule.table}[{rule.key}]{'.' + rule.field if rule.field else ''}" if rule.what == "table" else ""
    buttons = joined(
        action(url("api", "alerts", rule.name, "try"), button="Send test message", then="stay", tone="quiet"),
        action(
            url("api", "alerts", rule.name, "delete"),
            element("input", type="hidden", name="confirm", value=rule.name),
            button="Delete",
            confirm=f"Delete alert {rule.name}?",
            tone="quiet",
        ),
    )
    return element(
        "article",
        element("h3", rule.name, " ", badge("firing", "bad") if status.is_firing else badge("ok", "good")),
        element("p", f"{rule.app}: {dict(_KINDS)[rule.what]}{row}{limit}"),
        element("p", status.message, class_="note"),
        element("p", f"sent to {rule.to}: {status.delivery}" if rule.to else status.delivery, class_="note"),
        element("div", buttons, class_="buttons"),
    )


def _active(alerts: AlertOverview) -> Content:
    events = alerts.active
    note = None if alerts.is_complete else element("p", "There are too many events to read all of them.", class_="note")
    if not events:
        return joined(element("p", "No alert is active.", class_="none"), note)
    rows = ((_badge(event), event.app, event.id, event.summary, moment(event.fired or event.since)) for event in events)
    return joined(table(("", "App", "Alert", "Summary", "Since (UTC)"), rows), note)


def _events(events: list[AlertEvent]) -> Content:
    if not events:
        return element("p", "No alert has been raised yet.", class_="none")
    rows = (
        (moment(event.resolved or event.fired or event.since), _badge(event), event.app, event.id, event.summary)
        for event in events[:50]
    )
    return table(("Time (UTC)", "", "App", "Alert", "Summary"), rows)


def _badge(event: AlertEvent) -> Markup:
    return badge(event.status, "good" if event.status == "resolved" else "bad")


def _form(apps: list[str]) -> Content:
    if not apps:
        return element("p", "Run an app first.", class_="none")
    return action(
        "/api/alerts",
        field(
            "Name",
            "name",
            required=True,
            maxlength=200,
            pattern=NAME_PATTERN,
            hint="letters, digits, . _ -",
        ),
        choice("App", "app", [(app, app) for app in apps]),
        choice("Value", "what", _KINDS, id="what"),
        choice("Is", "above", (("true", "above"), ("false", "below")), data_type="json"),
        field("Limit", "limit", "number", value=0, step="any", data_type="number"),
        field("Table", "table", hint="for a number in a table"),
        field("Key", "key", hint="of the row"),
        field("Field", "field", hint="inside the value, for example a.b"),
        field("Send to", "to", hint="https://… or mailto:name@host; empty: dashboard only"),
        button="Create alert",
    )
