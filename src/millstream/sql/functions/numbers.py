"""Functions of numbers."""

from __future__ import annotations

import math
import random
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from millstream.sql.functions.registry import function
from millstream.sql.types import Type, decimal
from millstream.sql.values import EXACT, float_to_int, without_negative_zero, wrap32, wrap64


def _whole_decimal(types: tuple[Type, ...]) -> Type:
    return decimal(max(1, types[0].precision - types[0].scale), 0) if types[0].kind == "DECIMAL" else types[0]


def _quantized(number: Decimal, digits: int, rounding: str) -> Decimal:
    return without_negative_zero(number.quantize(Decimal(1).scaleb(-digits), rounding, EXACT))


@function("ABS", "DECIMAL -> DECIMAL", "DOUBLE -> DOUBLE")
def _abs(number: Any) -> Any:
    return abs(number)


@function("ABS", "INTEGER -> INTEGER")
def _abs_integer(number: int) -> int:
    return wrap32(abs(number))


@function("ABS", "BIGINT -> BIGINT")
def _abs_bigint(number: int) -> int:
    return wrap64(abs(number))


@function("CEIL CEILING", "INTEGER -> INTEGER", "BIGINT -> BIGINT", "DOUBLE -> DOUBLE")
def _ceil(number: Any) -> Any:
    return float(math.ceil(number)) if isinstance(number, float) and math.isfinite(number) else number


@function("CEIL CEILING", "DECIMAL -> DECIMAL")
def _ceil_decimal(number: Decimal) -> Decimal:
    return _keep_scale(number, ROUND_CEILING)


@function("FLOOR", "INTEGER -> INTEGER", "BIGINT -> BIGINT", "DOUBLE -> DOUBLE")
def _floor(number: Any) -> Any:
    return float(math.floor(number)) if isinstance(number, float) and math.isfinite(number) else number


@function("FLOOR", "DECIMAL -> DECIMAL")
def _floor_decimal(number: Decimal) -> Decimal:
    return _keep_scale(number, ROUND_FLOOR)


def _keep_scale(number: Decimal, rounding: str) -> Decimal:
    return _quantized(_quantized(number, 0, rounding), -int(number.as_tuple().exponent), ROUND_DOWN)


@function("ROUND", "INTEGER -> INTEGER", "BIGINT -> BIGINT")
@function("TRUNC", "INTEGER -> INTEGER", "BIGINT -> BIGINT")
def _same(number: int) -> int:
    return number


@function("ROUND", "DOUBLE -> BIGINT")
def _round(number: float) -> int:
    return float_to_int(math.floor(number + 0.5) if math.isfinite(number) else number, 64)


@function("ROUND", "DECIMAL -> DECIMAL", returns=_whole_decimal)
def _round_decimal(number: Decimal) -> Decimal:
    return _quantized(number, 0, _half(number))


def _half(number: Decimal | float) -> str:
    return ROUND_HALF_UP if number > 0 else ROUND_HALF_DOWN


@function("ROUND", "DOUBLE, INTEGER -> DOUBLE")
def _round_to(number: float, digits: int) -> float:
    return float(_quantized(Decimal(repr(number)), digits, _half(number))) if math.isfinite(number) else number


@function("ROUND", "DECIMAL, INTEGER -> DECIMAL")
def _round_decimal_to(number: Decimal, digits: int) -> Decimal:
    return _back(number, _quantized(number, digits, _half(number)))


def _back(number: Decimal, rounded: Decimal) -> Decimal:
    return _quantized(rounded, -int(number.as_tuple().exponent), ROUND_DOWN)


@function("TRUNC", "DOUBLE -> BIGINT")
def _trunc(number: float) -> int:
    return float_to_int(number, 64)


@function("TRUNC", "DECIMAL -> DECIMAL", returns=_whole_decimal)
def _trunc_decimal(number: Decimal) -> Decimal:
    return _quantized(number, 0, ROUND_DOWN)


@function("TRUNC", "DOUBLE, INTEGER -> DOUBLE")
def _trunc_to(number: float, digits: int) -> float:
    return float(_quantized(Decimal(repr(number)), digits, ROUND_DOWN)) if math.isfinite(number) else number


@function("TRUNC", "DECIMAL, INTEGER -> DECIMAL")
def _trunc_decimal_to(number: Decimal, digits: int) -> Decimal:
    return _back(number, _quantized(number, digits, ROUND_DOWN))


@function("SIGN", "INTEGER -> INTEGER", "BIGINT -> INTEGER", "DOUBLE -> INTEGER")
def _sign(number: Any) -> int:
    return int(number > 0) - int(number < 0)


def _cube_root(number: float) -> float:
    root = math.cbrt(number)
    if math.isfinite(root) and round(root) ** 3 == number:  # the library may be off by the last bit
        return float(round(root))
    return root


def _quiet(call: Any) -> Any:
    """Return a function of floats whose result is NaN where Python raises."""

    def compute(*numbers: float) -> float:
        try:
            return float(call(*numbers))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return compute


for _name, _call in {
    "ACOS": math.acos, "ASIN": math.asin, "ATAN": math.atan, "COS": math.cos, "COSH": math.cosh, "SIN": math.sin,
    "SINH": math.sinh, "TAN": math.tan, "TANH": math.tanh, "SQRT": math.sqrt, "CBRT": _cube_root,
    "DEGREES": math.degrees, "RADIANS": math.radians, "EXP": math.exp,
    "COT": lambda number: 1 / math.tan(number) if number else math.inf,
}.items():  # fmt: skip
    function(_name, "DOUBLE -> DOUBLE")(_quiet(_call))


@function("LN", "DOUBLE -> DOUBLE")
def _ln(number: float) -> float:
    if number == 0:
        return -math.inf
    return math.log(number) if number > 0 else math.nan


@function("LOG", "DOUBLE -> DOUBLE")
def _log(number: float) -> float:
    return _ln(number)


@function("LOG", "DOUBLE, DOUBLE -> DOUBLE")
def _log_of(base: float, number: float) -> float:
    if base <= 0 or base == 1 or number != number:
        return math.nan
    return _ln(number) / _ln(base)


@function("ATAN2", "DOUBLE, DOUBLE -> DOUBLE")
def _atan2(y: float, x: float) -> float:
    return math.atan2(y, x)


@function("POWER POW", "DOUBLE, DOUBLE -> DOUBLE")
def _power(base: float, exponent: float) -> float:
    if base == 0 and exponent < 0:
        return math.inf
    return float(_quiet(math.pow)(base, exponent))


@function("PI", "-> DOUBLE")
def _pi() -> float:
    return math.pi


@function("RANDOM RAND", "-> DOUBLE")
def _random() -> float:
    return random.random()


for _kind in ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP"):
    _signature = f"{_kind}, {_kind}... -> {_kind}"
    function("GREATEST", _signature, nulls=True)(lambda *items: _extreme(max, items))
    function("LEAST", _signature, nulls=True)(lambda *items: _extreme(min, items))


def _extreme(choose: Any, items: tuple[Any, ...]) -> Any:
    given = [item for item in items if item is not None]
    return choose(given) if given else None


_RADIUS = {"KM": 6371.0, "MI": 3959.0, "MILE": 3959.0, "MILES": 3959.0, "KILOMETER": 6371.0, "KILOMETERS": 6371.0}


_FOUR = "DOUBLE, DOUBLE, DOUBLE, DOUBLE"


@function("GEO_DISTANCE", f"{_FOUR} -> DOUBLE", f"{_FOUR}, STRING -> DOUBLE", nulls=True)
def _geo_distance(*arguments: Any) -> float | None:
    lat1, lon1, lat2, lon2, *units = arguments
    unit = units[0] if units and units[0] is not None else "KM"
    if None in (lat1, lon1, lat2, lon2):
        return None
    if not (all(-90 <= lat <= 90 for lat in (lat1, lat2)) and all(-180 <= lon <= 180 for lon in (lon1, lon2))):
        raise ValueError("latitudes are from -90 to 90, longitudes from -180 to 180")
    phi1, phi2 = math.radians(lat1), math.radians(lat2)
    d_phi, d_lambda = phi2 - phi1, math.radians(lon2 - lon1)
    a = math.sin(d_phi / 2) ** 2 + math.sin(d_lambda / 2) ** 2 * math.cos(phi1) * math.cos(phi2)
    radius = _RADIUS.get(unit.strip().upper())
    if radius is None:
        raise ValueError(f"unit {unit!r} is unknown: use KM or MI")
    return 2 * math.asin(math.sqrt(a)) * radius


@function("GENERATE_SERIES", "INTEGER, INTEGER -> ARRAY<INTEGER>", "BIGINT, BIGINT -> ARRAY<BIGINT>")
@function("GENERATE_SERIES", "INTEGER, INTEGER, INTEGER -> ARRAY<INTEGER>", "BIGINT, BIGINT, INTEGER -> ARRAY<BIGINT>")
def _generate_series(start: int, stop: int, step: int | None = None) -> list[int]:
    if step is None:
        step = 1 if stop >= start else -1
    if step == 0 or (stop - start) * step < 0:
        raise ValueError(f"no series from {start} to {stop} has the step {step}")
    if abs(stop - start) // abs(step) > 1_000_000:
        raise ValueError("the series has more than a million numbers")
    return list(range(start, stop + (1 if step > 0 else -1), step))
