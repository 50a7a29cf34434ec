"""Aggregate functions: the aggregation that each one is, what it aggregates of a row, and its type."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, TypeGuard

import msgspec

from millstream.aggregations import AnyAggregation, Count, CountDistinct, Max, Mean, Min, Sum, Top
from millstream.foundation.ordered_aggregations import Attr, CollectUpTo, Earliest, Latest, TopDistinct
from millstream.foundation.statistics import Correlation, Histogram, Moments
from millstream.foundation.user_code import RemovableUserAggregation, UserAggregation, resolve
from millstream.sql.functions.registry import bind, function
from millstream.sql.functions.user import parameters_for, parse_declaration
from millstream.sql.nodes import AnyExpression, Call, Cast, Constant, Star, Struct
from millstream.sql.problems import Problem
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_PRECISION,
    STRING,
    Type,
    array,
    decimal,
    map_of,
    struct_of,
)

MAX_COLLECTED = 1000
"""How many values COLLECT_LIST, COLLECT_SET and HISTOGRAM keep."""
BOX, PAIR = "_BOX", "_PAIR"
"""Internal functions for arguments that may be null."""


class Use(NamedTuple):
    """How an aggregate function is used in a query."""

    aggregation: AnyAggregation
    argument: AnyExpression
    """What is aggregated of a row; null is left out."""
    type: Type
    default: Any = None
    """The result if nothing was aggregated."""


@function(BOX, "T -> T", nulls=True)
def _box(value: Any) -> list[Any]:
    return [value]


@function(PAIR, "A, B -> ANY", nulls=True)
def _pair(first: Any, second: Any) -> list[Any]:
    return [first, second]


@function("_LIST", "ANY... -> ANY", nulls=True)
def _list(*values: Any) -> list[Any]:
    return list(values)


@function("_RANKED", "A, B -> ANY", nulls=True)
def _ranked(rank: Any, value: Any) -> list[Any] | None:
    return None if rank is None else [rank, value]


@function("_TOTAL", "ARRAY<T> -> T")
def _total(values: list[Any]) -> Any:
    return sum(value for value in values if value is not None)


TypeOf = Callable[[AnyExpression], Type]
Build = Callable[[Call, TypeOf], Use]
AGGREGATES: dict[str, Build] = {}


def _aggregate(*names: str) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        AGGREGATES.update(dict.fromkeys(names, build))
        return build

    return register


def is_aggregate(node: AnyExpression) -> TypeGuard[Call]:
    """Whether an expression is a call of an aggregate function."""
    if not isinstance(node, Call):
        return False
    return node.declaration.startswith("AGGREGATE") if node.declaration else node.name in AGGREGATES


def use_of(call: Call, type_of: TypeOf) -> Use:
    """Return how an aggregate function is used."""
    return _user_use(call, type_of) if call.declaration else AGGREGATES[call.name](call, type_of)


def _user_use(call: Call, type_of: TypeOf) -> Use:
    """Return how a class of the user is used: it gets a list of the arguments."""
    declaration = parse_declaration(call.declaration)
    types = [type_of(argument) for argument in call.arguments]
    parameters = parameters_for(declaration, len(types))
    if parameters is None or any(bind(mine, its, {}) is None for mine, its in zip(parameters, types, strict=True)):
        raise _refuse(call, f"it takes ({', '.join(map(str, declaration.parameters))})", types)
    arguments = tuple(
        argument if target in (type, Type("DECIMAL")) else Cast(operand=argument, type=target, offset=argument.offset)
        for argument, type, target in zip(call.arguments, types, parameters, strict=True)
    )
    kind = RemovableUserAggregation if hasattr(resolve(declaration.reference), "remove") else UserAggregation
    listed = Call(name="_LIST", arguments=arguments, offset=call.offset)
    return Use(kind(declaration.reference, declaration.required), listed, declaration.result)


def _refuse(call: Call, hint: str, types: list[Type] | None = None) -> Problem:
    given = f" ({', '.join(map(str, types))})" if types is not None else " these arguments"
    return Problem(call.offset, f"{call.name} does not take{given}", hint)


def _single_argument(call: Call, type_of: TypeOf) -> tuple[AnyExpression, Type]:
    if len(call.arguments) != 1 or isinstance(call.arguments[0], Star):
        raise _refuse(call, "it takes one argument")
    return call.arguments[0], type_of(call.arguments[0])


def _number(call: Call, type_of: TypeOf) -> tuple[AnyExpression, Type]:
    argument, type = _single_argument(call, type_of)
    if not type.is_number:
        raise _refuse(call, "it takes a number", [type])
    return argument, type


def _constant(call: Call, argument: AnyExpression, kind: str) -> str:
    if not isinstance(argument, Constant) or argument.kind != kind:
        raise Problem(argument.offset, f"this argument of {call.name} must be a constant", f"write a literal {kind}")
    return argument.text


@_aggregate("COUNT")
def _count(call: Call, type_of: TypeOf) -> Use:
    row = Constant(kind="integer", text="1", offset=call.offset)
    if not call.arguments or isinstance(call.arguments[0], Star):
        return Use(Count(), row, BIGINT, 0)
    argument, _ = _single_argument(call, type_of)
    return Use(Count(), argument, BIGINT, 0)


def is_row(argument: AnyExpression) -> bool:
    """Whether what is aggregated is the row itself, as in COUNT(*)."""
    return isinstance(argument, Constant) and argument.kind == "integer" and argument.text == "1"


@_aggregate("COUNT_DISTINCT", "APPROX_COUNT_DISTINCT")
def _count_distinct(call: Call, type_of: TypeOf) -> Use:
    return Use(CountDistinct(), _single_argument(call, type_of)[0], BIGINT, 0)


@_aggregate("SUM")
def _sum(call: Call, type_of: TypeOf) -> Use:
    argument, type = _number(call, type_of)
    zero = Cast(operand=Constant(kind="integer", text="0", offset=call.offset), type=type, offset=call.offset)
    counted = Call(name="IFNULL", arguments=(argument, zero), offset=call.offset)
    return Use(Sum(), counted, _summed(type), _zero(type))


def _summed(type: Type) -> Type:
    return decimal(MAX_PRECISION, type.scale) if type.kind == "DECIMAL" else type


def _zero(type: Type) -> Any:
    return {"DOUBLE": 0.0, "DECIMAL": Decimal(0).scaleb(-type.scale)}.get(type.kind, 0)


@_aggregate("SUM_LIST")
def _sum_list(call: Call, type_of: TypeOf) -> Use:
    argument, type = _single_argument(call, type_of)
    if type.kind != "ARRAY" or not type.items[0].is_number:
        raise _refuse(call, "it takes an array of numbers", [type])
    total = Call(name="_TOTAL", arguments=(argument,), offset=call.offset)
    return Use(Sum(), total, _summed(type.items[0]), _zero(type.items[0]))


@_aggregate("AVG", "MEAN")
def _avg(call: Call, type_of: TypeOf) -> Use:
    argument, _ = _number(call, type_of)
    return Use(Mean(), Cast(operand=argument, type=DOUBLE, offset=call.offset), DOUBLE, 0.0)


@_aggregate("MIN", "MAX")
def _extreme(call: Call, type_of: TypeOf) -> Use:
    argument, type = _single_argument(call, type_of)
    if type.items or type == BOOLEAN:
        raise _refuse(call, "it takes values that have an order", [type])
    return Use(Min() if call.name == "MIN" else Max(), argument, type)


@_aggregate("COLLECT_LIST", "COLLECT_SET")
def _collect(call: Call, type_of: TypeOf) -> Use:
    argument, type = _single_argument(call, type_of)
    aggregation = CollectUpTo(MAX_COLLECTED, distinct=call.name == "COLLECT_SET", nulls=True)
    return Use(aggregation, _boxed(argument), array(type), [])


def limited(use: Use, call: Call, settings: Mapping[str, str]) -> Use:
    """Return COLLECT_LIST and COLLECT_SET with the limit of the settings; a negative one is none."""
    name = f"ksql.functions.{call.name.lower()}.limit"
    if name not in settings or not isinstance(use.aggregation, CollectUpTo):
        return use
    try:
        limit = int(settings[name])
    except ValueError:
        raise Problem(call.offset, f"{name} = {settings[name]!r} is not a whole number", "SET it to a number") from None
    return use._replace(aggregation=msgspec.structs.replace(use.aggregation, limit=sys.maxsize if limit < 0 else limit))


def _boxed(argument: AnyExpression) -> Call:
    return Call(name=BOX, arguments=(argument,), offset=argument.offset)


@_aggregate("LATEST_BY_OFFSET", "EARLIEST_BY_OFFSET")
def _by_offset(call: Call, type_of: TypeOf) -> Use:
    if not 1 <= len(call.arguments) <= 3:
        raise _refuse(call, "it takes a column, and optionally a number and whether nulls are ignored")
    argument, *options = call.arguments
    n, nulls = None, False
    for option in options:
        if isinstance(option, Constant) and option.kind == "boolean":
            nulls = option.text == "FALSE"
        else:
            n = int(_constant(call, option, "integer"))
    if n is not None and n < 1:
        raise Problem(call.offset, f"{call.name} cannot keep {n} values", "use 1 or more")
    kind = Latest if call.name.startswith("LATEST") else Earliest
    type = type_of(argument)
    return Use(kind(n, nulls), _boxed(argument) if nulls else argument, type if n is None else array(type), None)


@_aggregate("TOPK", "TOPKDISTINCT")
def _top(call: Call, type_of: TypeOf) -> Use:
    if len(call.arguments) < 2:
        raise _refuse(call, "it takes a column and a number")
    *columns, count = call.arguments
    n = int(_constant(call, count, "integer"))
    if n < 1:
        raise Problem(count.offset, f"{call.name} cannot keep {n} values", "use 1 or more")
    type = type_of(columns[0])
    if type.items or type == BOOLEAN:
        raise _refuse(call, "its values must have an order", [type])
    if call.name == "TOPKDISTINCT":
        return Use(TopDistinct(n), columns[0], array(type), [])
    if len(columns) == 1:
        return Use(Top(n), columns[0], array(type), [])
    fields = {"sort_col": columns[0], **{f"col{number}": column for number, column in enumerate(columns[1:])}}
    struct = Struct(items=tuple(fields.items()), offset=call.offset)
    argument = Call(name="_RANKED", arguments=(columns[0], struct), offset=call.offset)
    types = struct_of({name: type_of(column) for name, column in fields.items()})
    return Use(Top(n, ranked=True), argument, array(types), [])


@_aggregate("HISTOGRAM")
def _histogram(call: Call, type_of: TypeOf) -> Use:
    argument, type = _single_argument(call, type_of)
    if type != STRING:
        raise _refuse(call, "it takes STRING", [type])
    return Use(Histogram(MAX_COLLECTED), argument, map_of(STRING, BIGINT), {})


@_aggregate("STDDEV_SAMP", "STDDEV_SAMPLE", "STDDEV", "STDDEV_POP", "VAR_SAMP", "VARIANCE", "VAR_POP")
def _moments(call: Call, type_of: TypeOf) -> Use:
    argument, _ = _number(call, type_of)
    results: dict[str, Any] = {
        "STDDEV_SAMP": "var_samp", "STDDEV_SAMPLE": "stddev_samp", "STDDEV": "stddev_samp", "STDDEV_POP": "stddev_pop",
        "VAR_SAMP": "var_samp", "VARIANCE": "var_samp", "VAR_POP": "var_pop",
    }  # fmt: skip
    return Use(Moments(results[call.name]), Cast(operand=argument, type=DOUBLE, offset=call.offset), DOUBLE, 0.0)


@_aggregate("CORRELATION", "CORR")
def _correlation(call: Call, type_of: TypeOf) -> Use:
    if len(call.arguments) != 2:
        raise _refuse(call, "it takes two numbers")
    pair = tuple(Cast(operand=argument, type=DOUBLE, offset=argument.offset) for argument in call.arguments)
    for argument in call.arguments:
        if not type_of(argument).is_number:
            raise _refuse(call, "it takes two numbers", [type_of(argument)])
    return Use(Correlation(), Call(name=PAIR, arguments=pair, offset=call.offset), DOUBLE, float("nan"))


@_aggregate("ATTR")
def _attr(call: Call, type_of: TypeOf) -> Use:
    argument, type = _single_argument(call, type_of)
    return Use(Attr(), _boxed(argument), type)
