"""The functions of users that ksqlDB's cases call, known by their names and by what the cases expect of them.

They are known only while a case runs: a program that uses Millstream never sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

from millstream.aggregations import Sum
from millstream.foundation.user_code import UserAggregation
from millstream.sql.aggregates import AGGREGATES, Build, TypeOf, Use
from millstream.sql.functions.registry import FUNCTIONS, Overload, Returns, bind, parse_signature
from millstream.sql.functions.tables import TABLE_FUNCTIONS
from millstream.sql.nodes import AnyExpression, Call, Constant
from millstream.sql.problems import Problem
from millstream.sql.types import BIGINT, INTEGER, NULL, STRING, Type, array, decimal


@contextmanager
def test_functions() -> Iterator[None]:
    """Let SQL call the functions of the cases inside the block."""
    FUNCTIONS.update(_SCALARS)
    AGGREGATES.update(_AGGREGATES)
    TABLE_FUNCTIONS.update(_TABLES)
    try:
        yield
    finally:
        for name in _SCALARS:
            del FUNCTIONS[name]
        for name in _AGGREGATES:
            del AGGREGATES[name]
        TABLE_FUNCTIONS.difference_update(_TABLES)


# Functions of a row


def _overload(
    signature: str, call: Callable[..., Any], *, nulls: bool = False, returns: Returns | None = None
) -> Overload:
    parameters, is_variadic, result = parse_signature(signature)
    return Overload(parameters, is_variadic, returns or result, call, nulls)


def _named(signature: str, result: str) -> Overload:
    """Return a signature whose result is its name."""
    return _overload(signature, lambda *_: result, nulls=True)


def _expected(value: Any, is_evaluated: bool) -> Any:
    if not is_evaluated:
        raise ValueError("a branch that is not taken was evaluated")
    return value


def _fail(*_: Any) -> Any:
    raise ValueError("this function always fails")


def _fail_if(fails: bool) -> list[bool]:
    return [_fail()] if fails else [fails]


def _same(value: Any) -> list[Any]:
    return [value]


def _texts(*values: Any) -> list[str]:
    return [_text(value) for value in values]


def _firsts(*values: Any) -> list[str]:
    return [_text(next(iter(value.values() if isinstance(value, dict) else value))) for value in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"Struct{{{','.join(f'{name}={_text(item)}' for name, item in value.items())}}}"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


_KINDS: Final = ("INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "DECIMAL", "STRUCT")


def _wide(_types: tuple[Type, ...]) -> Type:
    return array(decimal(30, 10))


_TABLES: Final = frozenset({"TEST_UDTF", "THROWING_UDTF"})
_SCALARS: Final[dict[str, list[Overload]]] = {
    "WHENCONDITION": [_overload("BOOLEAN, BOOLEAN -> BOOLEAN", _expected)],
    "WHENRESULT": [_overload("INTEGER, BOOLEAN -> INTEGER", _expected)],
    "BAD_UDF": [_overload(f"{kind} -> {kind}", _fail) for kind in ("INTEGER", "BOOLEAN", "STRING")],
    "TEST_UDF": [
        _named("INTEGER, STRING -> STRING", "doStuffIntString"),
        _named("BIGINT, STRING -> STRING", "doStuffLongString"),
        _named("BIGINT, BIGINT, STRING -> STRING", "doStuffLongLongString"),
        _named("BIGINT... -> STRING", "doStuffLongVarargs"),
        _overload("STRUCT -> STRING", lambda struct: struct["A"]),
    ],
    "TEST_UDTF": [
        *(
            _overload(f"{kind} -> ARRAY<{kind}>", _same, returns=_wide if kind == "DECIMAL" else None)
            for kind in _KINDS[:-1]
        ),
        _overload("STRUCT -> ANY", _same, returns=lambda types: array(types[0])),
        _overload(f"{', '.join(_KINDS)} -> ARRAY<STRING>", _texts),
        _overload(f"{', '.join(f'ARRAY<{kind}>' for kind in _KINDS)} -> ARRAY<STRING>", _firsts),
        _overload(f"{', '.join(f'MAP<STRING, {kind}>' for kind in _KINDS)} -> ARRAY<STRING>", _firsts),
    ],
    "THROWING_UDTF": [_overload("BOOLEAN -> ARRAY<BOOLEAN>", _fail_if)],
}


# Aggregates


class Lengths:
    """Sums numbers and the lengths of texts; begins with the first argument."""

    def start(self) -> None:
        """Return what stands for no rows."""

    def add(self, state: int | None, first: int, *values: Any) -> int:
        """Return the sum with another row."""
        parts = (len(value) if isinstance(value, str) else value or 0 for value in values)
        return (first if state is None else state) + sum(parts)

    def merge(self, earlier: int, later: int) -> int:
        """Return the sum of both."""
        return earlier + later

    def finish(self, state: int | None) -> int:
        """Return the sum."""
        return state or 0


class CompleteRows:
    """Collects the first argument of rows without a null."""

    def start(self) -> list[Any]:
        """Return what stands for no rows."""
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        """Return the list with another row."""
        return state if None in values else [*state, values[0]]

    def merge(self, earlier: list[Any], later: list[Any]) -> list[Any]:
        """Return both lists as one."""
        return [*earlier, *later]

    def finish(self, state: list[Any]) -> list[Any]:
        """Return the list."""
        return state


def _use(kind: type, call: Call, arguments: Sequence[AnyExpression], result: Type) -> Use:
    listed = Call(name="_LIST", arguments=tuple(arguments), offset=call.offset)
    return Use(UserAggregation(f"{kind.__module__}:{kind.__name__}"), listed, result)


def _lengths(*, before: int, initial: tuple[Type, ...], repeats_text: bool, repeats_initial: bool = False) -> Build:
    """Return an aggregate of a BIGINT, that many STRING and then constants, of which it sums up what they are."""

    def build(call: Call, type_of: TypeOf) -> Use:
        types = [type_of(argument) for argument in call.arguments]
        end = len(types) - len(initial)
        if repeats_initial:
            end = before
        texts = types[1:end]
        matches = (
            end >= before
            and bool(types)
            and bind(BIGINT, types[0], {}) is not None
            and all(type in (STRING, NULL) for type in texts)
            and (repeats_text or len(texts) == before - 1)
            and tuple(types[end : end + len(initial)]) == initial
            and all(type == STRING for type in types[end + len(initial) :])
            and all(isinstance(argument, Constant) for argument in call.arguments[end:])
        )
        if not matches:
            raise Problem(call.offset, f"{call.name} does not take ({', '.join(map(str, types))})")
        constants = [part for part in call.arguments[end:] if isinstance(part, Constant)]
        total = sum(len(part.text) if part.kind == "text" else int(part.text) for part in constants)
        first = Constant(kind="integer", text=str(total), offset=call.offset)
        return _use(Lengths, call, (first, *call.arguments[:end]), BIGINT)

    return build


def _complete_rows(first: str, others: str) -> Build:
    """Return an aggregate whose arguments match a signature; the last parameter repeats."""

    def build(call: Call, type_of: TypeOf) -> Use:
        types = [type_of(argument) for argument in call.arguments]
        parameters, is_variadic, _ = parse_signature(f"{first}, {others} -> ANY")
        expanded = Overload(parameters, is_variadic, NULL, _fail, takes_nulls=True).expanded(len(types))
        bound: dict[str, Type] = {}
        if expanded is None or any(bind(mine, its, bound) is None for mine, its in zip(expanded, types, strict=True)):
            raise Problem(call.offset, f"{call.name} does not take ({', '.join(map(str, types))})")
        if any(len(mine.kind) == 1 and bound[mine.kind] != its for mine, its in zip(expanded, types, strict=True)):
            raise Problem(call.offset, f"{call.name} does not take ({', '.join(map(str, types))})")
        return _use(CompleteRows, call, call.arguments, array(types[0]))

    return build


def _total(call: Call, type_of: TypeOf) -> Use:
    types = [type_of(argument) for argument in call.arguments]
    if len(types) != 1 or types[0] not in (INTEGER, BIGINT):
        raise Problem(call.offset, f"{call.name} does not take ({', '.join(map(str, types))})")
    return Use(Sum(), call.arguments[0], BIGINT, 0)


_AGGREGATES: Final[dict[str, Build]] = {
    "TEST_UDAF": _total,
    "VAR_ARG": _lengths(before=1, initial=(), repeats_text=True),
    "MID_VAR_ARG": _lengths(before=1, initial=(INTEGER, INTEGER), repeats_text=True),
    "MULTI_ARG": _lengths(before=2, initial=(INTEGER,), repeats_text=False, repeats_initial=True),
    "GENERIC_VAR_ARG": _complete_rows("A", "B, C..."),
    "OBJ_COL_ARG": _complete_rows("INTEGER", "ANY..."),
}
