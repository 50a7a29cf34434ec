"""Bytes and values as text that is safe in a terminal, a web page or a log."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec

from millstream.foundation.nesting import limit_json_depth

# control characters, line and paragraph separators, bidirectional control characters, lone surrogates
_BEYOND_ASCII = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
UNSAFE_CHARACTERS = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")
_decode_json = limit_json_depth(msgspec.json.decode, Any)
_UNSAFE_IN_JSON = re.compile(f"[{_BEYOND_ASCII}]")  # JSON escapes the others already


def printable(text: str) -> str:
    r"""Escape characters that would move the cursor, break a line or control a terminal.

    >>> print(printable("two\nlines \x1b[31mred"))
    two\nlines \x1b[31mred
    """
    return UNSAFE_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_lines(text: str) -> str:
    r"""Escape the same characters as ``printable``, except line breaks.

    >>> print(printable_lines("two\nlines \x1b[31mred"))
    two
    lines \x1b[31mred
    """
    return "\n".join(printable(line) for line in text.split("\n"))


def shown(value: object) -> str:
    r"""Return the repr of any object for an error message; never raises, and can be encoded as UTF-8.

    >>> shown("\ud800")
    "'\\ud800'"
    """
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}: its repr raises {type(error).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode()


def error_text(error: BaseException) -> str:
    """Return the message of an error; never raises, and can be encoded as UTF-8."""
    try:
        text = str(error)
    except Exception as problem:
        text = f"<{type(error).__name__}: its message raises {type(problem).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode()


def bytes_to_text(data: bytes | None) -> str:
    r"""Return bytes as readable text, escaped where they are not UTF-8 or not printable.

    >>> print(bytes_to_text(b"caf\xc3\xa9 \xff\t"), bytes_to_text(None))
    café \xff\t null
    """
    return "null" if data is None else printable(data.decode("utf-8", "backslashreplace"))


def json_line(value: Any) -> str:
    """Return a value as one line of JSON with unsafe characters escaped; values unknown to JSON appear as their repr.

    >>> json_line({"when": (1, None)}), json_line({(1, 2): 3j})
    ('{"when":[1,null]}', '{"(1, 2)":"3j"}')
    """
    encoded = msgspec.json.encode(value, enc_hook=repr).decode()
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)


def format_value(value: Any) -> str:
    """Return a table's value for display: text as it is, anything else as JSON."""
    return printable(value) if isinstance(value, str) else json_line(value)


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural.

    >>> format_count(1, "batch"), format_count(1200, "record")
    ('1 batch', '1,200 records')
    """
    ending = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{ending}"


def parse_json(data: bytes | None) -> Any:
    """Return the value that JSON text encodes; other bytes, and data that is nested too deeply, as text or base64."""
    try:
        return None if data is None else _decode_json(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return decode_text(data)


def decode_text(data: bytes | None) -> Any:
    """Return bytes as text, or as base64 if they are not UTF-8."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}
