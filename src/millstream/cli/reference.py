"""Generate the command line reference, docs/cli.md, from the commands.

``python -m millstream.cli.reference > docs/cli.md`` writes the page; a test fails if it is outdated.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from millstream.cli.command import Command, common_options
from millstream.cli.main import root

INTRODUCTION = """\
# The command line

`millstream` runs apps and inspects their topics, groups and tables. A script that ends with `app.main()` has the same
commands for its own app, without TARGET: `python word_count.py run`. This page is generated from the commands
(`python -m millstream.cli.reference > docs/cli.md`) and has the same content as `--help`.

```sh
millstream run examples/word_count.py
echo "all streams lead to kafka" | millstream produce lines
millstream consume word-counts --from-beginning
millstream tables get words kafka --app word-count
```

## Common options

All commands accept these options, before or after their name:

{common}

`millstream --version` prints the version. Results go to standard output, everything else to standard error. In text
output, control characters and characters that change the text direction are escaped, so that no record can control the
terminal. `--json` prints JSON instead.

| Exit code | Meaning |
|---|---|
| 0 | Success; also if Ctrl-C or SIGTERM stopped a run after its current batch. |
| 1 | A [Millstream error](errors.md), printed in one line as `error: …`; `--debug` shows the stack trace. |
| 2 | Invalid command or options. |
| 130 | Interrupted by Ctrl-C. |

An error in the app's own file during import is also printed in one line, after the lines of the file where it
occurred.
"""


def markdown() -> str:
    """Return the complete page."""
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
