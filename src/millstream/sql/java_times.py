"""Java's patterns of dates and times, such as ``yyyy-MM-dd'T'HH:mm:ss.SSS``: formatting and parsing."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_ELEMENT = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(\[|\])|(.)", re.DOTALL)


class Element(NamedTuple):
    """A letter and how often it is repeated; without a letter, literal text."""

    letter: str
    repeats: int
    text: str = ""


@lru_cache(1000)
def elements_of(pattern: str) -> tuple[Element, ...]:
    """Return the elements of a pattern; raise if it has an unknown letter."""
    if pattern.count("'") % 2:
        raise ValueError(f"a quote of the pattern {pattern!r} is not closed")
    elements = []
    for match in _ELEMENT.finditer(pattern):
        if match[1] is not None:
            elements.append(Element("", 0, match[1].replace("''", "'") or "'"))
        elif match[2]:
            if match[2] not in _FIELDS:
                raise ValueError(f"the letter {match[2]} of the pattern {pattern!r} is unknown")
            elements.append(Element(match[2], len(match[0])))
        elif match[3]:
            elements.append(Element(match[3], 1))
        else:
            elements.append(Element("", 0, match[4]))
    return tuple(elements)


def zone_of(name: str) -> dt.tzinfo:
    """Return a time zone by its name or its offset."""
    match = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?", name)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        return dt.timezone(dt.timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return dt.UTC if name.upper() in ("Z", "UTC", "GMT") else ZoneInfo(_SHORT_ZONES.get(name, name))
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"time zone {name!r} is unknown") from error


_SHORT_ZONES = {"PST": "America/Los_Angeles", "EST": "America/New_York", "CST": "America/Chicago"}


# Formatting


def format_time(moment: Any, pattern: str) -> str:
    """Return a datetime, date or time as text.

    >>> format_time(dt.date(2020, 1, 31), "d MMM yyyy")
    '31 Jan 2020'
    """
    try:
        return "".join(
            element.text
            if not element.letter
            else ""
            if element.letter in "[]"
            else _FIELDS[element.letter][0](moment, element.repeats)
            for element in elements_of(pattern)
        )
    except AttributeError as error:
        raise ValueError(f"{moment} does not have all that the pattern {pattern!r} asks for") from error


def _number(get: Callable[[Any], int]) -> Callable[[Any, int], str]:
    return lambda moment, count: str(get(moment)).rjust(count, "0")


def _year(moment: Any, count: int) -> str:
    return f"{moment.year % 100:02}" if count == 2 else str(moment.year).rjust(count, "0")


def _week(moment: Any) -> tuple[int, int]:
    """Return the year and the number of a week; weeks begin on Sunday, and the first one contains January 1."""
    date = dt.date(moment.year, moment.month, moment.day)
    saturday = date + dt.timedelta(days=(5 - date.weekday()) % 7)
    first = dt.date(saturday.year, 1, 1)
    return saturday.year, (saturday - first).days // 7 + 1


def _week_year(moment: Any, count: int) -> str:
    year = _week(moment)[0]
    return f"{year % 100:02}" if count == 2 else str(year).rjust(count, "0")


def _quarter(moment: Any, count: int) -> str:
    number = (moment.month + 2) // 3
    return str(number).rjust(count, "0") if count < 3 else f"Q{number}"


def _day_millis(moment: Any) -> int:
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return int(seconds * 1000 + moment.microsecond // 1000)


def _month(moment: Any, count: int) -> str:
    name: str = _MONTHS[moment.month - 1]
    return str(moment.month).rjust(count, "0") if count < 3 else name[:3] if count == 3 else name


def _weekday(moment: Any, count: int) -> str:
    name: str = _DAYS[moment.weekday()]
    return name if count == 4 else name[:3]


def _fraction(moment: Any, count: int) -> str:
    return f"{moment.microsecond:06}".ljust(count, "0")[:count]


def _offset(moment: Any, count: int, zulu: bool) -> str:
    seconds = int((moment.utcoffset() or dt.timedelta()).total_seconds())
    if zulu and seconds == 0:
        return "Z"
    sign, minutes = "-" if seconds < 0 else "+", abs(seconds) // 60
    hours, rest = divmod(minutes, 60)
    if count == 1:
        return f"{sign}{hours:02}{f'{rest:02}' if rest else ''}"
    return f"{sign}{hours:02}{':' if count == 3 else ''}{rest:02}"


def _zone_name(moment: Any, _count: int) -> str:
    name: str | None = moment.tzname()
    return name or "UTC"


def _zone_id(moment: Any, _count: int) -> str:
    return str(getattr(moment.tzinfo, "key", moment.tzinfo or "UTC"))


def _gmt_offset(moment: Any, count: int) -> str:
    seconds = int((moment.utcoffset() or dt.timedelta()).total_seconds())
    hours, minutes = divmod(abs(seconds) // 60, 60)
    if seconds == 0:
        return "GMT"
    short = f"{hours}{f':{minutes:02}' if minutes else ''}"
    return f"GMT{'-' if seconds < 0 else '+'}{short if count < 4 else f'{hours:02}:{minutes:02}'}"


# Parsing


def parse_time(text: str, pattern: str, *, is_prefix: bool = False) -> dict[str, Any]:
    """Return the fields of a text by letter; raise if it, or its beginning, does not match the pattern."""
    match = (_expression(pattern).match if is_prefix else _expression(pattern).fullmatch)(text)
    if match is None:
        raise ValueError(f"{text!r} does not match the pattern {pattern!r}")
    fields: dict[str, Any] = {}
    for group, value in match.groupdict().items():
        if value is not None:
            letter, count = group[0], int(group[1:].split("_")[0])
            fields[letter] = _FIELDS[letter][2](value, count)
    return fields


@lru_cache(1000)
def _expression(pattern: str) -> re.Pattern[str]:
    elements = elements_of(pattern)
    parts = []
    for number, element in enumerate(elements):
        if not element.letter:
            parts.append(re.escape(element.text))
        elif element.letter in "[]":
            parts.append("(?:" if element.letter == "[" else ")?")
        else:
            follows = number + 1 < len(elements) and bool(elements[number + 1].letter)
            expression = _FIELDS[element.letter][1](element.repeats, follows)
            parts.append(f"(?P<{element.letter}{element.repeats}_{number}>{expression})")
    return re.compile("".join(parts), re.IGNORECASE)


def _digits(count: int, is_followed: bool) -> str:
    return rf"\d{{{count}}}" if count > 1 else r"\d{1,2}" if is_followed else r"\d{1,19}"


def _year_digits(count: int, is_followed: bool) -> str:
    return rf"\d{{{count}}}" if is_followed or count == 2 else r"-?\d{4,9}" if count >= 4 else r"-?\d{1,9}"


def _month_expression(count: int, is_followed: bool) -> str:
    if count < 3:
        return _digits(count, is_followed)
    return "|".join(month[:3] if count == 3 else month for month in _MONTHS)


def _weekday_expression(count: int, _is_followed: bool) -> str:
    return "|".join(day if count == 4 else day[:3] for day in _DAYS)


def _whole(text: str, _count: int) -> int:
    return int(text)


def _parse_year(text: str, count: int) -> int:
    return 2000 + int(text) if count == 2 else int(text)


def _parse_month(text: str, count: int) -> int:
    return int(text) if count < 3 else 1 + [month[:3].lower() for month in _MONTHS].index(text[:3].lower())


def _parse_fraction(text: str, _count: int) -> int:
    return int(text.ljust(6, "0")[:6])


def _text(text: str, _count: int) -> str:
    return text


_Field = tuple[Callable[[Any, int], str], Callable[[int, bool], str], Callable[[str, int], Any]]
_ZONE: Callable[[int, bool], str] = lambda _count, _follows: r"Z|[+-]\d{2}(?::?\d{2})?"  # noqa: E731
_FIELDS: dict[str, _Field] = {
    "y": (_year, _year_digits, _parse_year),
    "u": (_year, _year_digits, _parse_year),
    "Y": (_week_year, _year_digits, _parse_year),
    "w": (_number(lambda moment: _week(moment)[1]), _digits, _whole),
    "Q": (_quarter, lambda count, _follows: r"\d{1,2}" if count < 3 else r"Q[1-4]", _text),
    "q": (_quarter, lambda count, _follows: r"\d{1,2}" if count < 3 else r"Q[1-4]", _text),
    "e": (_number(lambda moment: (moment.weekday() + 1) % 7 + 1), _digits, _whole),
    "A": (_number(_day_millis), _digits, _whole),
    "O": (_gmt_offset, lambda _count, _follows: r"GMT(?:[+-]\d{1,2}(?::\d{2})?)?", _text),
    "M": (_month, _month_expression, _parse_month),
    "L": (_month, _month_expression, _parse_month),
    "d": (_number(lambda moment: moment.day), _digits, _whole),
    "D": (_number(lambda moment: moment.timetuple().tm_yday), _digits, _whole),
    "E": (_weekday, _weekday_expression, _text),
    "H": (_number(lambda moment: moment.hour), _digits, _whole),
    "k": (_number(lambda moment: moment.hour or 24), _digits, _whole),
    "h": (_number(lambda moment: moment.hour % 12 or 12), _digits, _whole),
    "K": (_number(lambda moment: moment.hour % 12), _digits, _whole),
    "m": (_number(lambda moment: moment.minute), _digits, _whole),
    "s": (_number(lambda moment: moment.second), _digits, _whole),
    "S": (_fraction, lambda count, _follows: rf"\d{{{count}}}", _parse_fraction),
    "n": (_number(lambda moment: moment.microsecond * 1000), _digits, _whole),
    "a": (lambda moment, _count: "AM" if moment.hour < 12 else "PM", lambda _count, _follows: "AM|PM", _text),
    "G": (lambda _moment, _count: "AD", lambda _count, _follows: "AD|BC", _text),
    "X": (lambda moment, count: _offset(moment, count, zulu=True), _ZONE, _text),
    "x": (lambda moment, count: _offset(moment, count, zulu=False), _ZONE, _text),
    "Z": (lambda moment, _count: _offset(moment, 2, zulu=False), _ZONE, _text),
    "z": (_zone_name, lambda _count, _follows: r"[A-Za-z][A-Za-z_/]*(?:[+-]\d+)?", _text),
    "V": (_zone_id, lambda _count, _follows: r"[A-Za-z][A-Za-z_/]*(?:[+-]\d+)?", _text),
}


def date_of(fields: dict[str, Any]) -> dt.date:
    """Return the date of parsed fields; missing ones are those of 1970-01-01."""
    year = fields.get("y", fields.get("u", fields.get("Y", 1970)))
    if "D" in fields:
        return dt.date(year, 1, 1) + dt.timedelta(days=fields["D"] - 1)
    month, day = fields.get("M", fields.get("L", 1)), fields.get("d", 1)
    if 28 < day <= 31:
        day = min(day, calendar.monthrange(year, month)[1])  # February 30 is the last day of February, as in Java
    return dt.date(year, month, day)


def time_of(fields: dict[str, Any]) -> dt.time:
    """Return the time of day of parsed fields; missing ones are 0."""
    hour = fields.get("H", fields.get("k", 0) % 24)
    if "h" in fields or "K" in fields:
        hour = fields.get("h", fields.get("K", 0)) % 12 + (12 if fields.get("a", "").upper() == "PM" else 0)
    micros = fields.get("S", fields.get("n", 0) // 1000)
    return dt.time(hour, fields.get("m", 0), fields.get("s", 0), micros // 1000 * 1000)


def moment_of(fields: dict[str, Any], zone: dt.tzinfo) -> dt.datetime:
    """Return the timestamp of parsed fields in UTC; ``zone`` counts if they contain none."""
    for letter in "XxZzVO":
        if letter in fields:
            zone = zone_of(fields[letter])
    return dt.datetime.combine(date_of(fields), time_of(fields), zone).astimezone(dt.UTC)
