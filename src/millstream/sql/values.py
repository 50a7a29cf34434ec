"""Conversions of values as Java makes them: numbers that wrap, text of numbers and times, and parsing of both."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EPOCH_DATE = dt.date(1970, 1, 1)
EXACT = Context(prec=100)
_DAY = 86_400_000
_TRUE = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"})
_FALSE = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "off", "of", "0"})


def wrap32(number: int) -> int:
    """Return the number that fits into 32 bits, as Java's int overflows."""
    return (number + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def wrap64(number: int) -> int:
    """Return the number that fits into 64 bits, as Java's long overflows."""
    return (number + 0x8000_0000_0000_0000 & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


def float_to_int(number: float, bits: int) -> int:
    """Return a float cut off to an integer; out of range it is the nearest one, and NaN is 0."""
    if number != number:
        return 0
    limit = 1 << (bits - 1)
    if math.isinf(number):
        return limit - 1 if number > 0 else -limit
    return max(-limit, min(limit - 1, int(number)))


def divide_whole(left: int, right: int) -> int:
    """Divide whole numbers, cutting off the fraction."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def remainder(left: int, right: int) -> int:
    """Return the remainder of a division, with the sign of the dividend."""
    return left - right * divide_whole(left, right)


def divide_float(left: float, right: float) -> float:
    """Divide floats; a division by zero is infinite or NaN."""
    if right:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def remainder_float(left: float, right: float) -> float:
    """Return the remainder of floats; NaN where there is none."""
    return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)


def scaled(number: Decimal, precision: int, scale: int) -> Decimal:
    """Round a decimal to a scale; raise if it does not fit into the precision."""
    if not number.is_finite():
        raise ArithmeticError(f"{number} is not a DECIMAL")
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    if rounded.adjusted() >= precision - scale and rounded != 0:
        raise ArithmeticError(f"{number} does not fit into DECIMAL({precision}, {scale})")
    return without_negative_zero(rounded)


def without_negative_zero(number: Decimal) -> Decimal:
    """Return a decimal; Java's have no negative zero."""
    return number or number.copy_abs()


# Text


def float_text(number: float) -> str:
    """Return a float as Java writes it: ``1.0``, ``1.0E10``, ``NaN``."""
    if number != number:
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = repr(number)
        return text if "e" not in text else format(Decimal(text), "f")
    digits, exponent = Decimal(repr(number)).normalize().as_tuple()[1:]
    mantissa = "".join(map(str, digits))
    power = len(mantissa) - 1 + int(exponent)
    sign = "-" if number < 0 else ""
    return f"{sign}{mantissa[0]}.{mantissa[1:] or '0'}E{power}"


def time_text(time: dt.time) -> str:
    """Return a time of day as ISO text without needless zeros."""
    millis = time.microsecond // 1000
    seconds = f":{time.second:02}" if time.second or millis else ""
    return f"{time.hour:02}:{time.minute:02}{seconds}{f'.{millis:03}' if millis else ''}"


def timestamp_text(moment: dt.datetime) -> str:
    """Return a timestamp as ISO text with milliseconds, in UTC."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}".rjust(23, "0")


def as_text(value: Any) -> str:
    """Return a value as CAST to STRING does."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        return timestamp_text(value)
    if isinstance(value, dt.time):
        return time_text(value)
    return _nested_text(value)


def _nested_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_text(key)}={as_text(item)}" for key, item in value.items()) + "}"
    return str(value)


def parse_boolean(text: str) -> bool:
    """Return the truth value that a text begins to spell."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"{text!r} is not a truth value")


def parse_whole(text: str, bits: int) -> int:
    """Return the whole number that a text spells; raise if it is out of range."""
    number = int(text.strip()) if re.fullmatch(r"\s*[+-]?\d+\s*", text) else None
    if number is None or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{text!r} is not a whole number of {bits} bits")
    return number


def parse_float(text: str) -> float:
    """Return the number that a text spells."""
    word = text.strip()
    if word.lower() in ("nan", "inf", "-inf", "+inf") or "_" in word:
        raise ValueError(f"{text!r} is not a number")
    return float(word)


# Times


def from_millis(millis: int) -> dt.datetime:
    """Return the timestamp of milliseconds since 1970."""
    return EPOCH + dt.timedelta(milliseconds=millis)


def to_millis(moment: dt.datetime) -> int:
    """Return milliseconds since 1970."""
    return (moment - EPOCH) // dt.timedelta(milliseconds=1)


def from_days(days: int) -> dt.date:
    """Return the date of days since 1970."""
    return EPOCH_DATE + dt.timedelta(days=days)


def to_days(date: dt.date) -> int:
    """Return days since 1970."""
    return date.toordinal() - EPOCH_DATE.toordinal()


def from_time_millis(millis: int) -> dt.time:
    """Return the time of day of milliseconds since midnight."""
    if not 0 <= millis < _DAY:
        raise ValueError(f"{millis} ms are not a time of day")
    return (EPOCH + dt.timedelta(milliseconds=millis)).time()


def to_time_millis(time: dt.time) -> int:
    """Return milliseconds since midnight."""
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1000 + time.microsecond // 1000


_TIMESTAMP = re.compile(
    r"(-?\d{4,})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
    r"(?:T(?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?)?(Z|[+-]\d{2}:?\d{2})?)?"
)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?")


def parse_timestamp(text: str) -> dt.datetime:
    """Return the timestamp of ISO text, of which the end may be missing: ``2020-01``."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6]) // 1000 * 1000
    ends_day = hour == "24" and not int(minute or 0) and not int(second or 0) and not micros
    moment = dt.datetime(
        int(year),
        int(month or 1),
        int(day or 1),
        0 if ends_day else int(hour or 0),
        int(minute or 0),
        int(second or 0),
        micros,
        dt.UTC,
    )
    return moment - _zone_offset(zone) + dt.timedelta(days=ends_day)


def _zone_offset(zone: str | None) -> dt.timedelta:
    if zone is None or zone == "Z":
        return dt.timedelta()
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return dt.timedelta(minutes=-minutes if zone[0] == "-" else minutes)


def parse_date(text: str) -> dt.date:
    """Return the date of ISO text."""
    return parse_timestamp(text).date()


def parse_time(text: str) -> dt.time:
    """Return the time of day of ISO text."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time of day")
    hour, minute, second, fraction = match.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6]) // 1000 * 1000
    return dt.time(int(hour), int(minute), int(second or 0), micros)
