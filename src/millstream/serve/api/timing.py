"""Time: the event time of sources and tasks, open windows, and why a record is late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.errors import DefinitionError, UnknownTableError, UnknownTopicError
from millstream.foundation.times import format_duration, format_timestamp
from millstream.foundation.typed_decoding import convert
from millstream.serve.api.apps import AppParams
from millstream.serve.api.params import Name, parse_time
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.tables.rows import TableEntry
from millstream.tables.typed_keys import keys_of
from millstream.tables.windows import WindowTableReader
from millstream.views.status import status_of
from millstream.windows import FOREVER, SessionWindows, SlidingWindows, Windows

_MAX_WINDOWS = 5000


class SourceTime(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a source: the position of the app, and the timestamps of the last read and the newest record."""

    topic: str
    partition: int
    position: int
    end: int
    read_until: int | None
    newest: int | None


class StageTime(msgspec.Struct, frozen=True, kw_only=True):
    """The stream times of a stage's tasks by partition, and the partition that holds the stage back."""

    stage: str
    stream_times: dict[int, int]
    held_back_by: int | None


class OpenWindows(msgspec.Struct, frozen=True, kw_only=True):
    """The windows of a table that still accept records; ``next_close`` is the stream time at which the next one closes.

    ``kept`` counts all stored windows; ``is_complete`` is false if there were too many to count.
    """

    table: str
    stage: str
    kind: str
    grace: int
    open: int
    kept: int
    next_close: int | None
    is_complete: bool


class AppTime(msgspec.Struct, frozen=True, kw_only=True):
    """The event time of an app."""

    app: str
    sources: list[SourceTime]
    stages: list[StageTime]
    windows: list[OpenWindows]


class LateParams(msgspec.Struct, frozen=True, kw_only=True):
    app: Name
    table: Annotated[Name, Meta(description="A windowed table.")]
    key: Annotated[str, Meta(min_length=1, max_length=4000)]
    time: Annotated[str, Meta(min_length=1, max_length=100, description="Milliseconds since 1970, or an ISO date.")]


class WindowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A window of a record; it closes when stream time reaches ``closes_at``."""

    start: int
    end: int
    closes_at: int
    is_closed: bool


class LateExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a record would be late now, and why."""

    is_late: bool
    key: Any
    partition: int
    timestamp: int
    stream_time: int | None
    windows: list[WindowStatus]
    reasons: list[str]


def get_time(site: Site, params: AppParams) -> AppTime:
    """Return the event time of an app."""
    journal = site.directory.journal(params.app)
    stages = status_of(site.directory.path, params.app).stages
    readers = site.directory.tables(params.app)
    return AppTime(
        app=params.app,
        sources=site.directory.query_broker(lambda broker: list(_sources(broker, journal)), []),
        stages=[
            StageTime(stage=stage.name, stream_times=stage.stream_times, held_back_by=stage.held_back_by)
            for stage in stages
        ],
        windows=[
            _open_windows(entry, reader)
            for entry in _entries(journal)
            if isinstance(reader := readers.get(entry.name), WindowTableReader)
        ],
    )


def explain_late(site: Site, params: LateParams) -> LateExplanation:
    """Explain whether a record with a key and a timestamp would be late for the windows of a table now."""
    journal = site.directory.journal(params.app)
    entry = next((entry for entry in _entries(journal) if entry.name == params.table), None)
    if entry is None or entry.windows is None:
        raise UnknownTableError(f"{params.table!r} is not a windowed table of {params.app!r}", hint="see /api/tables")
    timestamp = parse_time(params.time)
    reader = site.directory.tables(params.app)[params.table]
    assert isinstance(reader, WindowTableReader)
    key = next(keys_of(reader, params.key), None)
    if key is None:
        raise DefinitionError(f"{params.key!r:.60} is not a valid key of the table", hint="use a key of its type")
    partition = reader.partitions_of(key)[0]
    stream_time = reader.stream_time(partition)
    next_time = timestamp if stream_time is None else max(stream_time, timestamp)
    windows = list(window_statuses(entry.windows, timestamp, next_time))
    return LateExplanation(
        is_late=bool(windows) and all(window.is_closed for window in windows),
        key=key,
        partition=partition,
        timestamp=timestamp,
        stream_time=stream_time,
        windows=windows,
        reasons=_reasons(entry, timestamp, stream_time, partition, windows),
    )


def window_statuses(windows: Windows, timestamp: int, stream_time: int) -> Iterator[WindowStatus]:
    """Yield the windows of a timestamp, and whether each is closed at a stream time, as the operators decide it."""
    if isinstance(windows, SessionWindows):
        closes = timestamp + windows.gap + windows.grace + 1
        yield WindowStatus(start=timestamp, end=timestamp, closes_at=closes, is_closed=stream_time >= closes)
    elif isinstance(windows, SlidingWindows):
        closes = timestamp + windows.difference + windows.grace + 1
        end = timestamp + windows.difference
        yield WindowStatus(start=timestamp, end=end, closes_at=closes, is_closed=stream_time >= closes)
    else:
        for start in windows.starts(timestamp)[:_MAX_WINDOWS]:
            end = FOREVER if windows.size == FOREVER else start + windows.size
            closes = FOREVER if end == FOREVER else end + windows.grace
            yield WindowStatus(start=start, end=end, closes_at=closes, is_closed=stream_time >= closes)


def kind_of(windows: Windows) -> str:
    """Return a short description of a window definition."""
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
    """Return the tables of nodes; the stores of processors are left out, since their windows are user-defined."""
    entries = convert(journal.catalog().get("tables", []), list[TableEntry])
    return [entry for entry in entries if entry.key]


def _sources(broker: Broker, journal: Journal) -> Iterator[SourceTime]:
    for name, position in sorted(journal.read()[0].positions.items()):
        topic, _, text = name.rpartition("/")
        partition = int(text)
        try:
            offsets = broker.offsets(topic)
        except UnknownTopicError:
            continue
        if partition < len(offsets):
            begin, end = offsets[partition].begin, offsets[partition].end
            yield SourceTime(
                topic=topic,
                partition=partition,
                position=position,
                end=end,
                read_until=_timestamp_before(broker, topic, partition, begin, position),
                newest=_timestamp_before(broker, topic, partition, begin, end),
            )


def _timestamp_before(broker: Broker, topic: str, partition: int, begin: int, offset: int) -> int | None:
    """Return the timestamp of the last record before an offset; offsets can have gaps."""
    for distance in (1, 100, 10_000):
        start = max(begin, offset - distance)
        last = [int(chunk.block.column(2)[-1].as_py()) for chunk in broker.read(topic, partition, start, offset)]
        if last or start == begin:
            return last[-1] if last else None
    return None


def _open_windows(entry: TableEntry, reader: WindowTableReader) -> OpenWindows:
    assert entry.windows is not None
    times = {number: reader.stream_time(number) or -1 for number in range(entry.partitions)}
    closes: list[int] = []
    kept = 0
    for row in reader.scan(limit=_MAX_WINDOWS):
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
        is_complete=kept < _MAX_WINDOWS,
    )


def _reasons(
    entry: TableEntry, timestamp: int, stream_time: int | None, partition: int, windows: list[WindowStatus]
) -> list[str]:
    task = f"{entry.stage}/{partition}"
    if stream_time is None:
        return [f"Task {task} stores this key. It has not processed any record yet, so nothing can be late."]
    reasons = [f"Task {task} stores this key. Its stream time is {format_timestamp(stream_time)}."]
    if stream_time > timestamp:
        reasons.append(f"This record is {_age(stream_time - timestamp)} older than stream time.")
    else:
        reasons.append("This record is newer, so it would advance stream time.")
    for window in windows[:3]:
        if window.closes_at == FOREVER:
            reasons.append("Its window never closes.")
        else:
            start, end, closes_at = map(format_timestamp, (window.start, window.end, window.closes_at))
            verbs = ("closed", "reached") if window.is_closed else ("closes", "reaches")
            reasons.append(
                f"Its window {start} to {end} {verbs[0]} when stream time {verbs[1]} {closes_at} (grace included)."
            )
    return reasons


def _age(duration: int) -> str:
    seconds = duration / 1000
    if seconds < 120:
        return f"{seconds:,.3f} s"
    return f"{seconds / 60:,.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/apps/{app}/time",
        summary="Show the event time of an app",
        handler=get_time,
        params=AppParams,
        result=AppTime,
    ),
    Operation(
        method="GET",
        path="/api/apps/{app}/late",
        summary="Explain why a record with a key and a timestamp is late",
        handler=explain_late,
        params=LateParams,
        result=LateExplanation,
    ),
)
