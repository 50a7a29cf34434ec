"""Bytes and values as text that cannot harm a terminal, a page or a log."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec

# control characters, line and paragraph separators, marks that turn the direction of text, lone surrogates
_BEYOND_ASCII = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
UNSAFE_CHARACTERS = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")
_HARMFUL_IN_JSON = re.compile(f"[{_BEYOND_ASCII}]")  # the others are escaped there already


def printable(text: str) -> str:
    r"""Escape what would move the cursor, break a line or give orders to a terminal.

    >>> print(printable("two\nlines \x1b[31mred"))
    two\nlines \x1b[31mred
    """
    return UNSAFE_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def bytes_to_text(data: bytes | None) -> str:
    r"""Return bytes as text for people: escaped where they are not UTF-8 or not printable.

    >>> print(bytes_to_text(b"caf\xc3\xa9 \xff\t"), bytes_to_text(None))
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


def format_value(value: Any) -> str:
    """Return a value of a table for people: text as it is, anything else as JSON."""
    return printable(value) if isinstance(value, str) else json_line(value)


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> format_count(1, "batch"), format_count(1200, "record")
    ('1 batch', '1,200 records')
    """
    ending = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{ending}"


def parse_json(data: bytes | None) -> Any:
    """Return JSON as what it means, other text as it is."""
    try:
        return None if data is None else msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_text(data)


def decode_text(data: bytes | None) -> Any:
    """Return bytes as text, or as base64 where they are none."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}
