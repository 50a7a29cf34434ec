import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from millstream.cli.command import Command, CommandGroup
from millstream.cli.main import root
from millstream.cli.reference import markdown

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def groups(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Group]]:
    yield ctx.command_path, group
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from groups(command, click.Context(command, info_name=name, parent=ctx))


def commands(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=ctx)
        if isinstance(command, click.Group):
            yield from commands(command, below)
        else:
            yield below.command_path, command


COMMANDS = dict(commands(root, click.Context(root, info_name="millstream")))
GROUPS = dict(groups(root, click.Context(root, info_name="millstream")))
EXAMPLES = [example for command in COMMANDS.values() if isinstance(command, Command) for example in command.examples]


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m millstream.cli.reference > docs/cli.md"


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_help_and_examples(path: str) -> None:
    command = COMMANDS[path]
    assert isinstance(command, Command)
    assert command.help
    assert 1 <= len(command.examples) <= 3
    assert all(path in example for example in command.examples)
    assert all(param.help for param in command.params if isinstance(param, click.Option))


@pytest.mark.parametrize("path", GROUPS)
def test_the_help_of_a_group_has_examples(path: str) -> None:
    group = GROUPS[path]
    assert isinstance(group, CommandGroup)
    help_text = group.get_help(click.Context(group, info_name=path))
    assert f"\nExamples:\n  {group.examples[0]}" in help_text
    assert all(path in example for example in group.examples)


@pytest.mark.parametrize("example", [*EXAMPLES, *root.examples[1:]])
def test_every_example_can_be_parsed(example: str) -> None:
    words = shlex.split(example.replace("$(", "").replace(')"', '"'), posix=True)
    words = [inner for word in words for inner in (word.split() if word.startswith("millstream ") else [word])]
    words = words[words.index("millstream") + 1 :]
    ends = [words.index(mark) for mark in ("|", ">", ">>", "<") if mark in words]
    words = words[: min(ends, default=len(words))]
    ctx = root.make_context("millstream", words)
    while isinstance(ctx.command, click.Group):
        name, command, rest = ctx.command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        assert command is not None
        ctx = command.make_context(name, rest, parent=ctx)
    assert ctx.args == []


@pytest.mark.parametrize("path", GROUPS)
def test_the_list_of_commands_has_whole_sentences(path: str) -> None:
    help_text = GROUPS[path].get_help(click.Context(GROUPS[path], info_name=path))
    assert "..." not in help_text.replace("COMMAND [ARGS]...", "")
