"""Output of commands: tables, JSON and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import click
import msgspec

from millstream.foundation.text import json_line, printable
from millstream.plan.changes import StageChange


def show_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(msgspec.json.format(json_line(value), indent=2))


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under a header, numbers aligned right; rows are never truncated, since scripts read them too."""
    rows = list(rows)
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    right = [_are_numbers([row[column] for row in rows]) for column in range(len(header))]
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


def show_message(message: str) -> None:
    """Print a message that is not part of the result to standard error."""
    with _display[-1]():
        click.echo(printable(message), err=True)


_display: list[Callable[[], AbstractContextManager[None]]] = [nullcontext]
"""Hides what a terminal shows live while a message is printed; the last one applies."""


@contextmanager
def hidden_by(hide: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Print the messages of a block, which other threads may show too, while ``hide()`` hides a live display."""
    _display.append(hide)
    try:
        yield
    finally:
        _display.remove(hide)


def show_changes(changes: Iterable[StageChange]) -> None:
    """Print what a changed topology does to the state of each stage."""
    show_message("the topology has changed since the last start:")
    for change in changes:
        show_message(f"  {change}")


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
