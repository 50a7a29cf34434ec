"""A small language to choose records by, such as ``value.amount >= 40 and key startswith "a"``.

It only compares; nothing of it is ever run as code. Fields are ``key``, ``value``, ``timestamp``, ``offset``,
``partition`` and ``headers.NAME``, with ``.name`` and ``[0]`` to go inside. A comparison that makes no sense, like a
text with a number, or that looks into what is not there, is not true.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import msgspec

from millstream.errors import DefinitionError
from millstream.foundation.text import decode_text, parse_json
from millstream.records import Record

Predicate: TypeAlias = Callable[[Record], bool]
_Getter: TypeAlias = Callable[[Record], Any]

_LONGEST = 1000
_DEEPEST = 30
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)|"""
    r"""(?P<word>[A-Za-z_][\w-]*)|(?P<sign><=|>=|==|!=|[=<>().\[\]]))"""
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_MISSING = object()


def _within(place: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: isinstance(left, str) and isinstance(right, str) and place(left, right)


def _contains(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    return isinstance(left, list | dict) and not isinstance(right, list | dict) and right in left


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": _contains,
    "startswith": _within(str.startswith),
    "endswith": _within(str.endswith),
}
_FIELDS: dict[str, _Getter] = {
    "key": lambda record: decode_text(record.key),
    "value": lambda record: parse_json(record.value),
    "timestamp": lambda record: record.timestamp,
    "offset": lambda record: record.offset,
    "partition": lambda record: record.partition,
    "headers": lambda record: {name: decode_text(value) for name, value in record.headers},
}


def predicate(text: str) -> Predicate:
    """Return what an expression says of a record.

    >>> is_large = predicate('value.amount > 40 and not key contains "test"')
    >>> is_large(Record("rides", 0, 0, b"k1", b'{"amount": 41.5}', 0))
    True
    """
    if len(text) > _LONGEST:
        raise DefinitionError(f"an expression of {len(text)} characters is too long", hint=f"use up to {_LONGEST}")
    parser = _Parser(text)
    found = parser.either(0)
    if parser.token[0] != "end":
        parser.refuse("and, or, or the end")
    return found


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.token: tuple[str, str] = ("", "")
        self._next()

    def refuse(self, wanted: str) -> NoReturn:
        found = repr(self.token[1]) if self.token[0] != "end" else "the end"
        raise DefinitionError(
            f"the expression {self._text!r:.120} has {found} where {wanted} should be",
            hint="for example: value.amount >= 40 and key startswith 'a'",
        )

    def either(self, depth: int) -> Predicate:
        options = [self._both(depth)]
        while self._takes("or"):
            options.append(self._both(depth))
        return options[0] if len(options) == 1 else lambda record: any(one(record) for one in options)

    def _both(self, depth: int) -> Predicate:
        parts = [self._one(depth)]
        while self._takes("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else lambda record: all(one(record) for one in parts)

    def _one(self, depth: int) -> Predicate:
        if depth > _DEEPEST:
            self.refuse("something less deep")
        if self._takes("not"):
            inner = self._one(depth + 1)
            return lambda record: not inner(record)
        if self._takes("("):
            inside = self.either(depth + 1)
            if not self._takes(")"):
                self.refuse("a closing parenthesis")
            return inside
        return self._comparison()

    def _comparison(self) -> Predicate:
        get = self._field()
        word = self.token[1]
        if self.token[0] not in ("word", "sign") or word not in _OPERATORS:
            return lambda record: get(record) is not _MISSING
        self._next()
        compare, wanted = _OPERATORS[word], self._literal()

        def holds(record: Record) -> bool:
            found = get(record)
            try:
                return found is not _MISSING and bool(compare(found, wanted))
            except TypeError:
                return False

        return holds

    def _field(self) -> _Getter:
        kind, name = self.token
        if kind != "word" or name not in _FIELDS:
            self.refuse(f"one of {', '.join(_FIELDS)}")
        self._next()
        path: list[Any] = []
        while self.token[1] in (".", "[") and self.token[0] == "sign":
            path.append(self._step())
        start = _FIELDS[name]
        return (lambda record: _inside(start(record), path)) if path else start

    def _step(self) -> Any:
        closing = self.token[1] == "["
        self._next()
        kind, text = self.token
        if kind not in (("number", "text") if closing else ("word", "number", "text")):
            self.refuse("a name or a number")
        self._next()
        if closing and not self._takes("]"):
            self.refuse("a closing bracket")
        return _unquoted(text) if kind == "text" else int(text) if closing and text.lstrip("-").isdigit() else text

    def _literal(self) -> Any:
        kind, text = self.token
        if kind == "number":
            self._next()
            return msgspec.json.decode(text.encode()) if re.fullmatch(r"-?(0|[1-9].*|0\..*)", text) else float(text)
        if kind == "text":
            self._next()
            return _unquoted(text)
        if kind == "word":
            self._next()
            return _CONSTANTS.get(text, text)
        return self.refuse("a number, a text in quotes, true, false or null")

    def _takes(self, text: str) -> bool:
        if self.token[0] in ("word", "sign") and self.token[1] == text:
            self._next()
            return True
        return False

    def _next(self) -> None:
        if not self._text[self._at :].strip():
            self.token = ("end", "")
            return
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            self.token = ("unknown", self._text[self._at :].strip()[:1])
            self.refuse("a field, a comparison or a value")
        self._at = match.end()
        self.token = (match.lastgroup or "", match[match.lastgroup or 0])


def _inside(value: Any, path: list[Any]) -> Any:
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return _MISSING
    return value


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[0] == '"' else text[1:-1]
