"""BETWEEN, IN, LIKE and CASE."""

from __future__ import annotations

from millstream.sql.coercion import (
    CoercionError,
    common,
    literal_type,
    widened,
)
from millstream.sql.generate.code import Code, Generator, code_of
from millstream.sql.nodes import (
    AnyExpression,
    Array,
    Between,
    Binary,
    Case,
    Constant,
    In,
    Like,
    Struct,
)
from millstream.sql.patterns import like_matcher
from millstream.sql.problems import Problem
from millstream.sql.types import (
    BOOLEAN,
    NULL,
    STRING,
    Type,
    struct_of,
)


@code_of.register
def _between(node: Between, generator: Generator) -> Code:
    low = Binary(operator=">=", left=node.operand, right=node.low, offset=node.offset)
    high = Binary(operator="<=", left=node.operand, right=node.high, offset=node.offset)
    inside = f"({generator.code(low).text} and {generator.code(high).text})"
    return Code(_negated(inside) if node.negated else inside, BOOLEAN)


def _negated(text: str) -> str:
    """Return NOT of a condition: with null the condition is false, so that this is true, as NOT (x IN (1)) is."""
    return f"(not {text})"


@code_of.register
def _in(node: In, generator: Generator) -> Code:
    operand, items = generator.code(node.operand), [generator.code(item) for item in node.items]
    target = operand.type
    for item, code in zip(node.items, items, strict=True):
        target = _in_type(target, code, item)
    texts = [_typed(generator, item, target).text for item in node.items]
    name = generator.variable()
    value = generator.converted(operand, target, node.offset).text
    inside = f"(({name} := {value}) is not None and {name} in ({', '.join(texts)},))"
    return Code(_negated(inside) if node.negated else inside, BOOLEAN)


def _typed(generator: Generator, node: AnyExpression, target: Type) -> Code:
    """Return the code of an item as a type; text literals inside arrays and structs are checked."""
    if isinstance(node, Array) and target.kind == "ARRAY":
        return Code(f"[{', '.join(_typed(generator, item, target.items[0]).text for item in node.items)}]", target)
    if isinstance(node, Struct) and target.kind == "STRUCT":
        given = dict(node.items)
        null = Constant(kind="null", text="NULL", offset=node.offset)
        pairs = (
            f"{name!r}: {_typed(generator, given.get(name, null), type).text}" for name, type in target.fields.items()
        )
        return Code("{" + ", ".join(pairs) + "}", target)
    return generator.converted(generator.code(node), target, node.offset)


def _in_type(target: Type, code: Code, item: AnyExpression) -> Type:
    offset = item.offset
    if code.type in (target, NULL) or target == NULL:
        return target if code.type == NULL else code.type
    number = widened(target, code.type)
    if number is not None:
        return number
    if code.literal is not None:
        kind = literal_type(code.literal)
        if target.is_number and kind is not None and kind.is_number:
            return widened(target, kind) or target
        if not target.is_number:
            return target
    if target == STRING and isinstance(item, Constant):
        return STRING
    if target.kind == code.type.kind and target.items:
        try:
            return _nested_common(target, code.type)
        except CoercionError as error:
            raise Problem(offset, str(error), "CAST it") from error
    raise Problem(offset, f"{code.type} cannot be compared with {target}", "CAST it")


@code_of.register
def _like(node: Like, generator: Generator) -> Code:
    operand, pattern = generator.code(node.operand), generator.code(node.pattern)
    for part, code in ((node.operand, operand), (node.pattern, pattern)):
        if code.type != STRING:
            raise Problem(part.offset, f"LIKE needs STRING, this is {code.type}", "CAST it to STRING")
    if node.escape is not None and len(node.escape) != 1:
        raise Problem(node.offset, f"the escape character {node.escape!r} is not one character")
    matcher = generator.constant(like_matcher(pattern.literal, node.escape))
    x, y = generator.variable(), generator.variable()
    checks = f"({x} := {operand.text}) is not None and ({y} := {pattern.text}) is not None"
    matches = f"({checks} and {matcher}({x}, {y}))"
    return Code(_negated(matches) if node.negated else matches, BOOLEAN)


@code_of.register
def _case(node: Case, generator: Generator) -> Code:
    conditions: list[AnyExpression] = [condition for condition, _ in node.branches]
    if node.operand is not None:
        operand = node.operand
        conditions = [Binary(operator="=", left=operand, right=when, offset=when.offset) for when in conditions]
    results = [result for _, result in node.branches]
    if node.otherwise is not None:
        results.append(node.otherwise)
    codes = [generator.code(result) for result in results]
    target = generator.common_type(codes, [result.offset for result in results])
    if target == NULL:
        raise Problem(node.offset, "all branches of this CASE are NULL", "CAST one of them to the type you want")
    texts = [generator.converted(code, target, result.offset).text for code, result in zip(codes, results, strict=True)]
    text = texts.pop() if node.otherwise is not None else "None"
    for condition, result in zip(reversed(conditions), reversed(texts), strict=True):
        text = f"({result} if {generator.condition(condition).text} else {text})"
    return Code(text, target)


def _nested_common(target: Type, given: Type) -> Type:
    """Return the type of a nested value that is compared; text inside it is converted to the other's numbers."""
    if target.kind == given.kind and target.items and target.kind != "STRUCT":
        items = tuple(_nested_common(mine, its) for mine, its in zip(target.items, given.items, strict=True))
        return Type(target.kind, items)
    if target.kind == given.kind == "STRUCT" and set(given.names) <= set(target.names):
        fields = given.fields
        return struct_of({name: _nested_common(type, fields.get(name, NULL)) for name, type in target.fields.items()})
    return target if given == STRING and not target.items else common(target, given)
