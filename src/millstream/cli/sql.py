"""``millstream sql``: a shell for SQL, statements in scripts, and what files of statements define."""

from __future__ import annotations

import sys

import click

from millstream.broker import TopicConfig
from millstream.broker_urls import open_broker
from millstream.cli.command import TARGET, CommandGroup
from millstream.cli.describe import changes_since_last_run
from millstream.cli.output import json_option, show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.cli.sql_shell import run_shell, run_text
from millstream.foundation.paths import app_names
from millstream.foundation.text import printable
from millstream.queries.binding import query_control, stored_sql, stored_tables
from millstream.queries.pausing import QueryControl
from millstream.queries.session import Session


class ShellByDefault(CommandGroup):
    """A group whose command ``shell`` can be left out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = any(arg in self.commands for arg in args[:1]) or bool({"-h", "--help"} & set(args[:1]))
        return super().parse_args(ctx, args if is_named else ["shell", *args])


@click.group(cls=ShellByDefault)
def sql() -> None:
    """Query streams and tables with SQL, and show what a file of statements defines.

    `millstream sql` opens a shell; `millstream run FILE.sql` runs a file as an app.
    """


@sql.command(
    "shell",
    examples=[
        "millstream sql shell taxi.sql",
        "millstream sql shell --app taxi -c \"SELECT * FROM zones WHERE zone = 'Mitte'\" --json",
        "millstream sql shell taxi.sql -c 'SELECT * FROM rides EMIT CHANGES LIMIT 10'",
    ],
)
@click.argument(TARGET, metavar="[FILE]", required=False)
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Execute statements and end.")
@click.option("--app", "app_id", metavar="APP", help="The app whose tables are read; optional if only one has run.")
@json_option
@pass_settings
def shell(
    settings: CommonOptions, commands: tuple[str, ...], app_id: str | None, as_json: bool, target: str | None = None
) -> None:
    """Execute SQL statements: in a shell, from the command line, or from standard input.

    With FILE, a file of SQL statements or of Python, the streams and tables of its app are known. Without, they are
    those of an app that has run. A push query ends with its LIMIT or with Ctrl-C. The word shell can be left out:
    `millstream sql taxi.sql`.
    """
    session = open_session(settings, target, app_id)
    try:
        if commands:
            for text in commands:
                run_text(session, text, as_json=as_json)
        elif sys.stdin.isatty():
            run_shell(session, as_json=as_json)
        else:
            run_text(session, sys.stdin.read(), as_json=as_json)
    finally:
        session.close()


def open_session(settings: CommonOptions, target: str | None, app_id: str | None) -> Session:
    """Return a session that is bound to the app of a file, or to an app that has run."""
    if target is not None or settings.app is not None:
        app = settings.load(target)
        published = app.published_sql
        return Session(
            lambda: open_broker(app.broker_url, app.data_dir),
            published=published,
            catalog=published.catalog(allows_code=True),
            tables=lambda: stored_tables(app.data_dir, app.id),
            new_topic=TopicConfig(partitions=app.config.partitions),
            control=QueryControl(app.data_dir, app.id, published),
        )
    data_dir, names = settings.data_dir, app_names(settings.data_dir)
    name = app_id or (names[0] if len(names) == 1 else None)
    if name is None and names:
        show_message(f"choose an app with --app to read its tables: {', '.join(names)}")
    return Session(
        lambda: open_broker(settings.broker_url, data_dir),
        published=None if name is None else stored_sql(data_dir, name),
        tables=dict if name is None else lambda: stored_tables(data_dir, name),
        control=None if name is None else query_control(data_dir, name),
    )


@sql.command("plan", examples=["millstream sql plan shop.sql", "millstream sql plan shop.sql --data-dir /srv/shop"])
@click.argument("file", type=click.Path(dir_okay=False))
@pass_settings
def plan(settings: CommonOptions, file: str) -> None:
    """Show the topology of a file, and how a start would change the existing state.

    Nothing is run and nothing is written. Each stage is reused, new, dropped or incompatible.
    """
    app = settings.load(file)
    click.echo(app.describe(), nl=False)
    changes = changes_since_last_run(app)
    for change in changes:
        click.echo(printable(str(change)))
    if not changes:
        show_message(f"{app.id} has not run on {str(app.data_dir)!r} yet: everything is new")
