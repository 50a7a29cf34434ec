"""Literals, columns, arithmetic and comparisons."""

from __future__ import annotations

import difflib
from decimal import Decimal

from millstream.sql.arithmetic import arithmetic, comparison
from millstream.sql.coercion import (
    CoercionError,
    decimal_type,
)
from millstream.sql.generate.code import Code, Generator, code_of, is_literal
from millstream.sql.nodes import (
    AnyExpression,
    Binary,
    Call,
    Cast,
    Column,
    Constant,
    IsNull,
    Unary,
)
from millstream.sql.problems import Problem
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
)
from millstream.sql.values import parse_timestamp, to_millis


@code_of.register
def _literal(node: Constant, generator: Generator) -> Code:
    if node.kind == "null":
        return Code("None", NULL, is_safe=True)
    if node.kind == "boolean":
        return Code(node.text.title(), BOOLEAN, is_safe=True)
    if node.kind == "text":
        return Code(repr(node.text), STRING, node.text, is_safe=True)
    if node.kind == "float":
        return Code(generator.constant(float(node.text)), DOUBLE, is_safe=True)
    if node.kind == "decimal":
        number = Decimal(node.text)
        return Code(generator.constant(number), decimal_type(number), is_safe=True)
    whole = int(node.text)
    if not -(2**63) <= whole < 2**63:
        raise Problem(node.offset, f"{node.text} is out of the range of BIGINT", f"write it as a decimal: {whole}.0")
    return Code(f"({whole})", INTEGER if -(2**31) <= whole < 2**31 else BIGINT, is_safe=True)


@code_of.register
def _column(node: Column, generator: Generator) -> Code:
    for parameters in reversed(generator.lambdas):
        if node.source is None and node.name in parameters:
            return parameters[node.name]
    if node.name not in generator.scope:
        similar = difflib.get_close_matches(node.name, generator.scope, 1)
        raise Problem(
            node.offset,
            f"column {node.name} is unknown",
            f"did you mean {similar[0]}?" if similar else f"the columns are {', '.join(generator.scope)}",
        )
    return generator.scope[node.name]


@code_of.register
def _unary(node: Unary, generator: Generator) -> Code:
    operand = generator.code(node.operand)
    if node.operator == "NOT":
        operand = generator.condition(node.operand)
        return Code(generator.strict([operand.text], lambda x: f"not {x}"), BOOLEAN)
    if not operand.type.is_number:
        raise Problem(node.offset, f"{node.operator} needs a number, this is {operand.type}")
    return Code(generator.strict([operand.text], lambda x: f"({node.operator}{x})"), operand.type)


@code_of.register
def _binary(node: Binary, generator: Generator) -> Code:
    operator = node.operator
    if operator in ("AND", "OR"):
        left, right = generator.condition(node.left), generator.condition(node.right)
        return Code(f"({left.text} {operator.lower()} {right.text})", BOOLEAN)
    if operator == "||":
        return generator.code(Call(name="CONCAT", arguments=(node.left, node.right), offset=node.offset))
    left, right = _moments(generator, node)
    if operator in ("+", "-", "*", "/", "%"):
        return _arithmetic(generator, node, left, right)
    return _comparison(generator, node.offset, operator, left, right)


def _moments(generator: Generator, node: Binary) -> tuple[Code, Code]:
    """Return both sides; a text that is compared with a time of the record is a timestamp."""
    left, right = generator.code(node.left), generator.code(node.right)
    sides = ((node.left, right), (node.right, left))
    texts = [_is_row_time(side) and other.literal is not None for side, other in sides]
    return (_millis(left, node) if texts[1] else left), (_millis(right, node) if texts[0] else right)


def _millis(code: Code, node: Binary) -> Code:
    try:
        return Code(f"({to_millis(parse_timestamp(code.literal or ''))})", BIGINT, is_safe=True)
    except ValueError as error:
        raise Problem(node.offset, str(error), "write it as 2020-01-31T23:59:59") from error


def _arithmetic(generator: Generator, node: Binary, left: Code, right: Code) -> Code:
    if node.operator == "+" and left.type == STRING and right.type == STRING:
        return Code(generator.strict([left.text, right.text], lambda x, y: f"({x} + {y})"), STRING)
    result = arithmetic(node.operator, left.type, right.type)
    if result is None:
        raise Problem(node.offset, f"{left.type} {node.operator} {right.type} is not possible", "use numbers, or CAST")
    operands = [left.text, right.text]
    if (left.is_float or right.is_float) and node.operator in ("+", "-", "*") and _are_plain(left, right):
        return Code(generator.strict(operands, lambda x, y: f"({x} {node.operator} {y})"), DOUBLE, is_float=True)
    if generator.lambdas:  # here null is an error of the function that calls the lambda, as in ksqlDB
        return Code(result.code(left.text, right.text, generator.constant), result.type)
    return Code(generator.strict(operands, lambda x, y: result.code(x, y, generator.constant)), result.type)


def _are_plain(*codes: Code) -> bool:
    """Whether Python combines these numbers as they are, with a float among them."""
    return all(code.type in (DOUBLE, INTEGER, BIGINT) for code in codes)


def _comparison(generator: Generator, offset: int, operator: str, left: Code, right: Code) -> Code:
    if operator in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
        if NULL not in (left.type, right.type):
            left, right = _comparable(generator, offset, "=", left, right)
        sign = "!=" if operator == "IS DISTINCT FROM" else "=="
        return Code(f"({left.text} {sign} {right.text})", BOOLEAN)
    if NULL in (left.type, right.type):
        raise Problem(offset, "a comparison with NULL is always false", "use IS NULL or IS NOT NULL")
    left, right = _comparable(generator, offset, operator, left, right)
    sign = {"=": "==", "<>": "!="}.get(operator, operator)
    x, y = (code.text if is_literal(code.text) else generator.variable() for code in (left, right))
    pairs = [(name, code) for name, code in ((x, left), (y, right)) if name != code.text]
    checks = [f"({name} := {code.text}) is not None" for name, code in pairs]
    return Code(f"({' and '.join([*checks, f'{x} {sign} {y}'])})", BOOLEAN)


def _comparable(generator: Generator, offset: int, operator: str, left: Code, right: Code) -> tuple[Code, Code]:
    """Return both sides converted so that Python compares them as SQL does."""
    try:
        target = comparison(operator, left.type, right.type)
    except CoercionError as error:
        raise Problem(offset, str(error), "CAST one side to the type of the other") from error
    if target is None:
        return left, right
    return generator.converted(left, target, offset), generator.converted(right, target, offset)


@code_of.register
def _is_null(node: IsNull, generator: Generator) -> Code:
    text, name = generator.code(node.operand).text, generator.variable()
    return Code(f"(({name} := {text}) is {'not ' if node.negated else ''}None)", BOOLEAN)


@code_of.register
def _cast(node: Cast, generator: Generator) -> Code:
    operand = generator.code(node.operand)
    return Code(generator.converted(operand._replace(literal=None), node.type, node.offset).text, node.type)


def _is_row_time(node: AnyExpression) -> bool:
    return isinstance(node, Column) and node.name.endswith(("ROWTIME", "WINDOWSTART", "WINDOWEND"))
