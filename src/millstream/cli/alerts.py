"""``millstream alerts``: the alerts of apps, and silences."""

from __future__ import annotations

import getpass
import time

import click

from millstream.alerts.events import AlertEvent
from millstream.cli.command import CommandGroup
from millstream.cli.connection import connected
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.durations import milliseconds
from millstream.foundation.times import format_timestamp
from millstream.operations.alert_topics import (
    add_silence,
    alert_apps,
    current_alerts,
    expire_silence,
    recent_events,
    silences_of,
)

app_option = click.option("--app", "app_id", metavar="APP", help="The app; optional if only one has run.")


@click.group(cls=CommandGroup)
def alerts() -> None:
    """List the alerts of apps, and silence them.

    Alerts are those of `stream.alert()` and of the rules of the dashboard; they are read from the topics APP.alerts.
    """


@alerts.command("list", examples=["millstream alerts list", "millstream alerts list --app watch --history --json"])
@click.option("--app", "app_id", metavar="APP", help="Only alerts of this app.")
@click.option("--history", is_flag=True, help="Show the newest events instead, also those of resolved alerts.")
@json_option
@pass_settings
def list_(settings: CommonOptions, app_id: str | None, history: bool, as_json: bool) -> None:
    """List the alerts that are pending or firing."""
    with connected(settings) as broker:
        apps = alert_apps(broker) if app_id is None else [app_id]
        events = [event for app in apps for event in (recent_events if history else current_alerts)(broker, app)]
    if not history:
        events = [event for event in events if event.status != "resolved"]
    if as_json:
        show_json(events)
    elif events:
        show_table(("app", "alert", "status", "since", "summary"), map(_row, events))
    else:
        show_message("no alerts")


@alerts.command(
    examples=[
        "millstream alerts silence --app watch alertname=errors --for '2 h' --comment 'deployment'",
        "millstream alerts silence --app watch 'key=~cart|shop' severity!=page --for '30 min'",
    ]
)
@click.argument("matchers", nargs=-1, required=True)
@app_option
@click.option("--for", "duration", metavar="TIME", default="1 h", show_default=True, help="How long.")
@click.option("--comment", default="", help="Why.")
@pass_settings
def silence(
    settings: CommonOptions, matchers: tuple[str, ...], app_id: str | None, duration: str, comment: str
) -> None:
    """Send no notifications of the alerts of an app that match all MATCHERS.

    A matcher is LABEL=VALUE, LABEL!=VALUE, LABEL=~PATTERN or LABEL!~PATTERN, as in Alertmanager.
    """
    with connected(settings) as broker:
        added = add_silence(
            broker,
            settings.app_id(app_id),
            matchers,
            milliseconds(duration),
            author=getpass.getuser(),
            comment=comment,
        )
    click.echo(added.id)
    show_message(f"silent until {format_timestamp(added.ends)}")


@alerts.command(examples=["millstream alerts silences --app watch"])
@app_option
@click.option("--all", "show_all", is_flag=True, help="Show expired silences too.")
@json_option
@pass_settings
def silences(settings: CommonOptions, app_id: str | None, show_all: bool, as_json: bool) -> None:
    """List the silences of an app."""
    now = time.time_ns() // 1_000_000
    with connected(settings) as broker:
        stored = silences_of(broker, settings.app_id(app_id))
    shown = [item for item in stored if show_all or item.ends > now]
    if as_json:
        show_json(shown)
    elif shown:
        rows = ((s.id, ", ".join(s.matchers), format_timestamp(s.ends), s.author, s.comment) for s in shown)
        show_table(("id", "matchers", "until", "author", "comment"), rows)
    else:
        show_message("no silences")


@alerts.command(examples=["millstream alerts expire 3f2a9c01b7de --app watch"])
@click.argument("silence_id", metavar="ID")
@app_option
@pass_settings
def expire(settings: CommonOptions, silence_id: str, app_id: str | None) -> None:
    """End a silence now."""
    with connected(settings) as broker:
        ended = expire_silence(broker, settings.app_id(app_id), silence_id)
    show_message(f"silence {ended.id} has ended")


def _row(event: AlertEvent) -> tuple[object, ...]:
    since = format_timestamp(event.resolved or event.fired or event.since)
    return event.app, event.id, event.status, since, event.summary
