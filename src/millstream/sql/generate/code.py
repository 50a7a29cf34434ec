"""Code of expressions, and what the generators of all kinds of expressions share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any, NamedTuple

from millstream.sql.coercion import (
    CoercionError,
    Converter,
    cast,
    common,
    literal_type,
    widened,
)
from millstream.sql.nodes import (
    AnyExpression,
)
from millstream.sql.problems import Problem
from millstream.sql.types import (
    BOOLEAN,
    NULL,
    STRING,
    Type,
)


class Code(NamedTuple):
    """Python code of an expression, and its type; ``literal`` is the text of a text literal."""

    text: str
    type: Type
    literal: str | None = None
    is_safe: bool = False
    """Whether it cannot raise."""
    is_float: bool = False
    """Whether it certainly is a float, or null; a DOUBLE of a Python handle can be an int."""


class Generator:
    """Generates code for expressions of one scope."""

    def __init__(self, scope: Mapping[str, Code], *, guards: bool = False) -> None:
        """With ``guards`` a function that raises returns null; without, the whole expression raises."""
        self.scope = scope
        self.guards = guards
        self.names: dict[str, Any] = {}
        self._count = 0
        self.lambdas: list[dict[str, Code]] = []

    def code(self, node: AnyExpression) -> Code:
        """Return the code of an expression."""
        return code_of(node, self)

    def condition(self, node: AnyExpression) -> Code:
        """Return the code of an expression that must be a truth value."""
        code = code_of(node, self)
        if code.type not in (BOOLEAN, NULL):
            raise Problem(node.offset, f"a condition must be BOOLEAN, this is {code.type}", "compare it with a value")
        return code

    def converted(self, code: Code, target: Type, offset: int) -> Code:
        """Return code whose value is converted to a type."""
        if code.type == target:
            return code
        try:
            converter = self._literal_converter(code, target) or cast(code.type, target)
        except (CoercionError, ValueError) as error:
            raise Problem(offset, str(error)) from error
        constant = self._converted_constant(converter, code.text)
        return Code(self._applied(converter, code.text), target) if constant is None else constant._replace(type=target)

    def _converted_constant(self, converter: Converter | None, text: str) -> Code | None:
        """Return a literal that is converted here instead of for every row; None if it is none, or does not convert."""
        if converter is None or not is_literal(text):
            return None
        try:
            return Code(self.constant(converter(self.names[text] if text in self.names else int(text[1:-1]))), NULL)
        except (ValueError, ArithmeticError):  # an error of each row
            return None

    def _literal_converter(self, code: Code, target: Type) -> Converter | None:
        if code.literal is None or target.kind == "STRING":
            return None
        converter = cast(STRING, target)
        if converter is not None:
            try:
                constant = converter(code.literal)
            except (ValueError, ArithmeticError):
                number = literal_type(code.literal)
                if number is None or not (target.is_number and number.is_number):
                    raise ValueError(f"{code.literal!r} is not a valid {target}") from None
                constant = cast(number, target)
                parsed = cast(STRING, number)
                value = code.literal if parsed is None else parsed(code.literal)
                constant = value if constant is None else constant(value)
            return lambda _text: constant
        return None

    def constant(self, value: Any) -> str:
        """Return the name of an object that code can use."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        """Return a new name for a value inside an expression."""
        self._count += 1
        return f"x{self._count}"

    def _applied(self, converter: Callable[[Any], Any] | None, text: str) -> str:
        if converter is None:
            return text
        name = self.variable()
        return f"(None if ({name} := {text}) is None else {self.constant(converter)}({name}))"

    def strict(self, codes: list[str], build: Callable[..., str]) -> str:
        """Return code that is null if an argument is null, and otherwise what ``build`` makes of them."""
        names = [text if is_literal(text) else self.variable() for text in codes]
        checks = [f"({name} := {text}) is None" for name, text in zip(names, codes, strict=True) if name != text]
        return f"(None if {' or '.join(checks)} else {build(*names)})" if checks else build(*names)

    def common_type(self, codes: list[Code], offsets: list[int]) -> Type:
        """Return the type of several values; text literals take the type of the others if they spell such values."""
        target = NULL
        for code, offset in zip(codes, offsets, strict=True):
            try:
                target = self._common(target, code)
            except CoercionError as error:
                raise Problem(offset, str(error), "CAST one of them") from error
        return target

    def _common(self, target: Type, code: Code) -> Type:
        if code.literal is not None and target not in (NULL, STRING):
            spelled = literal_type(code.literal)
            if target.is_number and spelled is not None and spelled.is_number:
                return widened(target, spelled) or target
            if target.is_time or spelled == target:
                return target
            raise CoercionError(f"{code.literal!r} is not a valid {target}")
        if target == STRING and code.type.items:
            raise CoercionError(f"{target} and {code.type} have no common type")
        return common(target, code.type)


def is_literal(text: str) -> bool:
    """Whether code is a constant, which is never null."""
    return _LITERAL.fullmatch(text) is not None


_LITERAL = re.compile(r"\(\d+\)|c\d+")


@singledispatch
def code_of(node: AnyExpression, _generator: Generator) -> Code:
    """Return the code of an expression; each kind of expression registers its own function."""
    raise Problem(node.offset, f"{type(node).__name__} cannot be used here")
