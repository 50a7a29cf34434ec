"""Time: how far each source and task is in event time, which windows are open, and why a record was late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.errors import DefinitionError, UnknownTableError, UnknownTopicError
from millstream.foundation.times import format_duration, format_timestamp, parse_timestamp
from millstream.serve.api.apps import AppParams
from millstream.serve.api.params import Name
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.tables.rows import TableEntry
from millstream.tables.typed_keys import keys_of
from millstream.tables.windows import WindowTableReader
from millstream.views.status import status_of
from millstream.windows import FOREVER, SessionWindows, SlidingWindows, Windows

_MOST_WINDOWS = 5000


class SourceTime(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a source: where the app stands and the timestamps, in milliseconds, of the records around it."""

    topic: str
    partition: int
    position: int
    end: int
    read_until: int | None
    newest: int | None


class StageTime(msgspec.Struct, frozen=True, kw_only=True):
    """The stream times of a stage's tasks by partition, and which partition holds the stage back."""

    stage: str
    stream_times: dict[int, int]
    held_back_by: int | None


class OpenWindows(msgspec.Struct, frozen=True, kw_only=True):
    """The windows of a table that still take records; ``next_close`` is when the next one closes, in stream time."""

    table: str
    stage: str
    kind: str
    grace: int
    open: int
    kept: int
    next_close: int | None
    is_whole: bool


class AppTime(msgspec.Struct, frozen=True, kw_only=True):
    """An app in event time."""

    app: str
    sources: list[SourceTime]
    stages: list[StageTime]
    windows: list[OpenWindows]


class LateParams(msgspec.Struct, frozen=True, kw_only=True):
    app: Name
    table: Annotated[Name, Meta(description="A table of windows.")]
    key: Annotated[str, Meta(min_length=1, max_length=4000)]
    time: Annotated[str, Meta(min_length=1, max_length=100, description="Milliseconds since 1970, or an ISO date.")]


class WindowFate(msgspec.Struct, frozen=True, kw_only=True):
    """A window that a record belongs to; it closes when stream time reaches ``closes_at``."""

    start: int
    end: int
    closes_at: int
    is_closed: bool


class LateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a record would be late now, and why."""

    is_late: bool
    key: Any
    partition: int
    timestamp: int
    stream_time: int | None
    windows: list[WindowFate]
    reasons: list[str]


def get_time(site: Site, params: AppParams) -> AppTime:
    """Return how far an app is in event time."""
    journal = site.place.journal(params.app)
    stages = status_of(site.place.data_dir, params.app).stages
    readers = site.place.tables(params.app)
    return AppTime(
        app=params.app,
        sources=list(_sources(site.place.broker, journal)),
        stages=[
            StageTime(stage=one.name, stream_times=one.stream_times, held_back_by=one.held_back_by) for one in stages
        ],
        windows=[
            _open_windows(entry, reader)
            for entry in _entries(journal)
            if isinstance(reader := readers.get(entry.name), WindowTableReader)
        ],
    )


def explain_late(site: Site, params: LateParams) -> LateAnswer:
    """Tell whether a record of a key and a time would be late for the windows of a table now."""
    journal = site.place.journal(params.app)
    entry = next((one for one in _entries(journal) if one.name == params.table), None)
    if entry is None or entry.windows is None:
        raise UnknownTableError(f"{params.table!r} is no table of windows of {params.app!r}", hint="see /api/tables")
    timestamp = _timestamp(params.time)
    reader = site.place.tables(params.app)[params.table]
    assert isinstance(reader, WindowTableReader)
    key = next(keys_of(reader, params.key), None)
    if key is None:
        raise DefinitionError(f"the table has no such keys as {params.key!r:.60}", hint="use a key of its type")
    partition = reader.partitions_of(key)[0]
    stream_time = reader.stream_time(partition)
    fates = list(fates_of(entry.windows, timestamp, max(stream_time if stream_time is not None else -1, timestamp)))
    return LateAnswer(
        is_late=bool(fates) and all(one.is_closed for one in fates),
        key=key,
        partition=partition,
        timestamp=timestamp,
        stream_time=stream_time,
        windows=fates,
        reasons=_reasons(entry, timestamp, stream_time, partition, fates),
    )


def fates_of(windows: Windows, timestamp: int, stream_time: int) -> Iterator[WindowFate]:
    """Yield the windows of a time, and whether each has closed at a stream time, as the operators decide it."""
    if isinstance(windows, SessionWindows):
        closes = timestamp + windows.gap + windows.grace + 1
        yield WindowFate(start=timestamp, end=timestamp, closes_at=closes, is_closed=stream_time >= closes)
    elif isinstance(windows, SlidingWindows):
        closes = timestamp + windows.difference + windows.grace + 1
        end = timestamp + windows.difference
        yield WindowFate(start=timestamp, end=end, closes_at=closes, is_closed=stream_time >= closes)
    else:
        for start in windows.starts(timestamp)[:_MOST_WINDOWS]:
            end = FOREVER if windows.size == FOREVER else start + windows.size
            closes = FOREVER if end == FOREVER else end + windows.grace
            yield WindowFate(start=start, end=end, closes_at=closes, is_closed=stream_time >= closes)


def kind_of(windows: Windows) -> str:
    """Return a kind of windows in words."""
    if isinstance(windows, SessionWindows):
        return f"sessions, gap {format_duration(windows.gap)}"
    if isinstance(windows, SlidingWindows):
        return f"sliding, {format_duration(windows.difference)}"
    if windows.size == FOREVER:
        return "unlimited"
    advance = getattr(windows, "advance", windows.size)
    hop = "" if advance == windows.size else f" every {format_duration(advance)}"
    return f"{'tumbling' if not hop else 'hopping'}, {format_duration(windows.size)}{hop}"


def _entries(journal: Journal) -> list[TableEntry]:
    """Return the tables of nodes; what processors keep has windows of their own making."""
    found = msgspec.convert(journal.catalog().get("tables", []), list[TableEntry])
    return [entry for entry in found if entry.key]


def _sources(broker: Broker, journal: Journal) -> Iterator[SourceTime]:
    for place, position in sorted(journal.read()[0].positions.items()):
        topic, _, text = place.rpartition("/")
        partition = int(text)
        try:
            there = broker.offsets(topic)
        except UnknownTopicError:
            continue
        if partition < len(there):
            yield SourceTime(
                topic=topic,
                partition=partition,
                position=position,
                end=there[partition].end,
                read_until=_time_before(broker, topic, partition, there[partition].begin, position),
                newest=_time_before(broker, topic, partition, there[partition].begin, there[partition].end),
            )


def _time_before(broker: Broker, topic: str, partition: int, begin: int, offset: int) -> int | None:
    """Return the timestamp of the last record before an offset; offsets may have gaps."""
    for back in (1, 100, 10_000):
        start = max(begin, offset - back)
        found = [int(chunk.block.column(2)[-1].as_py()) for chunk in broker.read(topic, partition, start, offset)]
        if found or start == begin:
            return found[-1] if found else None
    return None


def _open_windows(entry: TableEntry, reader: WindowTableReader) -> OpenWindows:
    assert entry.windows is not None
    times = {number: reader.stream_time(number) or -1 for number in range(entry.partitions)}
    closes: list[int] = []
    kept = 0
    for row in reader.scan(limit=_MOST_WINDOWS):
        kept += 1
        wait = entry.windows.grace + (entry.windows.gap if isinstance(entry.windows, SessionWindows) else 0)
        close = FOREVER if row.key.end == FOREVER else row.key.end + wait
        if close > times[reader.partitions_of(row.key.key)[0]]:
            closes.append(close)
    return OpenWindows(
        table=entry.name,
        stage=entry.stage,
        kind=kind_of(entry.windows),
        grace=entry.windows.grace,
        open=len(closes),
        kept=kept,
        next_close=min((close for close in closes if close != FOREVER), default=None),
        is_whole=kept < _MOST_WINDOWS,
    )


def _timestamp(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    found = parse_timestamp(text)
    if found is None or found < 0:
        raise DefinitionError(f"{text!r} is no time", hint='write milliseconds, or "2025-01-31T12:00"')
    return found


def _reasons(
    entry: TableEntry, timestamp: int, stream_time: int | None, partition: int, fates: list[WindowFate]
) -> list[str]:
    if stream_time is None:
        return [f"task {entry.stage}/{partition}, which keeps this key, has seen no record yet: nothing can be late."]
    newest = format_timestamp(stream_time)
    told = [f"Task {entry.stage}/{partition} keeps this key. The newest record it has seen is of {newest}."]
    if stream_time > timestamp:
        told.append(f"This record is {_ago(stream_time - timestamp)} older than that.")
    else:
        told.append("This record is newer than that, so it would move stream time on.")
    for one in fates[:3]:
        if one.closes_at == FOREVER:
            told.append("Its window never closes.")
        else:
            verb = "closed" if one.is_closed else "closes"
            told.append(
                f"Its window {format_timestamp(one.start)} to {format_timestamp(one.end)} {verb} when stream time "
                f"{'reached' if one.is_closed else 'reaches'} {format_timestamp(one.closes_at)} (grace included)."
            )
    return told


def _ago(duration: int) -> str:
    seconds = duration / 1000
    if seconds < 120:
        return f"{seconds:,.3f} s"
    return f"{seconds / 60:,.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/apps/{app}/time",
        summary="See how far an app is in event time",
        handler=get_time,
        params=AppParams,
        answer=AppTime,
    ),
    Operation(
        method="GET",
        path="/api/apps/{app}/late",
        summary="Ask why a record of a key and a time is late",
        handler=explain_late,
        params=LateParams,
        answer=LateAnswer,
    ),
)
