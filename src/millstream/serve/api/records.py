"""Records of a topic: search them, write one, and read the topic as a table."""

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
from millstream.views.search import Direction, format_cursor, search, start_positions

SEARCH_SECONDS = 2.0
SHOWN_BYTES = 65_536
_TABLE_RECORDS = 20_000


class RecordParams(msgspec.Struct, frozen=True, kw_only=True):
    topic: Name
    partition: Partition | None = None
    start: Annotated[
        str, Meta(max_length=4000, description="earliest, latest, an offset, a time, or the `next` of a response.")
    ] = "latest"
    direction: Annotated[
        Direction | None, Meta(description="Direction of the search; by default older from `latest`, else newer.")
    ] = None
    key: Annotated[ShortText | None, Meta(description="Only records with this key.")] = None
    where: Annotated[ShortText | None, Meta(description="Only records that match, as in value.amount > 40.")] = None
    limit: Limit = 50


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """A record; a value is decoded as JSON if it is JSON, and is base64 if it is not text.

    ``bytes`` is the size of the value; ``is_cut`` if the value is too large and was truncated.
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
    """The result of a search; to continue it, pass ``next`` as ``start`` with the same ``direction``.

    ``scanned`` counts the records that were read; ``timed_out`` if the search ended before it was complete.
    """

    records: list[RecordView]
    direction: Direction
    next: str | None
    timed_out: bool
    scanned: int


class NewRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record to write; ``form`` is the encoding of the value."""

    value: Any = None
    form: Literal["json", "text", "base64"] = "json"
    key: ShortText | None = None
    partition: Partition | None = None
    timestamp: Millis | None = None
    headers: Annotated[dict[ShortText, ShortText], Meta(max_length=100)] = {}


class RecordMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a written record."""

    topic: str
    partition: int
    offset: int


class TableParams(msgspec.Struct, frozen=True, kw_only=True):
    topic: Name
    limit: Limit = 100


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """The newest record of a key, and how many records of the key were read."""

    key: Any
    value: Any
    timestamp: int
    updates: int


class TopicAsTable(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as a table: the newest record of each key; tombstones and records without key are only counted.

    ``scanned`` counts the records that were read; ``is_complete`` if these are all rows.
    """

    rows: list[TopicRow]
    scanned: int
    deleted: int
    without_key: int
    is_complete: bool


def record_view(record: Record) -> RecordView:
    """Return a record decoded for display; large keys, values and headers are truncated."""
    value, size = record.value, len(record.value or b"")
    is_cut = size > SHOWN_BYTES
    return RecordView(
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


def record_filter(key: str | None, where: str | None) -> Callable[[Record], bool] | None:
    """Return the predicate for a key and an expression, None if all records match."""
    key_bytes = None if key is None else key.encode()
    is_match = None if where is None else predicate(where)
    if key_bytes is None or is_match is None:
        return is_match if key_bytes is None else lambda record: record.key == key_bytes
    return lambda record: record.key == key_bytes and is_match(record)


def find_records(site: Site, params: RecordParams) -> FoundRecords:
    """Search records for a bounded time."""
    broker = site.directory.broker
    direction: Direction = params.direction or ("older" if params.start == "latest" else "newer")
    result = search(
        broker,
        start_positions(broker, params.topic, params.partition, params.start),
        direction,
        limit=params.limit,
        seconds=SEARCH_SECONDS,
        predicate=record_filter(params.key, params.where),
    )
    return FoundRecords(
        records=[record_view(record) for record in result.records],
        direction=direction,
        next=None if result.is_exhausted else format_cursor(result.positions),
        timed_out=result.has_timed_out,
        scanned=result.scanned,
    )


def write_record(site: Site, params: TopicParams, body: NewRecord) -> RecordMetadata:
    """Append a record, to the partition of its key unless a partition is given."""
    broker = site.directory.broker
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
    (delivery,) = delivered
    return RecordMetadata(topic=params.topic, partition=delivery.partition or 0, offset=delivery.offset or 0)


def _encoded(body: NewRecord) -> bytes | None:
    if body.value is None:
        return None
    if body.form == "json":
        return msgspec.json.encode(body.value)
    if not isinstance(body.value, str):
        raise DefinitionError(
            f"a value with form {body.form!r} must be text", hint='use "form": "json" for other values'
        )
    if body.form == "text":
        return body.value.encode()
    try:
        return base64.b64decode(body.value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DefinitionError(f"the value is not base64: {error}", hint='use "form": "text" for plain text') from error


def topic_as_table(site: Site, params: TableParams) -> TopicAsTable:
    """Read the newest records of a topic as the rows of a table."""
    broker = site.directory.broker
    result = search(
        broker,
        start_positions(broker, params.topic, None, "latest"),
        "older",
        limit=_TABLE_RECORDS,
        seconds=SEARCH_SECONDS,
    )
    newest: dict[bytes, Record] = {}
    updates: dict[bytes, int] = {}
    for record in result.records:
        if record.key is not None:
            newest.setdefault(record.key, record)
            updates[record.key] = updates.get(record.key, 0) + 1
    rows = [record for record in newest.values() if record.value is not None]
    return TopicAsTable(
        rows=[
            TopicRow(key=view.key, value=view.value, timestamp=view.timestamp, updates=updates[record.key])
            for record, view in ((record, record_view(record)) for record in rows[: params.limit])
        ],
        scanned=result.scanned,
        deleted=len(newest) - len(rows),
        without_key=sum(record.key is None for record in result.records),
        is_complete=result.is_exhausted and len(rows) <= params.limit,
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/topics/{topic}/records",
        summary="Search records",
        handler=find_records,
        params=RecordParams,
        result=FoundRecords,
    ),
    Operation(
        method="POST",
        path="/api/topics/{topic}/records",
        summary="Write a record",
        handler=write_record,
        params=TopicParams,
        body=NewRecord,
        result=RecordMetadata,
    ),
    Operation(
        method="GET",
        path="/api/topics/{topic}/table",
        summary="Read the topic as a table: the newest record of each key",
        handler=topic_as_table,
        params=TableParams,
        result=TopicAsTable,
    ),
)
