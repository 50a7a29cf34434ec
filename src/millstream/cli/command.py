"""What all commands share: examples in the help, common options, and an optional bound app."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

import click

from millstream.cli.settings import settings_of
from millstream.foundation.text import printable

TARGET = "target"
"""Name of the argument that selects the app; a command of a bound app does not have it."""


def _store_in(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def store(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value:  # an option that is missing here may precede the subcommand
            setattr(settings_of(ctx), field, value)

    return store


def common_options() -> list[click.Parameter]:
    """Return the options that every command accepts, before or after its name."""
    return [
        click.Option(
            ["--data-dir"],
            metavar="DIR",
            expose_value=False,
            callback=_store_in("given_data_dir"),
            help="Directory of the log and all state.  [env: MILLSTREAM_DATA_DIR; default: millstream-data]",
        ),
        click.Option(
            ["--broker"],
            metavar="URL",
            expose_value=False,
            callback=_store_in("given_broker"),
            help="The broker; default is the embedded log of the data directory.  [env: MILLSTREAM_BROKER]",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            callback=_store_in("debug"),
            help="Show the stack trace of an error.",
        ),
    ]


class Command(click.Command):
    """A command with examples and the common options, and without a target if an app is bound."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = tuple(examples)
        self.params.extend(common_options())

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        if settings_of(ctx).app is None:
            return params
        return [param for param in params if param.name != TARGET]

    def get_short_help_str(self, limit: int = 200) -> str:
        """Return the first sentence; the list of commands wraps it, and click would cut it."""
        return super().get_short_help_str(max(limit, 200))

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(formatter, self.examples)


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{' ' * formatter.current_indent}{example}\n")


class CommandGroup(click.Group):
    """A group of commands with the common options; its help has an example of each command unless it has its own."""

    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._examples = tuple(examples)
        self.params.extend(common_options())

    @property
    def examples(self) -> tuple[str, ...]:
        """What the help shows."""
        commands = (command for command in self.commands.values() if isinstance(command, Command))
        return self._examples or tuple(command.examples[0] for command in commands)

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(formatter, self.examples)

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.commands)  # in the order of definition, not alphabetically

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise UnknownCommand(name, self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)


class InvalidUsage(click.UsageError):
    """An invalid option or argument, reported in one line like other errors."""

    def __init__(self, error: click.UsageError) -> None:
        super().__init__(error.format_message(), error.ctx)

    def show(self, file: IO[Any] | None = None) -> None:
        text = self.message.rstrip(".").replace(". Did you mean", "; did you mean")
        text = text.replace("is not a valid integer range", "is not a valid integer")
        see = "" if self.ctx is None or text.endswith("?") else f"; see: {self.ctx.command_path} --help"
        click.echo(f"error: {printable(text[:1].lower() + text[1:] + see)}", file=file, err=True)


class UnknownCommand(click.UsageError):
    """An unknown command, reported in one line like other errors."""

    def __init__(self, name: str, commands: Sequence[str], ctx: click.Context) -> None:
        matches = difflib.get_close_matches(name, commands, n=1)
        hint = f"did you mean {matches[0]!r}?" if matches else f"see: {ctx.command_path} --help"
        super().__init__(f"unknown command {name!r}; {hint}", ctx)

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {printable(self.message)}", file=file, err=True)


class LazyCommand(NamedTuple):
    """The location of a command, as ``module:attribute``, and its line in the help."""

    target: str
    help: str


class LazyGroup(CommandGroup):
    """A group that imports a command only when it is invoked."""

    def __init__(self, *args: Any, lazy_commands: Mapping[str, LazyCommand], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.lazy_commands = lazy_commands

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.lazy_commands)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self.lazy_commands.get(cmd_name)
        if lazy is None:
            return None
        module, attribute = lazy.target.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.lazy_commands.items()])
