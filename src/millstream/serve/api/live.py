"""Server-sent events. A stream polls a few times per second and occupies no thread in between."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Annotated, Any, NamedTuple

import anyio
import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from millstream.errors import MillstreamError
from millstream.records import Record
from millstream.serve.api.params import Name, Partition, ShortText
from millstream.serve.api.records import record_filter, record_view
from millstream.serve.api.tables import ScanParams, scan_table
from millstream.serve.operations import Operation
from millstream.serve.responses import error_response
from millstream.serve.site import Site
from millstream.views.records import end_offsets, read_range, record_bytes, topic_partitions

_POLL_SECONDS = 0.4
_HEARTBEAT_SECONDS = 15.0
_MAX_STREAMS = 64
_STALLED_SECONDS = 30.0
"""A client that takes nothing for that long is cut; it may resume."""
_MAX_RECORDS = 200
_MAX_BYTES = 4 << 20
"""The most bytes of records in an event, or one record of each partition."""
_open_streams = threading.BoundedSemaphore(_MAX_STREAMS)

Seconds = Annotated[float, Meta(gt=0, le=3600, description="End the stream after this many seconds.")]


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
    last_event_id: Annotated[
        ShortText | None, Meta(description="Continue after this event, as Last-Event-ID does.")
    ] = None
    token: Annotated[str, Meta(max_length=4000, description="A read token.")] | None = None


class Event(NamedTuple):
    name: str
    data: Any
    id: str | None = None


Poll = Callable[[], Event | None]
"""Returns an event, or None if nothing is new."""


def watch_progress(site: Site, params: ProgressParams) -> AsyncIterator[bytes]:
    """Send an event whenever an app or a topic makes progress."""
    last: object = None

    def poll() -> Event | None:
        nonlocal last
        current = site.progress.current()
        if current == last:
            return None
        last = current
        return Event("progress", current)

    return _events(poll, params.seconds)


def tail_topic(site: Site, params: TailParams) -> AsyncIterator[bytes]:
    """Send the records of a topic as they arrive; if there are too many, only the newest."""
    broker = site.directory.broker
    partitions = topic_partitions(broker, (params.topic,), params.partition)
    positions = end_offsets(broker, partitions)
    is_match = record_filter(params.key, params.where)

    def poll() -> Event | None:
        ends = end_offsets(broker, partitions)
        records: list[Record] = []
        skipped = 0
        for partition, end in ends.items():
            start = max(positions[partition], end - _MAX_RECORDS)
            skipped += max(0, start - positions[partition])
            newest, cut = _newest(filter(is_match, read_range(broker, partition, start, end)), _MAX_BYTES // len(ends))
            records += newest
            skipped += cut
            positions[partition] = end
        if not records and not skipped:
            return None
        records.sort(key=lambda record: record.timestamp)
        shown = [record_view(record) for record in records[-_MAX_RECORDS:]]
        return Event("records", {"records": shown, "skipped": skipped})

    return _events(poll, params.seconds)


def _newest(records: Iterable[Record], most: int) -> tuple[list[Record], int]:
    """Return the last records that have at most ``most`` bytes, or the last one, and how many were left out."""
    kept: deque[Record] = deque()
    size = skipped = 0
    for record in records:
        kept.append(record)
        size += record_bytes(record)
        while size > most and len(kept) > 1:
            size -= record_bytes(kept.popleft())
            skipped += 1
    return list(kept), skipped


def watch_table(site: Site, params: WatchParams) -> AsyncIterator[bytes]:
    """Send all rows of a scan, then those that have changed and the keys of rows that were deleted.

    Events have ids. A client that sends the last one gets what changed since; if that is not known, all rows again.
    """
    scan = ScanParams(**{name: getattr(params, name) for name in ScanParams.__struct_fields__})
    feed = site.feeds.feed(scan, lambda: scan_table(site, scan))
    last_id = params.last_event_id
    first = [feed.update(last_id)]  # a table that does not exist is refused at once

    def poll() -> Event | None:
        nonlocal last_id
        update = first.pop() if first else feed.update(last_id)
        if update is None:
            return None
        last_id = update.id
        return Event(update.event, update.data, update.id)

    return _events(poll, params.seconds)


async def _events(poll: Poll, seconds: float) -> AsyncIterator[bytes]:
    """Poll until the time is up, and yield encoded events; comments serve as heartbeats."""
    until = time.monotonic() + seconds
    next_heartbeat = 0.0
    while time.monotonic() < until:
        try:
            event = await run_in_threadpool(poll)
        except MillstreamError as error:
            event = Event("problem", {"code": error.code, "message": error.message})
            until = 0.0
        if event is not None:
            number = b"" if event.id is None else b"id: %s\n" % event.id.encode()
            data = msgspec.json.encode(event.data, enc_hook=repr)
            yield b"event: %s\n%sdata: %s\n\n" % (event.name.encode(), number, data)
        elif time.monotonic() >= next_heartbeat:
            yield b": alive\n\n"
        else:
            await anyio.sleep(_POLL_SECONDS)
            continue
        next_heartbeat = time.monotonic() + _HEARTBEAT_SECONDS
        await anyio.sleep(_POLL_SECONDS)


def stream_response(
    events: AsyncIterator[bytes], media_type: str = "text/event-stream", close: Callable[[], None] | None = None
) -> Response:
    """Return a response that sends events as they come, unless too many are open; ``close`` is called at its end."""
    if not _open_streams.acquire(blocking=False):
        if close is not None:
            close()
        return error_response(429, "too_many", f"{_MAX_STREAMS} streams are already open", "close some, or retry later")
    response = _CountedStream(events, media_type=media_type)
    response.close = close
    return response


class _CountedStream(StreamingResponse):
    """Counts as open until it ends, also if the client disconnects before the first event."""

    close: Callable[[], None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_soon(message: Message) -> None:
            with anyio.fail_after(_STALLED_SECONDS):
                await send(message)

        try:
            await super().__call__(scope, receive, send_soon)
        finally:
            _open_streams.release()
            if self.close is not None:  # it may wait for a thread that still reads
                threading.Thread(target=self.close, daemon=True).start()


def _operation(path: str, summary: str, handler: Any, params: type[msgspec.Struct]) -> Operation:
    return Operation(
        method="GET",
        path=path,
        summary=summary,
        handler=handler,
        params=params,
        media_types=("text/event-stream",),
        respond=stream_response,
    )


OPERATIONS = (
    _operation("/api/live/progress", "Events when an app or a topic makes progress", watch_progress, ProgressParams),
    _operation("/api/live/topics/{topic}", "New records of a topic as events", tail_topic, TailParams),
    _operation("/api/live/tables/{table}", "Changed rows of a table as events", watch_table, WatchParams),
)
