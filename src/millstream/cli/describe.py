"""``millstream describe``: the topology of an app."""

from __future__ import annotations

from contextlib import closing
from typing import get_args

import click

from millstream.admin.upgrade import changes_of
from millstream.app import App
from millstream.batch.journal import Journal
from millstream.batch.journal_files import can_hold_journal
from millstream.cli.command import TARGET, Command
from millstream.cli.output import show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.kafka_acls import required_acls
from millstream.foundation.paths import app_names, journal_dir
from millstream.foundation.text import printable
from millstream.plan.changes import StageChange
from millstream.plan.describe import Format
from millstream.plan.layout import Layout
from millstream.tables.opening import catalog_of
from millstream.task.policy import Policies


@click.command(
    cls=Command,
    examples=[
        "millstream describe word_count.py",
        "millstream describe shop.streams:orders --format mermaid",
        "millstream describe word_count.py --changes",
    ],
)
@click.argument(TARGET)
@click.option("--format", type=click.Choice(get_args(Format)), default="text", show_default=True, help="Output format.")
@click.option("--changes", is_flag=True, help="Show how a start would change the existing state instead.")
@click.option("--acls", is_flag=True, help="List the minimal ACLs that the app needs on a Kafka cluster.")
@pass_settings
def describe(settings: CommonOptions, format: Format, changes: bool, acls: bool, target: str | None = None) -> None:
    """Show the topology of an app: its stages, what each reads and writes, and its tables.

    TARGET is a file of Python or SQL, or a module, with ":NAME" if it defines several apps. The app is not run, and
    no data directory is needed. With --changes, each stage is compared with the topology that ran last on the data
    directory: reused, new, dropped or incompatible. With --acls, the ACLs that the app's Kafka user needs are
    listed.
    """
    app = settings.load(target)
    if acls:
        _show_acls(app)
        return
    if not changes:
        click.echo(app.describe(format), nl=False)
        if format == "text":
            click.echo(f"state  {_durability(app)}")
        return
    stage_changes = changes_since_last_run(app)
    for change in stage_changes:
        click.echo(printable(str(change)))
    if not stage_changes:
        show_message(f"{app.id} has not run on {str(app.data_dir)!r} yet")


def changes_since_last_run(app: App) -> list[StageChange]:
    """Return how a start would change the state of an app; nothing if it has not run yet."""
    if app.id not in app_names(app.data_dir):
        return []
    plan = app.plan
    with closing(app.broker) as broker:
        existing = broker.topic_names()
        topics = {
            topic: broker.topic(topic).partitions if topic in existing else app.config.partitions
            for topic in plan.source_topics
        }
    journal = Journal(journal_dir(app.data_dir, app.id), readonly=True)
    return changes_of(journal, catalog_of(Layout.of(plan, topics)))


def _durability(app: App) -> str:
    """Return where the state of an app is kept."""
    if app.broker_url is not None and app.broker_url.startswith("kafka:") and app.config.changelogs:
        guarantee = "; output is at least once" if app.config.guarantee == "at_least_once" else ""
        return f"in changelogs on {app.broker_url}, with a copy on this host{guarantee}"
    if app.config.checkpoint is not None:
        if can_hold_journal(app.config.checkpoint):
            return f"in the checkpoint {app.config.checkpoint}, with its journal, and a copy on this host"
        return f"on this host, replicated to {app.config.checkpoint}; the journal is on this host only"
    return "on this host only"


def _show_acls(app: App) -> None:
    letters = Policies.of(app.id, app.config).dead_letter_topic
    plan = app.plan
    writes = {*plan.sink_topics, letters}
    config = app.config
    prefixes = [f"{app.id}."] if config.changelogs else []
    if config.changelogs and config.changelog_names == "kafka-streams":
        prefixes.append(f"{app.id}-")
    for acl in required_acls(app.id, plan.source_topics, writes, creates=config.create_topics, own_prefixes=prefixes):
        click.echo(acl.command)
