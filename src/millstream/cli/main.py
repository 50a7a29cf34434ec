"""The entry of the command line: which commands there are, and what becomes of errors."""

from __future__ import annotations

import re
from typing import Any

import click

from millstream.app import App
from millstream.cli.command import LazyGroup, Place
from millstream.cli.loading import LoadError
from millstream.cli.settings import Settings, settings_of
from millstream.errors import MillstreamError
from millstream.foundation.text import printable

FAILED = 1
INTERRUPTED = 130

PLACES = {
    "run": Place("millstream.cli.run:run", "Run an app on Spark and show its progress."),
    "ui": Place("millstream.cli.ui:ui", "Serve the dashboard and the REST API."),
    "describe": Place("millstream.cli.describe:describe", "Show the topology of an app."),
    "topics": Place("millstream.cli.topics:topics", "List, create, change and delete topics."),
    "produce": Place("millstream.cli.produce:produce", "Write lines from standard input to a topic."),
    "consume": Place("millstream.cli.consume:consume", "Print the records of topics."),
    "groups": Place("millstream.cli.groups:groups", "See how far consumer groups are, and move them."),
    "tables": Place("millstream.cli.tables:tables", "Read the tables of an app, also while it runs."),
    "status": Place("millstream.cli.status:status", "Show how an app is doing, also after it has died."),
    "top": Place("millstream.cli.top:top", "Watch the apps that run, live."),
    "reset": Place("millstream.cli.reset:reset", "Let an app begin anew."),
    "rescale": Place("millstream.cli.rescale:rescale", "Give an app another number of partitions."),
    "replay": Place("millstream.cli.replay:replay", "Run a new version of an app beside the old one."),
    "savepoints": Place("millstream.cli.savepoints:savepoints", "Copy the state of an app, and go back to a copy."),
    "dlq": Place("millstream.cli.dlq:dlq", "See dead letters, and send them back."),
    "init": Place("millstream.cli.init:init", "Make a project with an app, its test and a README."),
    "datagen": Place("millstream.cli.datagen:datagen", "Feed a topic with made-up records."),
    "apps": Place("millstream.cli.apps:apps", "List the apps that have run."),
    "completion": Place("millstream.cli.completion:completion", "Print a script that completes commands with TAB."),
}


class Root(LazyGroup):
    """All commands; an error of ours becomes one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MillstreamError as error:
            if settings_of(ctx).debug:
                raise
            click.echo(f"error: {_in_options(error)}", err=True)
            ctx.exit(FAILED)
        except LoadError as error:
            if settings_of(ctx).debug:
                raise
            cause = error.cause
            if error.place:
                click.echo(error.place, err=True)
            told = _in_options(cause) if isinstance(cause, MillstreamError) else printable(str(error))
            click.echo(f"error: {told}", err=True)
            ctx.exit(FAILED)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except click.Abort as abort:  # a question was answered by Ctrl-C, or by the end of the input
            click.echo("\naborted", err=True)
            ctx.exit(INTERRUPTED if isinstance(abort.__context__, KeyboardInterrupt) else FAILED)


def _in_options(error: MillstreamError) -> str:
    """Return the message of an error with the names that settings have here."""
    hint = None if error.hint is None else re.sub(r"\bdata_dir\b=?", "--data-dir", error.hint)
    return printable(error.message if hint is None else f"{error.message}; {hint}")


@click.command(cls=Root, places=PLACES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="millstream", message="%(prog)s %(version)s")
def root() -> None:
    """Run streaming apps, and look into their topics, groups and tables.

    Start with `millstream run FILE`, where FILE is a Python file with an App. Every command explains itself with
    --help. Everything lies in one data directory, so that commands find it from any terminal.
    """


def main() -> None:
    """Run the command line."""
    root.main(prog_name="millstream")


def main_for(app: App) -> None:
    """Run the command line with the commands bound to ``app``."""
    root.main(obj=Settings(app=app))
