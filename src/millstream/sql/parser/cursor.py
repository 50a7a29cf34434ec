"""A position in the tokens of a text: what all parts of the parser share."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

from millstream.sql.tokens import Token, refuse, tokens_of
from millstream.sql.types import MAX_PRECISION, SIMPLE, Type, array, decimal, map_of, struct_of

MAX_DEPTH = 50
"""How deep expressions and types may be nested."""
P = TypeVar("P")
_UNITS = {
    "MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000, "WEEK": 604_800_000,
    "MONTH": 2_592_000_000, "YEAR": 31_536_000_000,
}  # fmt: skip
MAX_DURATION = 10_000 * _UNITS["YEAR"]
"""The longest duration, in milliseconds."""
RESERVED = frozenset(
    [
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "BY",
        "HAVING",
        "WINDOW",
        "JOIN",
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "OUTER",
        "ON",
        "WITHIN",
        "EMIT",
        "LIMIT",
        "AS",
        "AND",
        "OR",
        "NOT",
        "IN",
        "LIKE",
        "BETWEEN",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST",
        "INSERT",
        "INTO",
        "CREATE",
        "DROP",
        "WITH",
        "VALUES",
        "DISTINCT",
    ]
)
"""Words that are not names unless they are quoted."""


class TokenCursor:
    """Reads tokens one after the other; ``types`` are the types that CREATE TYPE has named."""

    def __init__(self, text: str, types: Mapping[str, Type] | None = None) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.position = 0
        self.types = {} if types is None else types
        self.variables: Mapping[str, str] = {}
        self.functions: Mapping[str, str] = {}
        """The declarations of functions of the user, by name."""
        self.reads_declarations = False
        """Whether quoted names of functions are declarations: in expressions of plans, never in what users write."""
        self._depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def ahead(self, count: int = 1) -> Token:
        """Return a later token."""
        return self.tokens[min(self.position + count, len(self.tokens) - 1)]

    def advance(self) -> Token:
        """Return the current token and move on."""
        token = self.token
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def is_word(self, *words: str) -> bool:
        """Whether the next tokens are these keywords."""
        tokens = self.tokens[self.position : self.position + len(words)]
        return [(token.kind, token.text) for token in tokens] == [("name", word) for word in words]

    def is_symbol(self, symbol: str, ahead: int = 0) -> bool:
        """Whether a token is this symbol."""
        token = self.ahead(ahead)
        return token.kind == "symbol" and token.text == symbol

    def take_word(self, *words: str) -> bool:
        """Move past keywords if they are next."""
        if self.is_word(*words):
            self.position += len(words)
            return True
        return False

    def take_any(self, *words: str) -> str | None:
        """Move past one of several keywords and return it."""
        token = self.token
        if token.kind == "name" and token.text in words:
            self.advance()
            return token.text
        return None

    def take_symbol(self, symbol: str) -> bool:
        """Move past a symbol if it is next."""
        if self.is_symbol(symbol):
            self.advance()
            return True
        return False

    def expect_word(self, *words: str) -> None:
        """Move past keywords, which must be next."""
        for word in words:
            if not self.take_word(word):
                self.unexpected(word, [word])

    def expect_symbol(self, symbol: str) -> None:
        """Move past a symbol, which must be next."""
        if not self.take_symbol(symbol):
            self.unexpected(f"'{symbol}'")

    def unexpected(self, wanted: str, words: list[str] | None = None) -> NoReturn:
        """Refuse the current token; ``words`` are those it might have been meant to be."""
        token, hint = self.token, None
        if token.kind == "variable":
            refuse(self.text, token.start, f"the variable {token.text} is not defined", "use DEFINE before it")
        if words and token.kind == "name":
            similar = difflib.get_close_matches(token.text, words, 1, 0.7)
            hint = f"did you mean {similar[0]}?" if similar else None
        elif token.kind == "name" and token.text in RESERVED:
            hint = f"to use it as a name, quote it: `{token.text}`"
        refuse(self.text, token.start, f"expected {wanted}, not {token.shown}", hint)

    def name(self, what: str = "a name") -> str:
        """Return the name that is next."""
        token = self.token
        if token.kind == "quoted" or (token.kind == "name" and token.text not in RESERVED):
            return self.advance().text
        self.unexpected(what)

    def string(self, what: str) -> str:
        """Return the text in quotes that is next."""
        if self.token.kind != "text":
            self.unexpected(what)
        return self.advance().text

    def integer(self, what: str = "a whole number") -> int:
        """Return the whole number that is next."""
        if self.token.kind != "integer":
            self.unexpected(what)
        return int(self.advance().text)

    def duration(self) -> int:
        """Return a number and a unit of time, in milliseconds."""
        number = self.integer("a number")
        unit = self.token.text
        factor = _UNITS.get(unit.removesuffix("S")) if self.token.kind == "name" else None
        if factor is None:
            self.unexpected("a unit of time such as SECONDS", [f"{name}S" for name in _UNITS])
        if number * factor > MAX_DURATION:
            refuse(self.text, self.token.start, f"{number} {unit} is too long", "use 10,000 YEARS or less")
        self.advance()
        return number * factor

    def list_of(self, parse: Callable[[], P], closing: str = ")") -> tuple[P, ...]:
        """Return items separated by commas, up to a closing symbol."""
        items = [parse()]
        while self.take_symbol(","):
            items.append(parse())
        self.expect_symbol(closing)
        return tuple(items)

    def deeper(self, parse: Callable[[], P]) -> P:
        """Parse something nested, up to a limit."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            refuse(self.text, self.token.start, f"this is nested more than {MAX_DEPTH} levels deep", "split it up")
        try:
            return parse()
        finally:
            self._depth -= 1

    # Types

    def type(self) -> Type:
        """Return the type that is next."""
        return self.deeper(self._type)

    def _type(self) -> Type:
        token = self.token
        name = self.name("a type")
        if token.kind == "name":
            if name in ("DECIMAL", "NUMERIC", "DEC"):
                return self._decimal(token)
            if name in ("VARCHAR", "STRING") and self.take_symbol("("):  # VARCHAR(10): the length is not checked
                self.integer("a length")
                self.expect_symbol(")")
            if name in SIMPLE:
                return SIMPLE[name]
            if self.is_symbol("<") and name in ("ARRAY", "MAP", "STRUCT"):
                return self._nested(name)
        if name in self.types:
            return self.types[name]
        known = [*SIMPLE, "DECIMAL", "ARRAY", "MAP", "STRUCT", *self.types]
        similar = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {similar[0]}?" if similar else "CREATE TYPE makes types of your own"
        refuse(self.text, token.start, f"type {name} is unknown", hint)

    def _decimal(self, token: Token) -> Type:
        self.expect_symbol("(")
        precision = self.integer("the precision")
        scale = self.integer("the scale") if self.take_symbol(",") else 0
        self.expect_symbol(")")
        if not (1 <= precision <= MAX_PRECISION and scale <= precision):
            refuse(
                self.text,
                token.start,
                f"DECIMAL({precision}, {scale}) is not valid",
                f"use a precision from 1 to {MAX_PRECISION} and a scale up to the precision",
            )
        return decimal(precision, scale)

    def _nested(self, name: str) -> Type:
        self.expect_symbol("<")
        if name == "ARRAY":
            item = self.type()
            self.expect_symbol(">")
            return array(item)
        if name == "MAP":
            key = self.type()
            self.expect_symbol(",")
            value = self.type()
            self.expect_symbol(">")
            return map_of(key, value)
        if self.take_symbol(">"):
            return struct_of({})
        return struct_of(dict(self.list_of(lambda: (self.name("a field"), self.type()), ">")))
