"""Values as Debezium writes them by default: times as numbers, decimals as base64 of their unscaled value."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

import msgspec

from millstream.connectors.change_data.relation import RelationColumn
from millstream.connectors.change_data.texts import (
    BITS,
    DURATION,
    ROW_TYPES,
    Render,
    array_of,
    encode_json,
    render_text,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMERICS = (1700, 1231)
"""The object ids of the type and of its arrays."""
_TIMES = (1114, 1115, 1083, 1183)
"""timestamp and time, and their arrays."""
_MAX_MILLIS_PRECISION = 3
_BIT, _VARYING_BITS = 1560, 1562


def debezium_columns(columns: Sequence[RelationColumn]) -> list[RelationColumn]:
    """Return columns whose types are keys of ``DEBEZIUM_TYPES``."""
    return [msgspec.structs.replace(column, type=_type_of(column)) for column in columns]


def _type_of(column: RelationColumn) -> int:
    """Return the object id, or its negative if Debezium writes the column in another way because of its modifier."""
    is_special = (
        (column.type in _NUMERICS and column.modifier < 0)
        or (column.type in _TIMES and 0 <= column.modifier <= _MAX_MILLIS_PRECISION)
        or (column.type in (_BIT, BITS) and column.modifier == 1)
    )
    return -column.type if is_special else column.type


def _unscaled(number: Decimal) -> str:
    """Return the digits of a number as base64 of a big-endian integer, as Java's BigInteger writes it."""
    sign, digits, _ = number.as_tuple()
    value = int("".join(map(str, digits))) * (-1 if sign else 1)
    length = (value + (value < 0)).bit_length() // 8 + 1
    return base64.b64encode(value.to_bytes(length, "big", signed=True)).decode()


def _decimal(text: bytes) -> bytes:
    number = Decimal(text.decode())
    return encode_json(_unscaled(number)) if number.is_finite() else b"null"


def _decimal_with_scale(text: bytes) -> bytes:
    number = Decimal(text.decode())
    if not number.is_finite():
        return b"null"
    if b"." in text:  # as Debezium, which leaves out zeros at the end, but not those of whole numbers
        number = Decimal(text.decode().rstrip("0").rstrip(".") or "0")
    return encode_json({"scale": -int(number.as_tuple().exponent), "value": _unscaled(number)})


def _microseconds(text: bytes) -> int:
    return (datetime.fromisoformat(text.decode()).replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def _timestamp(text: bytes) -> bytes:
    return b"%d" % _microseconds(text)


def _timestamp_millis(text: bytes) -> bytes:
    return b"%d" % (_microseconds(text) // 1000)


def _day(text: bytes) -> bytes:
    return b"%d" % (date.fromisoformat(text.decode()) - _EPOCH.date()).days


def _time_of_day(text: bytes) -> bytes:
    moment = time.fromisoformat(text.decode())
    return b"%d" % (((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1_000_000 + moment.microsecond)


def _time_of_day_millis(text: bytes) -> bytes:
    return b"%d" % (int(_time_of_day(text)) // 1000)


def _zoned_time_of_day(text: bytes) -> bytes:
    """Return a time of day in UTC, without zeros at the end of its fraction."""
    hours = datetime.combine(_EPOCH.date(), time.fromisoformat(text.decode())).astimezone(UTC)
    fraction = f".{hours.microsecond:06}".rstrip("0").rstrip(".")
    return f'"{hours:%H:%M:%S}{fraction}Z"'.encode()


def _bits(text: bytes) -> bytes:
    """Return bits as base64 of their bytes, the lowest first."""
    return encode_json(int(text, 2).to_bytes((len(text) + 7) // 8, "little"))


def _bit(text: bytes) -> bytes:
    return b"true" if text == b"1" else b"false"


def _duration(text: bytes) -> bytes:
    """Return a time that may be negative in microseconds."""
    hours, minutes, seconds = text.lstrip(b"-").split(b":")
    whole, _, fraction = seconds.partition(b".")
    micros = ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, b"0"))
    return b"%d" % (-micros if text.startswith(b"-") else micros)


def _with_microseconds(text: bytes) -> bytes:
    """Return a time with zone as text with six decimals."""
    moment = datetime.fromisoformat(text.decode())
    return moment.astimezone(UTC).strftime('"%Y-%m-%dT%H:%M:%S.%fZ"').encode()


def _or_text(render: Render) -> Render:
    """Write what Python's calendar does not have, such as infinity, as text."""

    def rendered(text: bytes) -> bytes:
        try:
            return render(text)
        except ValueError:
            return render_text(text)

    return rendered


DEBEZIUM_TYPES: Final[dict[int, Render]] = {
    **ROW_TYPES,
    114: render_text,
    3802: render_text,
    1700: _decimal,
    -1700: _decimal_with_scale,
    -1231: array_of(_decimal_with_scale),
    1114: _or_text(_timestamp),
    -1114: _or_text(_timestamp_millis),
    -1115: array_of(_or_text(_timestamp_millis)),
    1184: _or_text(_with_microseconds),
    1082: _or_text(_day),
    1083: _or_text(_time_of_day),
    -1083: _or_text(_time_of_day_millis),
    1266: _or_text(_zoned_time_of_day),
    _BIT: _bits,
    -_BIT: _bit,
    _VARYING_BITS: _bits,
    BITS: _bits,
    -BITS: _bit,
    DURATION: _duration,
    -1183: array_of(_or_text(_time_of_day_millis)),
}
"""By object id; negative ones are of columns with a modifier, see ``debezium_columns``."""
