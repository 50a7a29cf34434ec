"""Split SQL text into tokens, and errors that show the place in the text."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple, NoReturn

from millstream.errors import SqlError

MAX_TEXT = 1_000_000
"""The longest text that is parsed, in characters."""
MAX_NUMBER = 1000
"""The longest number, in characters; Python refuses to convert very long ones."""


class Token(NamedTuple):
    """A token; ``text`` of a name is its value (upper case unless quoted), of text its content."""

    kind: str
    """name, quoted, text, integer, decimal, float, variable, symbol or end."""
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


_PATTERN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<float>(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+)
    |(?P<decimal>\d+\.\d*|\.\d+)
    |(?P<name>[^\W\d][\w@]*|\d+[^\W\d]\w*)
    |(?P<integer>\d+)
    |(?P<quoted>`(?:[^`]|``)*`|"(?:[^"]|"")*")
    |(?P<text>'(?:[^']|'')*')
    |(?P<variable>\$\{[^}]*\})
    |(?P<symbol>=>|->|:=|<=|>=|<>|!=|\|\||/(?!\*)|[-+*%=<>()\[\],.;:?])
    """,
    re.VERBOSE | re.DOTALL,
)


_HALF = re.compile("[\ud800-\udfff]")


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text, the last one of kind ``end``."""
    if len(text) > MAX_TEXT:
        raise SqlError(
            f"a SQL text of {len(text):,} characters is too long", hint=f"use at most {MAX_TEXT:,}, or several files"
        )
    if (half := _HALF.search(text)) is not None:
        refuse(text, half.start(), "half of a character, which UTF-8 cannot represent", "write the whole character")
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _PATTERN.match(text, position)
        if match is None:
            refuse(text, position, _problem(text, position))
        position = match.end()
        kind = match.lastgroup or ""
        if kind in ("integer", "decimal", "float") and len(match[0]) > MAX_NUMBER:
            refuse(text, match.start(), f"a number of {len(match[0]):,} characters is too long")
        if kind != "space":
            tokens.append(Token(kind, _content(kind, match[0]), match.start(), position))
    return [*tokens, Token("end", "", len(text), len(text))]


def _content(kind: str, raw: str) -> str:
    if kind == "name":
        return raw.upper()
    if kind in ("quoted", "text"):
        return raw[1:-1].replace(raw[0] * 2, raw[0])
    return raw[2:-1] if kind == "variable" else raw


def _problem(text: str, position: int) -> str:
    character = text[position]
    if character in "'\"`":
        return f"the quote {character} is not closed"
    return "the comment is not closed" if text.startswith("/*", position) else f"unexpected character {character!r}"


def refuse(text: str, offset: int, message: str, hint: str | None = None) -> NoReturn:
    """Raise the error at an offset of a text, with line, column and the line itself."""
    raise error_at(text, offset, message, hint)


def error_at(text: str, offset: int, message: str, hint: str | None = None) -> SqlError:
    """Return the error at an offset of a text: the message, the place, the line and a caret below it."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    number = bisect_right(starts, max(0, min(offset, len(text)))) - 1
    column = offset - starts[number]
    line = text[starts[number] :].split("\n", 1)[0].replace("\t", " ")
    first = max(0, column - 90)
    excerpt = line[first : first + 110].rstrip()
    picture = f"\n  {excerpt}\n  {' ' * (column - first)}^"
    hint = None if hint is None else f"{hint}{picture}"
    message = f"line {number + 1}, column {column + 1}: {message}"
    return SqlError(message if hint else message + picture, hint=hint, line=number + 1, column=column + 1)
