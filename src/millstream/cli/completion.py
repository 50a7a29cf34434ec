"""``millstream completion``: what a shell needs to complete commands."""

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
    """Print a script that lets a shell complete commands, options, and names of topics and groups with TAB."""
    found = get_completion_class(shell)
    assert found is not None, "click knows all of SHELLS"
    click.echo(found(ctx.find_root().command, {}, "millstream", "_MILLSTREAM_COMPLETE").source())
