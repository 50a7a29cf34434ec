"""The registry of scalar functions: signatures, null rule and aliases.

A signature is written as ``"ARRAY<T>, LAMBDA<T, U> -> ARRAY<U>"``: single letters are type variables, ``DECIMAL`` is
any decimal, the last type of a LAMBDA is its result, and ``...`` after the last parameter repeats it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from millstream.sql.coercion import can_pass, widened
from millstream.sql.types import LAMBDA, NULL, SIMPLE, Type, as_decimal

Returns: TypeAlias = Callable[[tuple[Type, ...]], Type]


class Overload(NamedTuple):
    """One signature of a function."""

    parameters: tuple[Type, ...]
    is_variadic: bool
    result: Type | Returns
    call: Callable[..., Any]
    takes_nulls: bool
    """Whether it is called if an argument is null; otherwise the result is null."""

    @property
    def text(self) -> str:
        dots = "..." if self.is_variadic else ""
        return f"({', '.join(map(str, self.parameters))}{dots})"

    def expanded(self, count: int) -> tuple[Type, ...] | None:
        """Return the types of that many parameters, None if it does not take that many."""
        if not self.is_variadic:
            return self.parameters if len(self.parameters) == count else None
        fixed = self.parameters[:-1]
        return None if count < len(fixed) else (*fixed, *[self.parameters[-1]] * (count - len(fixed)))


FUNCTIONS: dict[str, list[Overload]] = {}
"""All functions by name, aliases too."""

F = TypeVar("F", bound=Callable[..., Any])


def function(names: str, *signatures: str, nulls: bool = False, returns: Returns | None = None) -> Callable[[F], F]:
    """Register a Python function under names separated by spaces; with ``nulls`` it gets null arguments too."""

    def register(call: F) -> F:
        for signature in signatures:
            parameters, is_variadic, result = parse_signature(signature)
            overload = Overload(parameters, is_variadic, returns or result, call, nulls)
            for name in names.split():
                FUNCTIONS.setdefault(name, []).append(overload)
        return call

    return register


_TOKEN = re.compile(r"\s*([A-Z_]+|<|>|,|->|\.\.\.)")


def parse_signature(text: str) -> tuple[tuple[Type, ...], bool, Type]:
    """Return parameters, whether the last one repeats, and the result."""
    tokens = _TOKEN.findall(text)
    parameters: list[Type] = []
    is_variadic = False
    while tokens[0] != "->":
        token = tokens[0]
        if token in (",", "..."):
            is_variadic |= token == "..."  # noqa: S105  # not a password
            tokens.pop(0)
        else:
            parameters.append(_parse_type(tokens))
    tokens.pop(0)
    return tuple(parameters), is_variadic, _parse_type(tokens)


def _parse_type(tokens: list[str]) -> Type:
    kind = tokens.pop(0)
    items: list[Type] = []
    if tokens and tokens[0] == "<":
        while tokens.pop(0) != ">":
            items.append(_parse_type(tokens))
    return SIMPLE.get(kind) or Type(kind, tuple(items))


def is_variable(type: Type) -> bool:
    """Whether a type of a signature stands for any type."""
    return len(type.kind) == 1


def bind(parameter: Type, argument: Type, bound: dict[str, Type]) -> int | None:
    """Match an argument with a parameter; return the cost of its conversion, None if it does not match."""
    if is_variable(parameter):
        return _bind_variable(parameter.kind, argument, bound)
    if argument == NULL or parameter.kind == "ANY":
        return 0 if parameter.kind != "ANY" else 5
    if parameter.kind == "LAMBDA":
        return 0 if argument.kind == LAMBDA.kind else None
    if parameter.kind == "DECIMAL":
        return _decimal_cost(argument, bound)
    if parameter.kind == argument.kind and parameter.items and parameter.kind != "STRUCT":
        costs = [bind(mine, its, bound) for mine, its in zip(parameter.items, argument.items, strict=True)]
        return None if None in costs else sum(cost or 0 for cost in costs)
    if parameter.kind == argument.kind == "STRUCT":
        return 0
    return _COST.get((argument.kind, parameter.kind)) if parameter != argument else 0


_COST = {("INTEGER", "BIGINT"): 1, ("INTEGER", "DOUBLE"): 3, ("BIGINT", "DOUBLE"): 3, ("DECIMAL", "DOUBLE"): 3}


def _decimal_cost(argument: Type, bound: dict[str, Type]) -> int | None:
    if argument.kind not in ("INTEGER", "BIGINT", "DECIMAL"):
        return None
    exact = as_decimal(argument)
    before = bound.get("DECIMAL")
    bound["DECIMAL"] = exact if before is None else widened(before, exact) or exact
    return 0 if argument.kind == "DECIMAL" else 2


def _bind_variable(name: str, argument: Type, bound: dict[str, Type]) -> int | None:
    before = bound.get(name)
    if before is None or before == NULL:
        bound[name] = argument
        return 1
    if can_pass(argument, before):
        return 1
    if can_pass(before, argument):
        bound[name] = argument
        return 1
    return None


def substitute(type: Type, bound: dict[str, Type]) -> Type:
    """Return a type of a signature with its variables replaced."""
    if is_variable(type) or type.kind == "DECIMAL":
        return bound.get(type.kind, type)
    if type.items:
        return Type(type.kind, tuple(substitute(item, bound) for item in type.items), type.names)
    return type


def similar_names(name: str, aggregates: Iterable[str] = ()) -> str:
    """Return a hint for an unknown function; names with a leading underscore are internal."""
    known = [known for known in (*FUNCTIONS, *aggregates) if not known.startswith("_")]
    similar = difflib.get_close_matches(name, known, 1)
    return f"did you mean {similar[0]}?" if similar else "docs/sql/README.md lists all functions"
