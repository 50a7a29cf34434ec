"""Print the answers of SQL statements: as tables, which grow for push queries, or as lines of JSON."""

from __future__ import annotations

import base64
import datetime as dt
import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import click

from millstream.cli.output import show_message
from millstream.foundation.text import format_value, json_line, printable
from millstream.queries.answers import Answer, Change, Changes, Message, Result, rows_of
from millstream.sql.showing import ShownColumn
from millstream.sql.values import as_text

_MIN_WIDTH = 12
"""How wide a column of a growing table is at least: its rows are not known yet."""


def show_answer(answer: Answer, *, as_json: bool) -> None:
    """Print an answer; a query that runs on is printed until it ends, or until Ctrl-C."""
    if isinstance(answer, Message):
        if as_json:
            click.echo(json_line({"message": answer.text}))
        else:
            show_message(answer.text)
    elif isinstance(answer, Result):
        _show_result(answer, as_json=as_json)
    else:
        _show_changes(answer, as_json=as_json)


def _show_result(result: Result, *, as_json: bool) -> None:
    names = [column.name for column in result.columns]
    if as_json:
        for row in result.rows:
            click.echo(json_line(dict(zip(names, row, strict=True))))
    else:
        cells = [[_cell(value) for value in row] for row in result.rows]
        widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
        for line in (names, *cells) if cells or names else ():
            click.echo(_line(line, widths))
    for note in result.note.splitlines():
        show_message(note)


def _show_changes(changes: Changes, *, as_json: bool) -> None:
    names = [printable(column.name) for column in changes.columns]
    widths = [max(_MIN_WIDTH, len(name)) for name in names]
    if not as_json:
        click.echo(_line(names, widths))
        sys.stdout.flush()
    for change in rows_of(changes):
        click.echo(_json(change, changes.columns) if as_json else _changed_line(change, widths))
        sys.stdout.flush()


def _json(change: Change, columns: Sequence[ShownColumn]) -> str:
    row = {column.name: value for column, value in zip(columns, change.values, strict=True)}
    return json_line({"deleted": row} if change.is_deleted else row)


def _changed_line(change: Change, widths: list[int]) -> str:
    line = _line([_cell(value) for value in change.values], widths)
    return f"{line}  (deleted)" if change.is_deleted else line


def _cell(value: Any) -> str:
    """Return a value for a table: a DECIMAL, a time, bytes in base64 and NaN without quotes, the rest as JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal | dt.date | dt.time) or (isinstance(value, float) and not math.isfinite(value)):
        return as_text(value)
    return "null" if value is None else format_value(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
