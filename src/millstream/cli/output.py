"""Tables, JSON, and text that cannot harm a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

# control characters, line and paragraph separators, marks that turn the direction of text, lone surrogates
_BEYOND_ASCII = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_HARMFUL = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")
_HARMFUL_IN_JSON = re.compile(f"[{_BEYOND_ASCII}]")  # the others are escaped there already


def printable(text: str) -> str:
    r"""Escape what would move the cursor, break a line or give orders to a terminal.

    >>> print(printable("two\nlines \x1b[31mred"))
    two\nlines \x1b[31mred
    """
    return _HARMFUL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def text_of(data: bytes | None) -> str:
    r"""Return bytes as text for people: escaped where they are not UTF-8 or not printable.

    >>> print(text_of(b"caf\xc3\xa9 \xff\t"), text_of(None))
    café \xff\t null
    """
    return "null" if data is None else printable(data.decode("utf-8", "backslashreplace"))


def json_line(value: Any) -> str:
    """Return a value as one line of JSON that is harmless too; what has no form in JSON is shown as Python does.

    >>> json_line({"when": (1, None)}), json_line({(1, 2): 3j})
    ('{"when":[1,null]}', '{"(1, 2)":"3j"}')
    """
    encoded = msgspec.json.encode(value, enc_hook=repr).decode()
    return _HARMFUL_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)


def plain(value: Any) -> str:
    """Return a value of a table for people: text as it is, anything else as JSON."""
    return printable(value) if isinstance(value, str) else json_line(value)


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


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "batch"), counted(1200, "record")
    ('1 batch', '1,200 records')
    """
    ending = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{ending}"


def say(message: str) -> None:
    """Tell something that is not part of the result."""
    click.echo(printable(message), err=True)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
