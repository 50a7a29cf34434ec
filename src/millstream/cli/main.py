"""The entry point of the command line: the list of commands, and error handling."""

from __future__ import annotations

import re
from typing import Any

import click

from millstream.app import App
from millstream.cli.command import InvalidUsage, LazyCommand, LazyGroup, UnknownCommand
from millstream.cli.loading import LoadError
from millstream.cli.settings import CommonOptions, settings_of
from millstream.errors import MillstreamError, SqlError
from millstream.foundation.text import printable

FAILED = 1
INTERRUPTED = 130

COMMANDS = {
    "run": LazyCommand("millstream.cli.run:run", "Run an app on Spark and show its progress."),
    "work": LazyCommand("millstream.cli.work:work", "Run the workers of an app, without Spark."),
    "sql": LazyCommand("millstream.cli.sql:sql", "Query streams and tables with SQL."),
    "test": LazyCommand("millstream.cli.test:run_tests", "Run tests of SQL that are written in SQL."),
    "read-token": LazyCommand(
        "millstream.cli.read_token:read_token", "Print a token that reads tables live, for other sites."
    ),
    "ui": LazyCommand("millstream.cli.ui:ui", "Serve the dashboard and the REST API."),
    "connect": LazyCommand("millstream.cli.connect:connect", "Run sources and sinks, and steer those that run."),
    "describe": LazyCommand("millstream.cli.describe:describe", "Show the topology of an app."),
    "topics": LazyCommand("millstream.cli.topics:topics", "List, create, change and delete topics."),
    "produce": LazyCommand("millstream.cli.produce:produce", "Write lines from standard input to a topic."),
    "consume": LazyCommand("millstream.cli.consume:consume", "Print the records of topics."),
    "alerts": LazyCommand("millstream.cli.alerts:alerts", "List the alerts of apps, and silence them."),
    "groups": LazyCommand("millstream.cli.groups:groups", "Show consumer groups and reset their offsets."),
    "tables": LazyCommand("millstream.cli.tables:tables", "Read the tables of an app, even while it runs."),
    "status": LazyCommand("millstream.cli.status:status", "Show the status of an app, running or stopped."),
    "top": LazyCommand("millstream.cli.top:top", "Watch all apps live."),
    "profile": LazyCommand("millstream.cli.profile:profile", "Show where the time of a running app goes."),
    "reset": LazyCommand("millstream.cli.reset:reset", "Delete the state of an app, so that it starts over."),
    "rescale": LazyCommand("millstream.cli.rescale:rescale", "Change the number of partitions of an app."),
    "replay": LazyCommand("millstream.cli.replay:replay", "Run a new version of an app beside the old one."),
    "adopt": LazyCommand("millstream.cli.adopt:adopt", "Continue where a Kafka Streams application has stopped."),
    "savepoints": LazyCommand("millstream.cli.savepoints:savepoints", "Copy and restore the state of an app."),
    "doctor": LazyCommand("millstream.cli.doctor:doctor", "Check the files of a data directory."),
    "dlq": LazyCommand("millstream.cli.dlq:dlq", "Show and replay dead letters."),
    "init": LazyCommand("millstream.cli.init:init", "Create a project with an app, a test and a README."),
    "datagen": LazyCommand("millstream.cli.datagen:datagen", "Write generated records to a topic."),
    "apps": LazyCommand("millstream.cli.apps:apps", "List the apps that have run."),
    "completion": LazyCommand("millstream.cli.completion:completion", "Print a script for shell completion."),
}


class Root(LazyGroup):
    """All commands; a Millstream error becomes one line and an exit code."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.NoSuchOption as error:
            raise InvalidUsage(error) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (UnknownCommand, click.exceptions.NoArgsIsHelpError):
            raise
        except click.UsageError as error:
            raise InvalidUsage(error) from error
        except MillstreamError as error:
            if settings_of(ctx).debug:
                raise
            click.echo(f"error: {_with_option_names(error)}", err=True)
            ctx.exit(FAILED)
        except LoadError as error:
            if settings_of(ctx).debug:
                raise
            cause = error.cause
            if error.user_frames:
                click.echo(error.user_frames, err=True)
            message = _with_option_names(cause) if isinstance(cause, MillstreamError) else printable(str(error))
            click.echo(f"error: {message}", err=True)
            ctx.exit(FAILED)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except click.Abort as abort:  # a prompt was ended by Ctrl-C, or by the end of the input
            click.echo("\naborted", err=True)
            ctx.exit(INTERRUPTED if isinstance(abort.__context__, KeyboardInterrupt) else FAILED)


def _with_option_names(error: MillstreamError) -> str:
    """Return the message of an error, with the names of command line options instead of arguments in its hint."""
    hint = None if error.hint is None else re.sub(r"\bdata_dir\b=?", "--data-dir", error.hint)
    text = error.message if hint is None else f"{error.message}; {hint}"
    lines = text.split("\n") if isinstance(error, SqlError) else [text]  # SQL shows the line and a caret below it
    return "\n".join(map(printable, lines))


@click.command(
    cls=Root,
    lazy_commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=[
        "millstream init shop && cd shop",
        "millstream run examples/word_count.py",
        'echo "all streams lead to kafka" | millstream produce lines',
        "millstream consume word-counts --from-beginning",
        "millstream tables get words kafka --app word-count",
        "millstream status",
    ],
)
@click.version_option(package_name="millstream", message="%(prog)s %(version)s")
def root() -> None:
    """Run streaming apps, and inspect their topics, groups and tables.

    Start with `millstream init NAME`, or with `millstream run FILE`, where FILE is a Python file with an App. Leave it
    running, and use the other commands in a second terminal: all data is stored in one data directory, which every
    command can read. Every command has --help with examples.
    """


def main() -> None:
    """Run the command line."""
    root.main(prog_name="millstream")


def main_for(app: App) -> None:
    """Run the command line with the commands bound to ``app``."""
    root.main(obj=CommonOptions(app=app))
