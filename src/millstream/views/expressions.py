"""A small filter language for records, such as ``value.amount >= 40 and key startswith "a"``.

It can only compare; an expression is never run as code. The fields are ``key``, ``value``, ``timestamp``, ``offset``,
``partition`` and ``headers.NAME``; ``.name`` and ``[0]`` select nested values. A comparison of different types, such
as text with a number, or with a missing field, is false.
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

_MAX_LENGTH = 1000
_MAX_DEPTH = 30
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)|"""
    r"""(?P<word>[A-Za-z_][\w-]*)|(?P<sign><=|>=|==|!=|[=<>().\[\]]))"""
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_MISSING = object()


def _text_only(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: isinstance(left, str) and isinstance(right, str) and compare(left, right)


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
    "startswith": _text_only(str.startswith),
    "endswith": _text_only(str.endswith),
}
_FIELDS: dict[str, Callable[[Record], Any]] = {
    "key": lambda record: decode_text(record.key),
    "value": lambda record: parse_json(record.value),
    "timestamp": lambda record: record.timestamp,
    "offset": lambda record: record.offset,
    "partition": lambda record: record.partition,
    "headers": lambda record: {name: decode_text(value) for name, value in record.headers},
}


class _Fields:
    """The fields of a record, each decoded at most once, however often an expression uses it."""

    __slots__ = ("_decoded", "_record")

    def __init__(self, record: Record) -> None:
        self._record = record
        self._decoded: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        if name not in self._decoded:
            self._decoded[name] = _FIELDS[name](self._record)
        return self._decoded[name]


_Condition: TypeAlias = Callable[[_Fields], bool]
_Getter: TypeAlias = Callable[[_Fields], Any]


def predicate(text: str) -> Predicate:
    """Return a function that evaluates an expression for a record.

    >>> is_large = predicate('value.amount > 40 and not key contains "test"')
    >>> is_large(Record("rides", 0, 0, b"k1", b'{"amount": 41.5}', 0))
    True
    """
    if len(text) > _MAX_LENGTH:
        raise DefinitionError(f"an expression of {len(text)} characters is too long", hint=f"use up to {_MAX_LENGTH}")
    parser = _Parser(text)
    parsed = parser.disjunction(0)
    if parser.token[0] != "end":
        parser.reject("and, or, or the end")
    return lambda record: parsed(_Fields(record))


class _Parser:
    """Parses an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._index = 0
        self.token: tuple[str, str] = ("", "")
        self._next()

    def reject(self, expected: str) -> NoReturn:
        actual = repr(self.token[1]) if self.token[0] != "end" else "the end"
        raise DefinitionError(
            f"the expression {self._text!r:.120} has {actual} where {expected} is expected",
            hint="for example: value.amount >= 40 and key startswith 'a'",
        )

    def disjunction(self, depth: int) -> _Condition:
        terms = [self._conjunction(depth)]
        while self._accept("or"):
            terms.append(self._conjunction(depth))
        return terms[0] if len(terms) == 1 else lambda fields: any(term(fields) for term in terms)

    def _conjunction(self, depth: int) -> _Condition:
        terms = [self._term(depth)]
        while self._accept("and"):
            terms.append(self._term(depth))
        return terms[0] if len(terms) == 1 else lambda fields: all(term(fields) for term in terms)

    def _term(self, depth: int) -> _Condition:
        if depth > _MAX_DEPTH:
            self.reject("a less deeply nested expression")
        if self._accept("not"):
            negated = self._term(depth + 1)
            return lambda fields: not negated(fields)
        if self._accept("("):
            grouped = self.disjunction(depth + 1)
            if not self._accept(")"):
                self.reject("a closing parenthesis")
            return grouped
        return self._comparison()

    def _comparison(self) -> _Condition:
        get = self._field()
        word = self.token[1]
        if self.token[0] not in ("word", "sign") or word not in _OPERATORS:
            return lambda fields: get(fields) is not _MISSING
        self._next()
        compare, literal = _OPERATORS[word], self._literal()

        def is_true(fields: _Fields) -> bool:
            value = get(fields)
            try:
                return value is not _MISSING and bool(compare(value, literal))
            except TypeError:
                return False

        return is_true

    def _field(self) -> _Getter:
        kind, name = self.token
        if kind != "word" or name not in _FIELDS:
            self.reject(f"one of {', '.join(_FIELDS)}")
        self._next()
        path: list[Any] = []
        while self.token[1] in (".", "[") and self.token[0] == "sign":
            path.append(self._step())
        if path:
            return lambda fields: _nested(fields.get(name), path)
        return lambda fields: fields.get(name)

    def _step(self) -> Any:
        in_brackets = self.token[1] == "["
        self._next()
        kind, text = self.token
        if kind not in (("number", "text") if in_brackets else ("word", "number", "text")):
            self.reject("a name or a number")
        self._next()
        if in_brackets and not self._accept("]"):
            self.reject("a closing bracket")
        return _unquoted(text) if kind == "text" else int(text) if in_brackets and text.lstrip("-").isdigit() else text

    def _literal(self) -> Any:
        kind, text = self.token
        if kind == "number":
            self._next()
            try:
                return msgspec.json.decode(text.encode()) if re.fullmatch(r"-?(0|[1-9].*|0\..*)", text) else float(text)
            except msgspec.DecodeError:  # out of range
                return float(text)
        if kind == "text":
            self._next()
            return _unquoted(text)
        if kind == "word":
            self._next()
            return _CONSTANTS.get(text, text)
        return self.reject("a number, a text in quotes, true, false or null")

    def _accept(self, text: str) -> bool:
        if self.token[0] in ("word", "sign") and self.token[1] == text:
            self._next()
            return True
        return False

    def _next(self) -> None:
        if not self._text[self._index :].strip():
            self.token = ("end", "")
            return
        match = _TOKEN.match(self._text, self._index)
        if match is None:
            self.token = ("unknown", self._text[self._index :].strip()[:1])
            self.reject("a field, a comparison or a value")
        self._index = match.end()
        self.token = (match.lastgroup or "", match[match.lastgroup or 0])


def _nested(value: Any, path: list[Any]) -> Any:
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return _MISSING
    return value


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[0] == '"' else text[1:-1]
