"""Tables, JSON and messages on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

from millstream.foundation.text import json_line, printable
from millstream.plan.changes import StageChange


def show_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(msgspec.json.format(json_line(value), indent=2))


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under a header, numbers to the right; whole also in a narrow window, since scripts read it too."""
    listed = list(rows)
    cells = [[_cell(value) for value in row] for row in listed]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    right = [_are_numbers([row[at] for row in listed]) for at in range(len(header))]
    for row in [[name.upper() for name in header], *cells]:
        padded = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def _are_numbers(values: Sequence[object]) -> bool:
    return all(value is None or isinstance(value, int) for value in values) and any(
        value is not None for value in values
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else printable(str(value)) or "-"


def say(message: str) -> None:
    """Tell something that is not part of the result."""
    click.echo(printable(message), err=True)


def say_changes(changes: Iterable[StageChange]) -> None:
    """Tell what a changed topology does to the state of each stage."""
    say("the topology has changed since the last start:")
    for change in changes:
        say(f"  {change}")


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
