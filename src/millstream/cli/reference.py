"""The reference of the command line as Markdown, made from the commands themselves.

``python -m millstream.cli.reference > docs/cli.md`` writes the page; a test finds out when that was forgotten.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from millstream.cli.command import Command, common_options
from millstream.cli.main import root

INTRODUCTION = """\
# The command line

`millstream` runs apps and looks into their topics, groups and tables. A script that ends with `app.main()` offers the
same commands for its own app, without the TARGET: `python word_count.py run`. This page is made from the commands
(`python -m millstream.cli.reference > docs/cli.md`); `--help` says the same.

```sh
millstream run examples/word_count.py
echo "all streams lead to kafka" | millstream produce lines
millstream consume word-counts --from-beginning
millstream tables get words kafka --app word-count
```

## What all commands share

These options can stand before or after the name of a command:

{common}

`millstream --version` prints the version. Results go to standard output, everything else to standard error. Text for
people has control characters, and marks that turn the direction of text, escaped, so that no record can give orders to
a terminal. With `--json` there is JSON for programs instead.

| Exit code | Meaning |
|---|---|
| 0 | All went well; also when Ctrl-C or SIGTERM ended a run after its batch. |
| 1 | An [error of Millstream](errors.md), told in one line as `error: …`; `--debug` shows all. |
| 2 | The command was not understood. |
| 130 | Interrupted by Ctrl-C. |

An error in the app's own file while it is imported is told in one line too, after the lines of the file
where it came up.
"""


def markdown() -> str:
    """Return the whole page."""
    ctx = click.Context(root, info_name="millstream")
    common = _options([param for param in common_options() if isinstance(param, click.Option)], ctx)
    parts = [INTRODUCTION.format(common=common), *_sections(root, ctx)]
    return "\n".join(parts)


def _sections(group: click.Group, ctx: click.Context) -> Iterator[str]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, "it is listed"
        below = click.Context(command, info_name=name, parent=ctx)
        level = "##" if ctx.parent is None else "###"
        yield f"{level} `{below.command_path}`\n\n{inspect.cleandoc(command.help or '')}\n"
        if isinstance(command, Command):
            yield _usage(command, below)
        if isinstance(command, click.Group):
            yield from _sections(command, below)


def _usage(command: Command, ctx: click.Context) -> str:
    common = {param.name for param in common_options()}
    arguments = " ".join(param.make_metavar(ctx) for param in command.params if isinstance(param, click.Argument))
    own = [param for param in command.params if isinstance(param, click.Option) and param.name not in common]
    usage = " ".join(filter(None, [ctx.command_path, "[OPTIONS]", arguments]))
    examples = "\n".join(command.examples)
    options = f"{_options(own, ctx)}\n\n" if own else ""
    return f"Usage: `{usage}`\n\n{options}\n```sh\n{examples}\n```\n".replace("\n\n\n", "\n\n")


def _options(options: list[click.Option], ctx: click.Context) -> str:
    rows = ["| Option | Meaning |", "|---|---|"]
    for option in options:
        record = option.get_help_record(ctx)
        assert record is not None, "no option is hidden"
        name, meaning = (" ".join(text.replace("|", "\\|").split()) for text in record)
        rows.append(f"| `{name}` | {meaning} |")
    return "\n".join(rows)


if __name__ == "__main__":
    click.echo(markdown(), nl=False)
