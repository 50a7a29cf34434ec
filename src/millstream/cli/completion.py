"""``millstream completion``: print a script for shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from millstream.cli.command import Command

SHELLS = ("bash", "zsh", "fish")


@click.command(
    cls=Command,
    examples=[
        'eval "$(millstream completion bash)"',
        "millstream completion fish > ~/.config/fish/completions/millstream.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands, options, and names of topics and groups with TAB."""
    completion_class = get_completion_class(shell)
    assert completion_class is not None, "click supports all of SHELLS"
    click.echo(completion_class(ctx.find_root().command, {}, "millstream", "_MILLSTREAM_COMPLETE").source())
