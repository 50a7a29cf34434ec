"""Functions of dates and times."""

from __future__ import annotations

import calendar
import datetime as dt
import time

from millstream.sql.functions.registry import function
from millstream.sql.java_times import date_of, format_time, moment_of, parse_time, time_of, zone_of
from millstream.sql.values import EPOCH, from_days, from_millis, to_days, to_millis

_MILLIS = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_MONTHS = {"MONTH": 1, "YEAR": 12}


def _moved(unit: str, count: int, moment: dt.datetime) -> dt.datetime:
    if unit in _MILLIS:
        return moment + dt.timedelta(milliseconds=count * _MILLIS[unit])
    months = moment.year * 12 + moment.month - 1 + count * _MONTHS[unit]
    year, month = divmod(months, 12)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, calendar.monthrange(year, month + 1)[1]))


@function("TIMESTAMPADD", "UNIT, INTEGER, TIMESTAMP -> TIMESTAMP")
def _timestamp_add(unit: str, count: int, moment: dt.datetime) -> dt.datetime:
    return _moved(unit, count, moment)


@function("TIMESTAMPSUB", "UNIT, INTEGER, TIMESTAMP -> TIMESTAMP")
def _timestamp_sub(unit: str, count: int, moment: dt.datetime) -> dt.datetime:
    return _moved(unit, -count, moment)


@function("DATEADD", "UNIT, INTEGER, DATE -> DATE")
def _date_add(unit: str, count: int, date: dt.date) -> dt.date:
    return _moved(unit, count, dt.datetime.combine(date, dt.time(), dt.UTC)).date()


@function("DATESUB", "UNIT, INTEGER, DATE -> DATE")
def _date_sub(unit: str, count: int, date: dt.date) -> dt.date:
    return _date_add(unit, -count, date)


@function("TIMEADD", "UNIT, INTEGER, TIME -> TIME")
def _time_add(unit: str, count: int, time: dt.time) -> dt.time:
    return _moved(unit, count, dt.datetime.combine(EPOCH.date(), time, dt.UTC)).time()


@function("TIMESUB", "UNIT, INTEGER, TIME -> TIME")
def _time_sub(unit: str, count: int, time: dt.time) -> dt.time:
    return _time_add(unit, -count, time)


# Numbers


@function("UNIX_TIMESTAMP", "-> BIGINT")
def _now() -> int:
    return time.time_ns() // 1_000_000


@function("UNIX_TIMESTAMP", "TIMESTAMP -> BIGINT")
def _unix_timestamp(moment: dt.datetime) -> int:
    return to_millis(moment)


@function("UNIX_DATE", "-> INTEGER")
def _today() -> int:
    return _now() // _MILLIS["DAY"]


@function("UNIX_DATE", "DATE -> INTEGER")
def _unix_date(date: dt.date) -> int:
    return to_days(date)


@function("FROM_UNIXTIME", "BIGINT -> TIMESTAMP")
def _from_unixtime(millis: int) -> dt.datetime:
    return from_millis(millis)


@function("FROM_DAYS", "INTEGER -> DATE")
def _from_days(days: int) -> dt.date:
    return from_days(days)


# Text


@function("FORMAT_TIMESTAMP", "TIMESTAMP, STRING -> STRING", "TIMESTAMP, STRING, STRING -> STRING")
def _format_timestamp(moment: dt.datetime, pattern: str, zone: str = "UTC") -> str:
    return format_time(moment.astimezone(zone_of(zone)), pattern)


@function("FORMAT_DATE", "DATE, STRING -> STRING")
def _format_date(date: dt.date, pattern: str) -> str:
    return format_time(date, pattern)


@function("FORMAT_TIME", "TIME, STRING -> STRING")
def _format_time(time: dt.time, pattern: str) -> str:
    return format_time(time, pattern)


@function("PARSE_TIMESTAMP", "STRING, STRING -> TIMESTAMP", "STRING, STRING, STRING -> TIMESTAMP")
def _parse_timestamp(text: str, pattern: str, zone: str = "UTC") -> dt.datetime:
    return moment_of(parse_time(text, pattern), zone_of(zone))


@function("PARSE_DATE", "STRING, STRING -> DATE")
def _parse_date(text: str, pattern: str) -> dt.date:
    return date_of(parse_time(text, pattern, is_prefix=True))


@function("PARSE_TIME", "STRING, STRING -> TIME")
def _parse_time(text: str, pattern: str) -> dt.time:
    return time_of(parse_time(text, pattern))


@function("TIMESTAMPTOSTRING", "BIGINT, STRING -> STRING", "BIGINT, STRING, STRING -> STRING")
def _timestamp_to_string(millis: int, pattern: str, zone: str = "UTC") -> str:
    return _format_timestamp(from_millis(millis), pattern, zone)


@function("STRINGTOTIMESTAMP", "STRING, STRING -> BIGINT", "STRING, STRING, STRING -> BIGINT")
def _string_to_timestamp(text: str, pattern: str, zone: str = "UTC") -> int:
    return to_millis(_parse_timestamp(text, pattern, zone))


@function("DATETOSTRING", "INTEGER, STRING -> STRING")
def _date_to_string(days: int, pattern: str) -> str:
    return format_time(from_days(days), pattern)


@function("STRINGTODATE", "STRING, STRING -> INTEGER")
def _string_to_date(text: str, pattern: str) -> int:
    return to_days(_parse_date(text, pattern))


@function("CONVERT_TZ", "TIMESTAMP, STRING, STRING -> TIMESTAMP")
def _convert_tz(moment: dt.datetime, source: str, target: str) -> dt.datetime:
    local = moment.replace(tzinfo=zone_of(source)).astimezone(zone_of(target))
    return local.replace(tzinfo=dt.UTC)
