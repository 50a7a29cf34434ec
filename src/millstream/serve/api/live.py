"""Server-sent events: what comes in while somebody looks. A stream asks a few times per second and costs no thread."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import anyio
import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from millstream.errors import MillstreamError
from millstream.records import Record, TopicPartition
from millstream.serve.answers import failure
from millstream.serve.api.params import Name, Partition, ShortText
from millstream.serve.api.records import chosen, shown
from millstream.serve.api.tables import ScanParams, ShownRow, scan_table
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.records import at_ends, partitions_of, records_between

_NAP_SECONDS = 0.4
_HEARTBEAT_SECONDS = 15.0
_MOST_STREAMS = 64
_MOST_AT_ONCE = 200
_open = threading.BoundedSemaphore(_MOST_STREAMS)

Seconds = Annotated[float, Meta(gt=0, le=3600, description="End after so many seconds.")]


class ProgressParams(msgspec.Struct, frozen=True, kw_only=True):
    seconds: Seconds = 3600


class TailParams(msgspec.Struct, frozen=True, kw_only=True):
    topic: Name
    partition: Partition | None = None
    key: ShortText | None = None
    where: ShortText | None = None
    seconds: Seconds = 3600


class WatchParams(ScanParams, frozen=True, kw_only=True):
    seconds: Seconds = 3600


Look = Callable[[], tuple[str, Any] | None]
"""Looks once, and returns the name and the data of an event if there is something new."""


def watch_progress(site: Site, params: ProgressParams) -> AsyncIterator[bytes]:
    """Tell when any app or topic has moved on."""
    last: object = None

    def look() -> tuple[str, Any] | None:
        nonlocal last
        now = site.progress.now()
        if now == last:
            return None
        last = now
        return "progress", now

    return _events(look, params.seconds)


def tail_topic(site: Site, params: TailParams) -> AsyncIterator[bytes]:
    """Tell the records of a topic as they come; of a flood only the newest."""
    broker = site.place.broker
    partitions = partitions_of(broker, (params.topic,), params.partition)
    positions = at_ends(broker, partitions, end=True)
    is_wanted = chosen(params.key, params.where)

    def look() -> tuple[str, Any] | None:
        ends = at_ends(broker, partitions, end=True)
        found: list[Record] = []
        skipped = 0
        for at, end in ends.items():
            start = max(positions[at], end - _MOST_AT_ONCE)
            skipped += max(0, start - positions[at])
            found += _wanted(at, start, end)
            positions[at] = end
        if not found and not skipped:
            return None
        found.sort(key=lambda record: record.timestamp)
        return "records", {"records": [shown(one) for one in found[-_MOST_AT_ONCE:]], "skipped": skipped}

    def _wanted(at: TopicPartition, start: int, end: int) -> list[Record]:
        records = records_between(broker, at, start, end)
        return [record for record in records if is_wanted is None or is_wanted(record)]

    return _events(look, params.seconds)


def watch_table(site: Site, params: WatchParams) -> AsyncIterator[bytes]:
    """Tell the rows of a scan that have changed, and the keys of those that are gone."""
    known: dict[bytes, ShownRow] = {}
    is_first = True

    def look() -> tuple[str, Any] | None:
        nonlocal known, is_first
        rows = {_place(row): row for row in scan_table(site, params).rows}
        changed = [row for place, row in rows.items() if known.get(place) != row]
        gone = [{"key": row.key, "start": row.start} for place, row in known.items() if place not in rows]
        known = rows
        if is_first:
            is_first = False
            return None
        return ("rows", {"changed": changed, "gone": gone}) if changed or gone else None

    look()
    return _events(look, params.seconds)


def _place(row: ShownRow) -> bytes:
    return msgspec.json.encode((row.key, row.start, row.end), enc_hook=repr)


async def _events(look: Look, seconds: float) -> AsyncIterator[bytes]:
    """Look again and again, and yield what is new, encoded; a comment now and then shows that we are alive."""
    until = time.monotonic() + seconds
    next_heartbeat = 0.0
    while time.monotonic() < until:
        try:
            found = await run_in_threadpool(look)
        except MillstreamError as error:
            found = "problem", {"code": error.code, "message": error.message}
            until = 0.0
        if found is not None:
            name, data = found
            yield b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data, enc_hook=repr))
        elif time.monotonic() >= next_heartbeat:
            yield b": alive\n\n"
        else:
            await anyio.sleep(_NAP_SECONDS)
            continue
        next_heartbeat = time.monotonic() + _HEARTBEAT_SECONDS
        await anyio.sleep(_NAP_SECONDS)


def _stream(events: AsyncIterator[bytes]) -> Response:
    if not _open.acquire(blocking=False):
        return failure(429, "too_many", f"{_MOST_STREAMS} streams are open already", "close some, or look again later")

    async def counted() -> AsyncIterator[bytes]:
        try:
            async for event in events:
                yield event
        finally:
            _open.release()

    return StreamingResponse(counted(), media_type="text/event-stream")


def _operation(path: str, summary: str, handler: Any, params: type[msgspec.Struct]) -> Operation:
    return Operation(
        method="GET",
        path=path,
        summary=summary,
        handler=handler,
        params=params,
        media_types=("text/event-stream",),
        respond=_stream,
    )


OPERATIONS = (
    _operation("/api/live/progress", "Events whenever an app or a topic moves on", watch_progress, ProgressParams),
    _operation("/api/live/topics/{topic}", "New records of a topic as events", tail_topic, TailParams),
    _operation("/api/live/tables/{table}", "Changed rows of a table as events", watch_table, WatchParams),
)
