"""The types of arithmetic and comparisons, and the Python code of arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.sql.coercion import CoercionError, widened
from millstream.sql.types import BIGINT, DOUBLE, INTEGER, MAX_PRECISION, STRING, Type, as_decimal, decimal
from millstream.sql.values import EXACT, divide_float, divide_whole, remainder, remainder_float, scaled

_DIVISION = EXACT.copy()
_DIVISION.prec = 60


class Arithmetic(NamedTuple):
    """The type of a result, and what writes its code: from two names and a function that names an object."""

    type: Type
    code: Callable[[str, str, Callable[[Any], str]], str]


def arithmetic(operator: str, left: Type, right: Type) -> Arithmetic | None:
    """Return how two numbers are combined; None if they are not numbers."""
    result = widened(left, right)
    if result is None:
        return None
    if result == DOUBLE:
        return _floats(operator, left, right)
    if result in (INTEGER, BIGINT):
        return _whole(operator, result)
    return _decimals(operator, as_decimal(left), as_decimal(right))


def _floats(operator: str, left: Type, right: Type) -> Arithmetic:
    special = {"/": divide_float, "%": remainder_float}.get(operator)
    if special is not None:
        return Arithmetic(DOUBLE, lambda x, y, named: f"{named(special)}(float({x}), float({y}))")
    if "DECIMAL" in (left.kind, right.kind):
        return Arithmetic(DOUBLE, lambda x, y, _named: f"(float({x}) {operator} float({y}))")
    if left.kind == "DOUBLE":  # one side as float makes the result one
        return Arithmetic(DOUBLE, lambda x, y, _named: f"(float({x}) {operator} {y})")
    return Arithmetic(DOUBLE, lambda x, y, _named: f"({x} {operator} float({y}))")


def _whole(operator: str, type: Type) -> Arithmetic:
    half = "0x80000000" if type == INTEGER else "0x8000000000000000"
    mask = "0xFFFFFFFF" if type == INTEGER else "0xFFFFFFFFFFFFFFFF"
    special = {"/": divide_whole, "%": remainder}.get(operator)
    if special is not None:
        return Arithmetic(type, lambda x, y, named: f"{named(special)}({x}, {y})")
    return Arithmetic(type, lambda x, y, _named: f"((({x} {operator} {y}) + {half} & {mask}) - {half})")


def _decimals(operator: str, left: Type, right: Type) -> Arithmetic:
    type = _decimal_result(operator, left, right)
    operation = {
        "+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply, "/": _DIVISION.divide, "%": EXACT.remainder,
    }[operator]  # fmt: skip
    precision, scale = type.precision, type.scale

    def combine(x: Any, y: Any) -> Any:
        return scaled(operation(x, y), precision, scale)

    return Arithmetic(type, lambda x, y, named: f"{named(combine)}({x}, {y})")


def _decimal_result(operator: str, left: Type, right: Type) -> Type:
    whole = max(left.precision - left.scale, right.precision - right.scale)
    scale = max(left.scale, right.scale)
    if operator in ("+", "-"):
        precision = whole + scale + 1
    elif operator == "*":
        precision, scale = left.precision + right.precision + 1, left.scale + right.scale
    elif operator == "/":
        scale = max(6, left.scale + right.precision + 1)
        precision = left.precision - left.scale + right.scale + scale
    else:
        precision = min(left.precision - left.scale, right.precision - right.scale) + scale
    return decimal(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


_EQUALITY = ("=", "<>")


def comparison(operator: str, left: Type, right: Type) -> Type | None:
    """Return the type to which both sides of a comparison are converted, None if Python compares them as they are."""
    if left.is_number and right.is_number:
        return DOUBLE if "DOUBLE" in (left.kind, right.kind) and left != right else None
    if left == right:
        nested = left.kind in ("ARRAY", "MAP", "STRUCT", "BOOLEAN")
        if nested and operator not in _EQUALITY:
            raise CoercionError(f"{left} has no order, so {operator} is not possible")
        return None
    for type, other in ((left, right), (right, left)):
        if type.is_time and other == STRING:
            return type
        if {type.kind, other.kind} == {"DATE", "TIMESTAMP"} or {type.kind, other.kind} == {"TIME", "TIMESTAMP"}:
            return _common_time(type, other)
    if left.kind == right.kind and left.kind in ("ARRAY", "MAP", "STRUCT") and operator in _EQUALITY:
        raise CoercionError(f"{left} cannot be compared with {right}")
    raise CoercionError(f"{left} cannot be compared with {right} by {operator}")


def _common_time(left: Type, right: Type) -> Type:
    return next(
        type for type in (left, right) if type.kind == ("TIMESTAMP" if "DATE" in (left.kind, right.kind) else "TIME")
    )
