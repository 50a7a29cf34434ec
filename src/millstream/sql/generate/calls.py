"""Calls of functions, with lambdas."""

from __future__ import annotations

import re

from millstream.sql.coercion import (
    can_pass,
)
from millstream.sql.functions.arrays import if_null
from millstream.sql.functions.registry import Overload, bind, similar_names, substitute
from millstream.sql.functions.user import overloads_of
from millstream.sql.generate.code import Code, Generator, code_of
from millstream.sql.nodes import (
    AnyExpression,
    Call,
    Column,
    Constant,
    Lambda,
)
from millstream.sql.problems import Problem
from millstream.sql.types import (
    LAMBDA,
    NULL,
    UNIT,
    Type,
)

_CONSTANT = re.compile(r"\(-?\d+\)|c\d+")
"""Code of a constant."""
UNITS = frozenset(["MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"])


def is_unit(name: str) -> bool:
    """Whether a name is a unit of time, such as DAYS."""
    return name.removesuffix("S") in UNITS


@code_of.register
def _call(node: Call, generator: Generator) -> Code:
    overloads = overloads_of(node)
    if overloads is None:
        raise Problem(node.offset, f"function {node.name} is unknown", similar_names(node.name))
    arguments = [_argument(generator, argument, overloads, number) for number, argument in enumerate(node.arguments)]
    types = [LAMBDA if code is None else code.type for code in arguments]
    overload, parameters, bound = _resolve(node, overloads, types)
    texts, checked = [], []
    for argument, code, parameter in zip(node.arguments, arguments, parameters, strict=True):
        if code is None:
            assert isinstance(argument, Lambda)
            texts.append(_lambda_code(generator, argument, parameter, bound))
        else:
            target = substitute(parameter, bound)
            if parameter.kind in ("UNIT", "ANY", "STRUCT") or NULL in (code.type, target):
                converted = code
            else:
                converted = _argument_converted(generator, code, target, argument.offset)
            texts.append(converted.text)
        checked.append(code is not None and parameter.kind not in ("UNIT", "LAMBDA"))
    result = overload.result
    if callable(result):
        actual = tuple(
            LAMBDA
            if code is None
            else substitute(parameter, bound)
            if parameter.kind not in ("UNIT", "ANY", "STRUCT")
            else code.type
            for code, parameter in zip(arguments, parameters, strict=True)
        )
        result_type = result(actual)
    else:
        result_type = substitute(result, bound)
    return Code(_call_text(generator, overload, texts, checked), result_type)


def _argument_converted(generator: Generator, code: Code, target: Type, offset: int) -> Code:
    if code.literal is not None and target.is_time:
        return generator.converted(code, target, offset)
    if code.type == target or not can_pass(code.type, target):
        return code
    return generator.converted(code._replace(literal=None), target, offset)


def _call_text(generator: Generator, overload: Overload, texts: list[str], checked: list[bool]) -> str:
    if generator.guards and texts:
        names = [generator.variable() for _ in texts]
        call = _unguarded_text(generator, overload, names, checked)
        return f"guard(lambda {', '.join(names)}: {call}, {', '.join(texts)})"
    return _unguarded_text(generator, overload, texts, checked)


def _unguarded_text(generator: Generator, overload: Overload, texts: list[str], checked: list[bool]) -> str:
    call = generator.constant(overload.call)
    if overload.call is if_null and _CONSTANT.fullmatch(texts[1]):
        name = generator.variable()  # no call for what every SUM contains
        return f"({texts[1]} if ({name} := {texts[0]}) is None else {name})"
    if overload.takes_nulls:
        return f"{call}({', '.join(texts)})"
    strict = [text for text, check in zip(texts, checked, strict=True) if check]

    def build(*names: str) -> str:
        remaining = iter(names)
        values = (next(remaining) if check else text for text, check in zip(texts, checked, strict=True))
        return f"{call}({', '.join(values)})"

    return generator.strict(strict, build)


def _argument(generator: Generator, node: AnyExpression, overloads: list[Overload], number: int) -> Code | None:
    """Return the code of an argument; None for a lambda, whose types are not known yet."""
    if isinstance(node, Lambda):
        return None
    takes_unit = any(UNIT in overload.parameters[number : number + 1] for overload in overloads)
    if takes_unit and isinstance(node, Column) and node.source is None and is_unit(node.name):
        return Code(repr(node.name.removesuffix("S")), UNIT)
    return generator.code(node)


def _resolve(
    node: Call, overloads: list[Overload], types: list[Type]
) -> tuple[Overload, tuple[Type, ...], dict[str, Type]]:
    best = _best(overloads, types)
    if len(overloads) > 1 and len(types) > 1 and set(types) == {NULL}:
        raise Problem(node.offset, f"the type of {node.name} is unknown", "CAST an argument: CAST(NULL AS STRING)")
    if best is None:
        texts = [isinstance(argument, Constant) and argument.kind == "text" for argument in node.arguments]
        best = _best(overloads, [NULL if is_text else type for is_text, type in zip(texts, types, strict=True)])
    if best is None:
        given = ", ".join(map(str, types))
        forms = " or ".join(dict.fromkeys(overload.text for overload in overloads))
        raise Problem(node.offset, f"{node.name} does not take ({given})", f"it takes {forms}")
    return best[1:]


def _best(
    overloads: list[Overload], types: list[Type]
) -> tuple[int, Overload, tuple[Type, ...], dict[str, Type]] | None:
    """Return the overload with the fewest conversions; text literals may be NULL here, which matches any type."""
    best: tuple[int, Overload, tuple[Type, ...], dict[str, Type]] | None = None
    for overload in overloads:
        parameters = overload.expanded(len(types))
        if parameters is None:
            continue
        bound: dict[str, Type] = {}
        costs = [bind(parameter, type, bound) for parameter, type in zip(parameters, types, strict=True)]
        if None in costs:
            continue
        cost = sum(cost or 0 for cost in costs) + overload.is_variadic
        if best is None or cost < best[0]:
            best = cost, overload, parameters, bound
    return best


def _lambda_code(generator: Generator, node: Lambda, parameter: Type, bound: dict[str, Type]) -> str:
    *given, result = parameter.items
    if len(given) != len(node.parameters):
        raise Problem(node.offset, f"this lambda takes {len(node.parameters)} parameters", f"it must take {len(given)}")
    names = [generator.variable() for _ in given]
    types = [substitute(type, bound) for type in given]
    generator.lambdas.append(
        {name: Code(code, type) for name, code, type in zip(node.parameters, names, types, strict=True)}
    )
    try:
        body = generator.code(node.body)
        wanted = substitute(result, bound)
        if bind(result, body.type, bound) is None:
            raise Problem(node.body.offset, f"this lambda must return {wanted}, not {body.type}")
        wanted = substitute(result, bound)
        if wanted != body.type and can_pass(body.type, wanted):
            body = generator.converted(body, wanted, node.body.offset)
    finally:
        generator.lambdas.pop()
    return f"(lambda {', '.join(names)}: {body.text})"
