"""What all commands share: examples in their help, the common options, and an app that may be bound."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

import click

from millstream.cli.settings import settings_of
from millstream.foundation.text import printable

TARGET = "target"
"""Name of the argument that says which app is meant; it is not there when an app is bound."""


def _noting(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def note(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value:  # an option left out here may have been given before the subcommand
            setattr(settings_of(ctx), field, value)

    return note


def common_options() -> list[click.Parameter]:
    """Return the options that every command takes, before or after its name."""
    return [
        click.Option(
            ["--data-dir"],
            metavar="DIR",
            expose_value=False,
            callback=_noting("given_data_dir"),
            help="Where log and state lie.  [env: MILLSTREAM_DATA_DIR; default: millstream-data]",
        ),
        click.Option(
            ["--broker"],
            metavar="URL",
            expose_value=False,
            callback=_noting("given_broker"),
            help="The broker, if not the log in the data directory.  [env: MILLSTREAM_BROKER]",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            callback=_noting("debug"),
            help="Show where an error comes from.",
        ),
    ]


class Command(click.Command):
    """A command with examples, which takes the common options and no target when an app is bound."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = tuple(examples)
        self.params.extend(common_options())

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        if settings_of(ctx).app is None:
            return params
        return [param for param in params if param.name != TARGET]

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{' ' * formatter.current_indent}{example}\n")


class Group(click.Group):
    """A group of commands which takes the common options too."""

    command_class = Command

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.extend(common_options())

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they are written, not of the alphabet

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise UnknownCommand(name, self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)


class UnknownCommand(click.UsageError):
    """A command that there is not, told in one line like other errors."""

    def __init__(self, name: str, known: Sequence[str], ctx: click.Context) -> None:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"see: {ctx.command_path} --help"
        super().__init__(f"there is no command {name!r}; {hint}", ctx)

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {printable(self.message)}", file=file, err=True)


class Place(NamedTuple):
    """Where a command is, as ``module:attribute``, and the line that lists it."""

    where: str
    help: str


class LazyGroup(Group):
    """A group that imports a command only when it is used."""

    def __init__(self, *args: Any, places: Mapping[str, Place], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.places = places

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        place = self.places.get(cmd_name)
        if place is None:
            return None
        module, attribute = place.where.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.help) for name, place in self.places.items()])
