"""Regular expressions as Java understands them: their syntax, and the replacements that refer to their groups."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MAX_LENGTH: Final = 10_000_000
"""How many characters the result of a function may have."""
MAX_PATTERN: Final = 10_000

_CLASSES: Final = {
    "Lower": "a-z", "Upper": "A-Z", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "XDigit": "0-9a-fA-F",
    "Space": r"\s", "Blank": r" \t", "Punct": r"!-/:-@\[-`{-~", "ASCII": r"\x00-\x7f",
}  # fmt: skip
_LETTERS: Final = {"L": r"[^\W\d_]", "IsAlphabetic": r"[^\W\d_]"}
_JAVA = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)|\\(?P<negated>[pP])\{(?P<name>\w+)\}|\\(?P<letter>.)|\(\?<(?![=!])|(?P<bracket>\[\]?|\])",
    re.DOTALL,
)
_REPLACEMENT = re.compile(r"\\(.)|\$(\d)|\$\{(\w+)\}|([^\\$]+)|(.)", re.DOTALL)


@lru_cache(1000)
def java_expression(pattern: str) -> re.Pattern[str]:
    r"""Return the regular expression that a pattern of Java means.

    >>> java_expression(r"\p{Upper}\w*").findall("the Mill é")
    ['Mill']
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a pattern has at most {MAX_PATTERN:,} characters, not {len(pattern):,}")
    is_unicode = any(name in pattern for name in (r"\p{L}", r"\p{IsAlphabetic}", "(?U)"))
    parts, start, in_class = [], 0, False
    for match in _JAVA.finditer(pattern):
        parts += [pattern[start : match.start()], _translated(match, in_class=in_class)]
        start = match.end()
        if match["bracket"]:
            in_class = match["bracket"] != "]"
    return re.compile("".join([*parts, pattern[start:]]), 0 if is_unicode else re.ASCII)


def _translated(match: re.Match[str], *, in_class: bool) -> str:
    if match["quoted"] is not None:
        return re.escape(match["quoted"])
    if match["letter"] is not None:
        java = {"h": r" \t\xa0"} if in_class else {"z": r"\Z", "Z": r"(?=\n?\Z)", "h": r"[ \t\xa0]"}
        return java.get(match["letter"], match[0])
    if match["bracket"] is not None:
        return match["bracket"]
    if match["name"] is None:
        return match[0] if in_class else "(?P<"
    return _class(match["name"], is_negated=match["negated"] == "P", in_class=in_class)


def _class(name: str, *, is_negated: bool, in_class: bool) -> str:
    if name in _LETTERS and not is_negated and not in_class:
        return _LETTERS[name]
    if name not in _CLASSES or (is_negated and in_class):
        raise ValueError(f"the class of characters \\p{{{name}}} is not supported here")
    return _CLASSES[name] if in_class else f"[{'^' if is_negated else ''}{_CLASSES[name]}]"


def replaced(pattern: str, new: str, text: str) -> str:
    """Return a text in which all matches are replaced; ``$1`` and ``${name}`` stand for groups."""
    expression = java_expression(pattern)
    parts: list[str] = []
    start = length = 0
    template = _template(new, expression.groups)
    for match in expression.finditer(text):
        added = [text[start : match.start()], *(_part(part, match) for part in template)]
        parts += added
        length += sum(map(len, added))
        if length > MAX_LENGTH:
            raise ValueError(f"the result would have more than {MAX_LENGTH:,} characters")
        start = match.end()
    return "".join([*parts, text[start:]])


def _part(part: str | int | tuple[str], match: re.Match[str]) -> str:
    if isinstance(part, str):
        return part
    return match[part if isinstance(part, int) else part[0]] or ""


@lru_cache(1000)
def _template(new: str, groups: int) -> tuple[str | int | tuple[str], ...]:
    """Return the parts of a replacement: text, numbers of groups, and names of groups in tuples."""
    parts: list[str | int | tuple[str]] = []
    for escaped, number, name, text, other in _REPLACEMENT.findall(new):
        if number:
            if int(number) > groups:
                raise ValueError(f"there is no group {number}")
            parts.append(int(number))
        elif name:
            parts.append((name,))
        elif other:
            raise ValueError(f"a replacement cannot contain {other!r} alone; write \\{other}")
        else:
            parts.append(escaped or text)
    return tuple(parts)
