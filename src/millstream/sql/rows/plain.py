"""Values as JSON has them: what columns become in JSON, and back, by type."""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import msgspec

from millstream.sql.types import Type
from millstream.sql.values import (
    float_text,
    from_days,
    from_millis,
    from_time_millis,
    parse_boolean,
    parse_whole,
    scaled,
    to_days,
    to_millis,
    to_time_millis,
)

Convert: TypeAlias = Callable[[Any], Any]
_AS_TEXT = msgspec.json.Encoder(decimal_format="number")


def to_plain(type: Type) -> Convert | None:
    """Return what prepares values of a type for JSON, None if they can be written as they are."""
    simple = _TO_PLAIN.get(type.kind)
    if simple is not None:
        return simple
    items = [to_plain(item) for item in type.items]
    if type.kind == "ARRAY" and items[0] is not None:
        item = _nullable(items[0])
        return lambda values: [item(value) for value in values]
    if type.kind == "MAP":
        value_of = _nullable(items[1])
        return lambda values: {_key_text(key): value_of(value) for key, value in values.items()}
    if type.kind == "STRUCT":
        fields = list(zip(type.names, map(_nullable, items), strict=True))
        return lambda values: {name: convert(values.get(name)) for name, convert in fields}
    return None


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else "null" if key is None else str(key)


def _finite(number: float) -> Any:
    return number if math.isfinite(number) else float_text(number)


_TO_PLAIN: dict[str, Convert] = {
    "DATE": to_days,
    "TIME": to_time_millis,
    "TIMESTAMP": to_millis,
    "DOUBLE": _finite,
}


def _nullable(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def from_plain(type: Type) -> Convert:
    """Return what makes a value of a type from parsed JSON; null stays null, values that do not fit raise."""
    convert = _FROM_PLAIN.get(type.kind) or _nested(type)
    return lambda value: None if value is None else convert(value)


def _refuse(value: Any, type: str) -> Any:
    raise ValueError(f"{value!r:.60} is not a valid {type}")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return parse_boolean(value) if isinstance(value, str) else _refuse(value, "BOOLEAN")


def _integer(bits: int, name: str) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if type(value) is int:
            return value if -limit <= value < limit else _refuse(value, name)
        if isinstance(value, str):
            return parse_whole(value, bits)
        if isinstance(value, float | Decimal):
            return int(value)
        return _refuse(value, name)  # type: ignore[no-any-return]

    return convert


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        _refuse(value, "DOUBLE")
    return float(value)


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, float):
        return float_text(value)
    return _AS_TEXT.encode(value).decode()


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return base64.b64decode(value, validate=True) if isinstance(value, str) else _refuse(value, "BYTES")


def _whole(value: Any, name: str) -> int:
    return value if type(value) is int else parse_whole(value, 64) if isinstance(value, str) else _refuse(value, name)


def _date(value: Any) -> dt.date:
    return value if isinstance(value, dt.date) else from_days(_whole(value, "DATE"))


def _time(value: Any) -> dt.time:
    return value if isinstance(value, dt.time) else from_time_millis(_whole(value, "TIME"))


def _timestamp(value: Any) -> dt.datetime:
    return value if isinstance(value, dt.datetime) else from_millis(_whole(value, "TIMESTAMP"))


_FROM_PLAIN: dict[str, Convert] = {
    "BOOLEAN": _boolean,
    "INTEGER": _integer(32, "INTEGER"),
    "BIGINT": _integer(64, "BIGINT"),
    "DOUBLE": _double,
    "STRING": _text,
    "BYTES": _bytes,
    "DATE": _date,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
}


def _nested(type: Type) -> Convert:
    if type.kind == "DECIMAL":
        return lambda value: _decimal(value, type.precision, type.scale)
    if type.kind == "ARRAY":
        item = from_plain(type.items[0])
        return lambda values: (
            [item(value) for value in values] if isinstance(values, list) else _refuse(values, "ARRAY")
        )
    if type.kind == "MAP":
        key, value_of = from_plain(type.items[0]), from_plain(type.items[1])
        return lambda values: (
            {key(k): value_of(v) for k, v in values.items()} if isinstance(values, dict) else _refuse(values, "MAP")
        )
    return object_reader(dict(zip(type.names, type.items, strict=True)))


def object_reader(fields: dict[str, Type]) -> Convert:
    """Return what makes a row of a parsed JSON object; names match in any case, missing fields are null.

    Of several fields with one name, that in upper case is read, else that in lower case, else the last.
    """
    converters = {name: from_plain(type) for name, type in fields.items()}
    known: dict[str, str | None] = {name: name for name in fields}
    upper = {name.upper(): name for name in reversed(list(fields))}
    lower = {name: name.lower() for name in fields}
    nothing = dict.fromkeys(fields)

    def convert(values: Any) -> dict[str, Any]:
        if not isinstance(values, dict):
            _refuse(values, "object")
        row: dict[str, Any] = nothing.copy()
        for raw, value in values.items():
            if raw not in known:
                if len(known) > 10_000:  # names may be data
                    known.clear()
                    known.update((name, name) for name in fields)
                known[raw] = upper.get(raw.upper())
            name = known[raw]
            if name is not None and (
                raw == name or (name not in values and (raw == lower[name] or lower[name] not in values))
            ):
                row[name] = converters[name](value)
        return row

    return convert


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        _refuse(value, "DECIMAL")
    try:
        number = Decimal(str(value).strip())
        if number.is_finite() and -int(number.as_tuple().exponent) > scale and number != scaled(number, 38, scale):
            _refuse(value, f"DECIMAL({precision}, {scale})")
        return scaled(number, precision, scale)
    except InvalidOperation:
        return _refuse(value, "DECIMAL")  # type: ignore[no-any-return]
