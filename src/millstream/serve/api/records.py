"""Records of a topic: look for them, write one, and see the topic as a table."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from millstream.errors import DefinitionError
from millstream.foundation.text import decode_text, parse_json
from millstream.producer import Delivery, Producer
from millstream.records import Record
from millstream.serve.api.params import Limit, Millis, Name, Partition, ShortText
from millstream.serve.api.topics import TopicParams
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.expressions import predicate
from millstream.views.search import Direction, cursor_of, search, start_of

SEARCH_SECONDS = 2.0
SHOWN_BYTES = 65_536
_TABLE_RECORDS = 20_000


class RecordParams(msgspec.Struct, frozen=True, kw_only=True):
    topic: Name
    partition: Partition | None = None
    start: Annotated[
        str, Meta(max_length=4000, description="earliest, latest, an offset, a time, or the `next` of an answer.")
    ] = "latest"
    direction: Annotated[
        Direction | None, Meta(description="Which way to read; from `latest` it is older, else newer.")
    ] = None
    key: Annotated[ShortText | None, Meta(description="Only records with this key.")] = None
    where: Annotated[ShortText | None, Meta(description="Only records of which this holds: value.amount > 40.")] = None
    limit: Limit = 50


class ShownRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record; values are parsed as JSON where they are JSON, base64 where they are not even text.

    ``bytes`` is the size of the value; one that is too large to show is cut and ``is_cut``.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: list[tuple[str, Any]]
    bytes: int
    is_cut: bool = False


class FoundRecords(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found; with ``next`` as ``start`` and the same ``direction`` it goes on where it ended."""

    records: list[ShownRecord]
    direction: Direction
    next: str | None
    is_out_of_time: bool
    looked_at: int


class NewRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record to be written; ``form`` says what the value is written as."""

    value: Any = None
    form: Literal["json", "text", "base64"] = "json"
    key: ShortText | None = None
    partition: Partition | None = None
    timestamp: Millis | None = None
    headers: Annotated[dict[ShortText, ShortText], Meta(max_length=100)] = {}


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Where a record now stands."""

    topic: str
    partition: int
    offset: int


class TableParams(msgspec.Struct, frozen=True, kw_only=True):
    topic: Name
    limit: Limit = 100


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """The newest record of a key, and how many others of it were looked at."""

    key: Any
    value: Any
    timestamp: int
    updates: int


class TopicAsTable(msgspec.Struct, frozen=True, kw_only=True):
    """A topic read as a table: its newest records by key; deletions and records without key are counted only."""

    rows: list[TopicRow]
    looked_at: int
    deleted: int
    without_key: int
    is_whole: bool


def shown(record: Record) -> ShownRecord:
    """Return a record as it is told: parsed, and cut where it is large."""
    value, size = record.value, len(record.value or b"")
    is_cut = size > SHOWN_BYTES
    return ShownRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=_cut(record.key),
        value=_cut(value) if is_cut else parse_json(value),
        headers=[(name, _cut(each)) for name, each in record.headers],
        bytes=size,
        is_cut=is_cut,
    )


def _cut(data: bytes | None) -> Any:
    if data is None or len(data) <= SHOWN_BYTES:
        return decode_text(data)
    return data[:SHOWN_BYTES].decode("utf-8", "replace")


def chosen(key: str | None, where: str | None) -> Callable[[Record], bool] | None:
    """Return the predicate for a key and an expression, None if all records are wanted."""
    wanted_key = None if key is None else key.encode()
    holds = None if where is None else predicate(where)
    if wanted_key is None or holds is None:
        return holds if wanted_key is None else lambda record: record.key == wanted_key
    return lambda record: record.key == wanted_key and holds(record)


def find_records(site: Site, params: RecordParams) -> FoundRecords:
    """Look for records for a bounded time."""
    broker = site.place.broker
    direction: Direction = params.direction or ("older" if params.start == "latest" else "newer")
    found = search(
        broker,
        start_of(broker, params.topic, params.partition, params.start),
        direction,
        limit=params.limit,
        seconds=SEARCH_SECONDS,
        is_wanted=chosen(params.key, params.where),
    )
    return FoundRecords(
        records=[shown(record) for record in found.records],
        direction=direction,
        next=None if found.is_exhausted else cursor_of(found.positions),
        is_out_of_time=found.is_out_of_time,
        looked_at=found.looked_at,
    )


def write_record(site: Site, params: TopicParams, body: NewRecord) -> Written:
    """Append one record, to the partition of its key unless one is named."""
    broker = site.place.broker
    partitions = broker.topic(params.topic).partitions
    if body.partition is not None and body.partition >= partitions:
        raise DefinitionError(
            f"topic {params.topic!r} has no partition {body.partition}", hint=f"it has 0 to {partitions - 1}"
        )
    delivered: list[Delivery] = []
    with Producer(broker, key=bytes, value=bytes) as producer:
        producer.send(
            params.topic,
            _encoded(body),
            key=None if body.key is None else body.key.encode(),
            timestamp=body.timestamp,
            headers={name: value.encode() for name, value in body.headers.items()} or None,
            partition=body.partition,
            on_delivery=delivered.append,
        )
        producer.flush()
    (there,) = delivered
    return Written(topic=params.topic, partition=there.partition or 0, offset=there.offset or 0)


def _encoded(body: NewRecord) -> bytes | None:
    if body.value is None:
        return None
    if body.form == "json":
        return msgspec.json.encode(body.value)
    if not isinstance(body.value, str):
        raise DefinitionError(f"a value as {body.form} must be a text", hint='send "form": "json" for other values')
    if body.form == "text":
        return body.value.encode()
    try:
        return base64.b64decode(body.value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DefinitionError(f"the value is no base64: {error}", hint='send "form": "text" for plain text') from error


def topic_as_table(site: Site, params: TableParams) -> TopicAsTable:
    """Read the newest records of a topic as the rows of a table."""
    broker = site.place.broker
    found = search(
        broker,
        start_of(broker, params.topic, None, "latest"),
        "older",
        limit=_TABLE_RECORDS,
        seconds=SEARCH_SECONDS,
    )
    newest: dict[bytes, Record] = {}
    updates: dict[bytes, int] = {}
    for record in found.records:
        if record.key is not None:
            newest.setdefault(record.key, record)
            updates[record.key] = updates.get(record.key, 0) + 1
    rows = [record for record in newest.values() if record.value is not None]
    return TopicAsTable(
        rows=[
            TopicRow(key=one.key, value=one.value, timestamp=one.timestamp, updates=updates[record.key])
            for record, one in ((record, shown(record)) for record in rows[: params.limit])
        ],
        looked_at=found.looked_at,
        deleted=len(newest) - len(rows),
        without_key=sum(record.key is None for record in found.records),
        is_whole=found.is_exhausted and len(rows) <= params.limit,
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/topics/{topic}/records",
        summary="Look for records",
        handler=find_records,
        params=RecordParams,
        answer=FoundRecords,
    ),
    Operation(
        method="POST",
        path="/api/topics/{topic}/records",
        summary="Write a record",
        handler=write_record,
        params=TopicParams,
        body=NewRecord,
        answer=Written,
    ),
    Operation(
        method="GET",
        path="/api/topics/{topic}/table",
        summary="See the topic as a table: the newest record of each key",
        handler=topic_as_table,
        params=TableParams,
        answer=TopicAsTable,
    ),
)
