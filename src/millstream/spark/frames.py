"""Records of a topic as rows of a DataFrame, and back.

Without a schema a row is a record as it is stored in the topic. With a schema its columns are the fields of the
record's JSON value; columns that start with an underscore are the record's metadata: ``_key``, ``_timestamp``,
``_partition`` and ``_offset``.
"""

from __future__ import annotations

import time
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, TypedDict

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as sql
from pyspark.sql.pandas.types import to_arrow_schema

from millstream.broker import Output, RecordChunk, TopicInfo
from millstream.errors import DefinitionError, SerdeError
from millstream.foundation.blocks import headers_of
from millstream.operators.runtime import Columns
from millstream.serdes import READABLE
from millstream.task.outbox import Outbox, topic_outputs

OnError = Literal["fail", "skip"]

RAW_SCHEMA = (
    "key BINARY, value BINARY, timestamp TIMESTAMP, partition INT, offset BIGINT, "
    "headers ARRAY<STRUCT<name: STRING, value: BINARY>>"
)
_RAW_COLUMNS = ("key", "value", "timestamp", "partition", "offset", "headers")
METADATA = {"_key": "key", "_timestamp": "timestamp", "_partition": "partition", "_offset": "offset"}
"""Columns of decoded rows that are not fields of the value, with the names they have in raw rows."""

_TYPES: dict[type[sql.DataType], Any] = {
    sql.StringType: str,
    sql.BooleanType: bool,
    sql.DoubleType: float,
    sql.FloatType: float,
    sql.LongType: int,
    sql.IntegerType: int,
    sql.ShortType: int,
    sql.ByteType: int,
    sql.BinaryType: bytes,
    sql.DateType: date,
    sql.TimestampType: datetime,
    sql.TimestampNTZType: datetime,
    sql.DecimalType: Decimal,
}


def arrow_schema(schema: sql.StructType) -> Any:
    """Return the Arrow schema that Spark expects for a Spark schema."""
    return to_arrow_schema(schema, timezone="UTC")


class RowReader:
    """Turns chunks of a topic into Arrow batches with the columns of a schema."""

    def __init__(self, topic: str, schema: sql.StructType, on_error: OnError) -> None:
        self._topic = topic
        self._schema = arrow_schema(schema)
        self._on_error = on_error
        self._is_raw = set(schema.names) <= set(_RAW_COLUMNS) and "value" in schema.names
        self._fields = [name for name in schema.names if name not in METADATA]
        if not self._is_raw:
            fields = [field for field in schema.fields if field.name in self._fields]
            self._decode = msgspec.json.Decoder(_python_type(sql.StructType(fields))).decode

    def batch(self, partition: int, chunk: RecordChunk) -> Any:
        """Return the rows of a chunk."""
        if self._is_raw:
            metadata = _metadata(partition, chunk)
            columns = {**metadata, "value": chunk.block.column(1), "headers": _headers(chunk)}
            return self._arranged(columns)
        rows, values = self._values(partition, chunk)
        kept = {name: pc.take(column, rows) for name, column in _metadata(partition, chunk).items()}
        fields = [field for field in self._schema if field.name in self._fields]
        decoded = pa.RecordBatch.from_pylist(values, pa.schema(fields))
        metadata = {name: kept[raw_name] for name, raw_name in METADATA.items()}
        return self._arranged({**metadata, **{name: decoded.column(name) for name in self._fields}})

    def _values(self, partition: int, chunk: RecordChunk) -> tuple[Any, list[dict[str, Any]]]:
        """Decode the values; a record without a value is a row of nulls."""
        rows: list[int] = []
        values: list[dict[str, Any]] = []
        for row, data in enumerate(chunk.block.column(1).to_pylist()):
            try:
                values.append({} if data is None else self._decode(data))
                rows.append(row)
            except msgspec.DecodeError as error:
                if self._on_error == "fail":
                    position = f"{self._topic}[{partition}]@{chunk.offsets[row]}"
                    raise SerdeError(
                        f"record {position} does not fit the schema: {error}",
                        hint='option("on_error", "skip") leaves it out',
                    ) from error
        return pa.array(rows, pa.int64()), values

    def _arranged(self, columns: dict[str, Any]) -> Any:
        arrays = [_cast(columns[field.name], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _cast(column: Any, kind: Any) -> Any:
    return column if column.type == kind else column.cast(kind)


def _metadata(partition: int, chunk: RecordChunk) -> dict[str, Any]:
    count = len(chunk.block)
    return {
        "key": chunk.block.column(0),
        "timestamp": chunk.block.column(2).cast(pa.timestamp("ms", tz="UTC")),
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(list(chunk.offsets), pa.int64()),
    }


def _headers(chunk: RecordChunk) -> Any:
    kind = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    rows = headers_of(chunk.block)
    if rows is None:
        return pa.nulls(len(chunk.block), kind)
    return pa.array([[{"name": name, "value": value} for name, value in headers] for headers in rows], kind)


def _python_type(kind: sql.DataType) -> Any:
    """Return the type with which msgspec validates a value of a Spark type while decoding JSON."""
    if isinstance(kind, sql.StructType):
        fields = {field.name: _python_type(field.dataType) | None for field in kind.fields}
        return TypedDict("Row", fields, total=False)  # type: ignore[operator]
    if isinstance(kind, sql.ArrayType):
        return list[_python_type(kind.elementType) | None]  # type: ignore[misc]
    if isinstance(kind, sql.MapType):
        return dict[str, _python_type(kind.valueType) | None]  # type: ignore[misc]
    for spark_type, python_type in _TYPES.items():
        if isinstance(kind, spark_type):
            return python_type
    raise DefinitionError(
        f"values cannot be read as {kind.simpleString()}", hint="read them raw and decode them in Spark"
    )


class RowWriter:
    """Turns rows into records: a column ``value`` is written unchanged, otherwise the row becomes a JSON object."""

    def __init__(self, names: list[str]) -> None:
        self._is_raw = "value" in names
        self._fields = [name for name in names if name not in METADATA]
        prefix = "" if self._is_raw else "_"
        self._key = f"{prefix}key" if f"{prefix}key" in names else None
        self._timestamp = f"{prefix}timestamp" if f"{prefix}timestamp" in names else None

    def outputs(self, batch: Any, topic: TopicInfo, keyless: int) -> list[Output]:
        """Return the output for a batch of rows; records without key go to partition ``keyless``."""
        rows: list[dict[str, Any]] = batch.to_pylist()
        columns = Columns()
        columns.keys = [self._key_of(row) for row in rows]
        columns.values = [self._value_of(row) for row in rows]
        now = time.time_ns() // 1_000_000
        columns.timestamps = [_milliseconds(row[self._timestamp], now) if self._timestamp else now for row in rows]
        if self._is_raw and "headers" in batch.schema.names:
            columns.headers = {
                number: tuple((header["name"], header["value"]) for header in row["headers"])
                for number, row in enumerate(rows)
                if row["headers"]
            }
        outbox = Outbox()
        outbox.topics[topic.name] = columns
        return topic_outputs(outbox.blocks(lambda _: topic.partitions, _no_edges, keyless))

    def _key_of(self, row: dict[str, Any]) -> bytes | None:
        key = None if self._key is None else row[self._key]
        return key if key is None or isinstance(key, bytes) else READABLE.encode(key)

    def _value_of(self, row: dict[str, Any]) -> bytes | None:
        if not self._is_raw:
            return msgspec.json.encode({name: row[name] for name in self._fields})
        value = row["value"]
        return value if value is None or isinstance(value, bytes) else READABLE.encode(value)


def _no_edges(edge: str) -> int:
    raise AssertionError(f"rows go to a topic, not to {edge}")


def _milliseconds(timestamp: Any, now: int) -> int:
    if timestamp is None:
        return now
    return timestamp if isinstance(timestamp, int) else round(timestamp.timestamp() * 1000)
