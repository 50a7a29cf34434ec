"""Alerts: what is watched, what was raised, and a form to watch more."""

from __future__ import annotations

from millstream.serve.alert_rules import AlertEvent
from millstream.serve.api.alerts import list_alerts
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
from millstream.serve.watch import Standing

_WHAT = (
    ("lag", "waiting records"),
    ("late", "late per minute"),
    ("dead_letters", "letters per minute"),
    ("failure", "app has failed"),
    ("table", "number in a table"),
)


def alerts_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the page."""
    found = list_alerts(site)
    rules = [_rule(one) for one in found.rules]
    shown: Content = element("div", rules, class_="rules") if rules else _nothing()
    return (
        card("Watched", shown, live="rules", wide=True),
        card("History", _events(found.events), live="events", wide=True),
        card("Watch something", _form(site.place.apps()), wide=True),
    )


def _nothing() -> Markup:
    return empty(
        "Nothing is watched yet",
        element("p", "An alert is raised when a number passes its limit, and is told to a webhook or by mail."),
        element("p", "For example: tell me when more than 10,000 records wait for an app."),
    )


def _rule(one: Standing) -> Markup:
    rule = one.rule
    limit = "" if rule.what == "failure" else f" {'above' if rule.above else 'below'} {number(rule.limit)}"
    where = f" {rule.table}[{rule.key}]{'.' + rule.field if rule.field else ''}" if rule.what == "table" else ""
    buttons = joined(
        action(url("api", "alerts", rule.name, "try"), button="Send a trial", then="stay", tone="quiet"),
        action(
            url("api", "alerts", rule.name, "delete"),
            element("input", type="hidden", name="confirm", value=rule.name),
            button="Stop watching",
            confirm=f"Stop watching {rule.name}?",
            tone="quiet",
        ),
    )
    return element(
        "article",
        element("h3", rule.name, " ", badge("raised", "bad") if one.is_raised else badge("fine", "good")),
        element("p", f"{rule.app}: {dict(_WHAT)[rule.what]}{where}{limit}"),
        element("p", one.message, class_="told"),
        element("p", f"tells {rule.to}" if rule.to else "is shown here only", class_="told"),
        element("div", buttons, class_="buttons"),
    )


def _events(events: list[AlertEvent]) -> Content:
    if not events:
        return element("p", "Nothing has happened yet.", class_="none")
    rows = (
        (
            moment(one.at),
            badge("raised", "bad") if one.is_raised else badge("over", "good"),
            one.rule,
            one.message,
            one.told,
        )
        for one in events[:50]
    )
    return table(("Time", "", "Alert", "What", "Told"), rows)


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
        choice("When", "what", _WHAT, id="what"),
        choice("Is", "above", (("true", "above"), ("false", "below")), data_type="json"),
        field("Limit", "limit", "number", value=0, step="any", data_type="number"),
        field("Table", "table", hint="for a number in a table"),
        field("Key", "key", hint="of its row"),
        field("Field", "field", hint="inside of the value, as a.b"),
        field("Tell", "to", hint="https://… or mailto:name@host; empty: only here"),
        button="Watch",
    )
