"""Conversions between types: what CAST does, what happens without it, and the common type of several values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NULL,
    NUMBERS,
    STRING,
    Type,
    array,
    as_decimal,
    decimal,
    map_of,
    struct_of,
)
from millstream.sql.values import (
    as_text,
    float_to_int,
    from_millis,
    parse_boolean,
    parse_date,
    parse_float,
    parse_time,
    parse_timestamp,
    parse_whole,
    scaled,
    to_days,
    wrap32,
    wrap64,
)

Converter: TypeAlias = Callable[[Any], Any]


class CoercionError(ValueError):
    """Values of a type cannot be converted to another one."""


def _same(value: Any) -> Any:
    return value


def _midnight(date: dt.date) -> dt.datetime:
    return from_millis(to_days(date) * 86_400_000)


def _to_decimal(target: Type) -> Converter:
    precision, scale = target.precision, target.scale

    def convert(value: Any) -> Decimal:
        try:
            return scaled(
                Decimal(str(value).strip()) if isinstance(value, float | str) else Decimal(value), precision, scale
            )
        except InvalidOperation as error:
            raise ValueError(f"{value!r} is not a number") from error

    return convert


_CASTS: dict[tuple[str, str], Converter] = {
    ("INTEGER", "BIGINT"): _same,
    ("INTEGER", "DOUBLE"): float,
    ("BIGINT", "INTEGER"): wrap32,
    ("BIGINT", "DOUBLE"): float,
    ("DOUBLE", "INTEGER"): lambda number: float_to_int(number, 32),
    ("DOUBLE", "BIGINT"): lambda number: float_to_int(number, 64),
    ("DECIMAL", "INTEGER"): lambda number: wrap32(int(number)),
    ("DECIMAL", "BIGINT"): lambda number: wrap64(int(number)),
    ("DECIMAL", "DOUBLE"): float,
    ("STRING", "BOOLEAN"): parse_boolean,
    ("STRING", "INTEGER"): lambda text: parse_whole(text, 32),
    ("STRING", "BIGINT"): lambda text: parse_whole(text, 64),
    ("STRING", "DOUBLE"): parse_float,
    ("STRING", "DATE"): parse_date,
    ("STRING", "TIME"): parse_time,
    ("STRING", "TIMESTAMP"): parse_timestamp,
    ("TIMESTAMP", "DATE"): lambda moment: moment.date(),
    ("TIMESTAMP", "TIME"): lambda moment: moment.time(),
    ("DATE", "TIMESTAMP"): _midnight,
}


def cast(source: Type, target: Type) -> Converter | None:
    """Return what CAST does with values that are not null; None if it changes nothing.

    >>> cast(STRING, array(INTEGER))
    Traceback (most recent call last):
    millstream.sql.coercion.CoercionError: a STRING cannot be cast to ARRAY<INTEGER>
    """
    if source in (target, NULL):
        return None
    if target.kind == "STRING":
        if source.kind == "BYTES":
            raise CoercionError(f"a {source} cannot be cast to {target}")
        return as_text if source.kind != "STRUCT" and not source.items else _structured_text(source)
    if target.kind == "DECIMAL" and source.kind in (*NUMBERS, "STRING"):
        return _to_decimal(target)
    if source.kind == target.kind:
        return _cast_items(source, target)
    converter = _CASTS.get((source.kind, target.kind))
    if converter is None:
        raise CoercionError(f"a {source} cannot be cast to {target}")
    return None if converter is _same else converter


def _structured_text(source: Type) -> Converter:
    """Return what writes structs, which need the names of their type, as text."""

    def convert(value: Any, type: Type = source) -> str:
        if value is None:
            return "null"
        if type.kind == "STRUCT":
            items = (f"{name}={convert(value.get(name), item)}" for name, item in type.fields.items())
            return "Struct{" + ",".join(items) + "}"
        if type.kind == "ARRAY":
            return f"[{', '.join(convert(item, type.items[0]) for item in value)}]"
        if type.kind == "MAP":
            pairs = (f"{convert(k, type.items[0])}={convert(v, type.items[1])}" for k, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        return as_text(value)

    return convert


def _cast_items(source: Type, target: Type) -> Converter | None:
    """Return what converts the items of arrays, maps and structs."""
    if source.kind == "ARRAY":
        item = nullable(cast(source.items[0], target.items[0]))
        return lambda values: [item(value) for value in values]
    if source.kind == "MAP":
        key, value_of = (nullable(cast(a, b)) for a, b in zip(source.items, target.items, strict=True))
        return lambda values: {key(k): value_of(v) for k, v in values.items()}
    if source.kind == "STRUCT":
        given = source.fields
        fields = {name: nullable(cast(given.get(name, NULL), type)) for name, type in target.fields.items()}
        return lambda values: {name: convert(values.get(name)) for name, convert in fields.items()}
    return None


def nullable(converter: Converter | None) -> Converter:
    """Return a converter that keeps null."""
    if converter is None:
        return _same
    return lambda value: None if value is None else converter(value)


_RANK = {"INTEGER": 0, "BIGINT": 1, "DECIMAL": 2, "DOUBLE": 3}


def widened(left: Type, right: Type) -> Type | None:
    """Return the number type that holds values of both, None if they are not numbers."""
    if not (left.is_number and right.is_number):
        return None
    if left.kind == right.kind and left.kind != "DECIMAL":
        return left
    if "DOUBLE" in (left.kind, right.kind):
        return DOUBLE
    if "DECIMAL" not in (left.kind, right.kind):
        return BIGINT
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal(min(38, whole + scale), scale)


def can_pass(source: Type, target: Type) -> bool:
    """Whether a value can be used where another type is expected, without CAST."""
    if source in (target, NULL):
        return True
    if source.is_number and target.is_number:
        if target.kind == "DECIMAL" and source.kind in ("INTEGER", "BIGINT", "DECIMAL"):
            narrow = as_decimal(source)
            fits = target.precision - target.scale >= narrow.precision - narrow.scale
            return source.kind != "DECIMAL" or (fits and target.scale >= narrow.scale)
        return _RANK[source.kind] <= _RANK[target.kind]
    if source.kind != target.kind or source.kind not in ("ARRAY", "MAP", "STRUCT"):
        return False
    if source.kind == "STRUCT":
        target_fields = target.fields
        return set(source.names) <= set(target_fields) and all(
            can_pass(type, target_fields[name]) for name, type in source.fields.items()
        )
    return all(can_pass(mine, its) for mine, its in zip(source.items, target.items, strict=True))


def literal_type(text: str) -> Type | None:
    """Return the number or truth type that a text literal spells, None if it spells none."""
    word = text.strip()
    try:
        number = Decimal(word)
    except InvalidOperation:
        return BOOLEAN if word.lower() in ("true", "false", "yes", "no", "t", "f", "y", "n") else None
    if not number.is_finite():
        return None
    if word.lstrip("+-").isdigit():
        return (
            INTEGER if -(2**31) <= number < 2**31 else BIGINT if -(2**63) <= number < 2**63 else decimal(len(word), 0)
        )
    return decimal_type(number)


def decimal_type(number: Decimal) -> Type:
    """Return the smallest DECIMAL type of a number."""
    digits, exponent = number.as_tuple()[1:]
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale + (1 if scale < len(digits) else 0), 1)
    return decimal(precision, scale)


def common(left: Type, right: Type) -> Type:
    """Return the type of an array or CASE with values of both types; raise if there is none."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    number = widened(left, right)
    if number is not None:
        return number
    if "STRING" in (left.kind, right.kind) and not (left.items or right.items):
        return STRING
    if left.kind == right.kind and left.kind in ("ARRAY", "MAP"):
        items = tuple(common(mine, its) for mine, its in zip(left.items, right.items, strict=True))
        return array(items[0]) if left.kind == "ARRAY" else map_of(*items)
    if left.kind == right.kind == "STRUCT":
        fields = left.fields
        for name, type in right.fields.items():
            fields[name] = common(fields[name], type) if name in fields else type
        return struct_of(fields)
    raise CoercionError(f"{left} and {right} have no common type")
