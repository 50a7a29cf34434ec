"""Functions of users: Python functions, generators and classes, declared with SQL types.

A call of such a function carries its declaration, so the text of an expression is all that another process needs to
compute it: it imports the code that the declaration names.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from millstream.errors import DefinitionError
from millstream.foundation.user_code import register, resolve
from millstream.sql.functions.registry import FUNCTIONS, Overload
from millstream.sql.functions.tables import TABLE_FUNCTIONS
from millstream.sql.nodes import AnyExpression, Call
from millstream.sql.parser.cursor import TokenCursor
from millstream.sql.python_types import annotation_type
from millstream.sql.types import Type, array

FunctionKind = Literal["FUNCTION", "TABLE FUNCTION", "AGGREGATE FUNCTION"]
_METHODS: Final = ("start", "add", "merge", "finish")


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What SQL knows of a function: its kind, types and the Python code that it is."""

    kind: FunctionKind
    name: str
    parameters: tuple[Type, ...]
    nullable: tuple[bool, ...]
    """For each parameter whether the function is called if the argument is null."""
    is_variadic: bool = False
    """Whether the last parameter repeats."""
    result: Type
    reference: str

    def __str__(self) -> str:
        pairs = zip(self.parameters, self.nullable, strict=True)
        types = ", ".join(f"{type} NULL" if nullable else str(type) for type, nullable in pairs)
        dots = " VARIADIC" if self.is_variadic else ""
        return f"{self.kind} {self.name}({types}{dots}) RETURNS {self.result} AS '{self.reference}'"

    @property
    def required(self) -> tuple[int, ...]:
        """The numbers of the parameters that must not be null."""
        return tuple(number for number, nullable in enumerate(self.nullable) if not nullable)


@lru_cache(1000)
def parse_declaration(text: str) -> Declaration:
    """Return the declaration that a text spells."""
    cursor = TokenCursor(text)
    kind: FunctionKind = "FUNCTION"
    if cursor.take_word("TABLE"):
        kind = "TABLE FUNCTION"
    elif cursor.take_word("AGGREGATE"):
        kind = "AGGREGATE FUNCTION"
    cursor.expect_word("FUNCTION")
    name = cursor.name()
    cursor.expect_symbol("(")
    parameters: list[Type] = []
    nullable: list[bool] = []
    is_variadic = False
    while not cursor.take_symbol(")"):
        parameters.append(_any_decimal(cursor))
        nullable.append(cursor.take_word("NULL"))
        is_variadic = cursor.take_word("VARIADIC")
        cursor.take_symbol(",")
    cursor.expect_word("RETURNS")
    result = cursor.type()
    cursor.expect_word("AS")
    return Declaration(
        kind=kind,
        name=name,
        parameters=tuple(parameters),
        nullable=tuple(nullable),
        is_variadic=is_variadic,
        result=result,
        reference=cursor.string("a reference"),
    )


def _any_decimal(cursor: TokenCursor) -> Type:
    """Return the next type; DECIMAL without digits is any decimal."""
    if cursor.is_word("DECIMAL") and not cursor.is_symbol("(", 1):
        cursor.advance()
        return Type("DECIMAL")
    return cursor.type()


def declare(
    target: Any, name: str, *, takes: Iterable[tuple[Type, bool]] | None = None, returns: Type | None = None
) -> Declaration:
    """Return the declaration of Python code; types that are not given are those of its annotations."""
    reference = register(target)
    kind, call, result_of = _parts(target, name)
    hints = typing.get_type_hints(call)
    given = list(inspect.signature(call).parameters.values())
    if kind == "AGGREGATE FUNCTION":
        given = given[2:]  # self and the state
    is_variadic = bool(given) and given[-1].kind is inspect.Parameter.VAR_POSITIONAL
    pairs = list(takes) if takes is not None else [_parameter(name, hints, each) for each in given]
    result = returns if returns is not None else _result(name, kind, typing.get_type_hints(result_of).get("return"))
    return Declaration(
        kind=kind,
        name=name,
        parameters=tuple(type for type, _ in pairs),
        nullable=tuple(nullable for _, nullable in pairs),
        is_variadic=is_variadic,
        result=result,
        reference=reference,
    )


def _parts(target: Any, name: str) -> tuple[FunctionKind, Callable[..., Any], Callable[..., Any]]:
    """Return the kind of a function, what it is called with, and what returns its result."""
    methods: Any = target
    if inspect.isclass(target):
        missing = [method for method in _METHODS if not callable(getattr(target, method, None))]
        if missing:
            raise DefinitionError(
                f"the aggregate function {name} has no method {missing[0]}",
                hint="its class needs start, add, merge and finish, and remove to aggregate tables",
            )
        return "AGGREGATE FUNCTION", methods.add, methods.finish
    if not callable(target):
        raise DefinitionError(f"{target!r} is not a function", hint="give a function, a generator or a class")
    return "TABLE FUNCTION" if inspect.isgeneratorfunction(target) else "FUNCTION", target, target


def _parameter(name: str, hints: dict[str, Any], parameter: inspect.Parameter) -> tuple[Type, bool]:
    type, nullable = annotation_type(hints.get(parameter.name, inspect.Parameter.empty))
    if type is None:
        raise DefinitionError(
            f"the parameter {parameter.name} of the function {name} has no type that SQL knows",
            hint="annotate it with bool, int, float, str, bytes, Decimal, dates, times, or lists and dicts of them",
        )
    return type, nullable


def _result(name: str, kind: FunctionKind, annotation: Any) -> Type:
    if kind == "TABLE FUNCTION":
        annotation = next(iter(typing.get_args(annotation)), inspect.Parameter.empty)
    empty = inspect.Parameter.empty
    type = annotation_type(empty if annotation is None else annotation)[0]
    if type is None or type == Type("DECIMAL"):
        raise DefinitionError(
            f"the result of the function {name} has no type that SQL knows",
            hint="annotate it, or give it: RETURNS DECIMAL(10, 2), in Python returns=",
        )
    return type


# Calls


def parameters_for(declaration: Declaration, count: int) -> tuple[Type, ...] | None:
    """Return the types of that many arguments, None if the function does not take that many."""
    call = Overload(declaration.parameters, declaration.is_variadic, declaration.result, resolve, takes_nulls=True)
    return call.expanded(count)


def overloads_of(node: Call) -> list[Overload] | None:
    """Return the signatures of the function that is called, None if it is unknown."""
    return [_overload(node.declaration)] if node.declaration else FUNCTIONS.get(node.name)


def _overload(text: str) -> Overload:
    declaration = parse_declaration(text)
    call = _called(resolve(declaration.reference), declaration)
    result = array(declaration.result) if declaration.kind == "TABLE FUNCTION" else declaration.result
    takes_nulls = any(declaration.nullable)
    return Overload(declaration.parameters, declaration.is_variadic, result, call, takes_nulls)


def _called(code: Callable[..., Any], declaration: Declaration) -> Callable[..., Any]:
    """Return the function as expressions call it: null for a null that it does not take, a list of a generator."""
    call = code if declaration.kind == "FUNCTION" else lambda *values: list(code(*values))
    if all(declaration.nullable) or not any(declaration.nullable):
        return call
    required = declaration.required

    def strict(*values: Any) -> Any:
        return None if any(values[number] is None for number in required) else call(*values)

    return strict


def is_table_function(node: AnyExpression) -> bool:
    """Whether an expression is a call whose result is one value for each of several rows."""
    if not isinstance(node, Call):
        return False
    return node.declaration.startswith("TABLE") if node.declaration else node.name in TABLE_FUNCTIONS
