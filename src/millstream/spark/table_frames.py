"""Rows of a table as rows of a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from millstream.errors import DefinitionError, SerdeError
from millstream.records import Windowed
from millstream.spark.frames import arrow_schema
from millstream.spark.options import Options
from millstream.tables.opening import open_tables
from millstream.tables.rows import Row, TableReader

_SAMPLE_ROWS = 100
_BATCH_ROWS = 10_000
_EMPTY = pa.schema([("key", pa.string()), ("value", pa.string()), ("timestamp", pa.timestamp("us", tz="UTC"))])


class TableRows:
    """Rows with ``key``, ``value`` and ``timestamp``, for windows also ``window_start`` and ``window_end``."""

    def __init__(self, options: Options) -> None:
        assert options.table is not None
        assert options.app is not None
        self._reader: TableReader = open_tables(options.data_dir, options.app)[options.table]
        self.partitions = self._reader.partitions

    def inferred_schema(self) -> StructType:
        """Return a schema that fits the first rows."""
        sample = [_plain(row) for row in islice(self._reader.scan(limit=_SAMPLE_ROWS), _SAMPLE_ROWS)]
        try:
            schema = pa.RecordBatch.from_pylist(sample).schema if sample else _EMPTY
        except pa.ArrowException as error:
            raise DefinitionError(
                f"the rows of table {self._reader.name!r} have no common schema: {error}",
                hint='give one: .schema("key STRING, value BIGINT")',
            ) from error
        return from_arrow_schema(schema)

    def batches(self, partition: int, schema: StructType) -> Iterator[Any]:
        """Yield the rows of a partition, from one snapshot."""
        expected = arrow_schema(schema)
        rows = iter(self._reader.partition_rows(partition))
        while part := [_plain(row) for row in islice(rows, _BATCH_ROWS)]:
            try:
                yield pa.RecordBatch.from_pylist(part, expected)
            except (pa.ArrowException, TypeError) as error:
                raise SerdeError(
                    f"a row of table {self._reader.name!r} does not fit the schema {schema.simpleString()}: {error}",
                    hint="give a schema that fits all rows with .schema(...)",
                ) from error


def _plain(row: Row) -> dict[str, Any]:
    """Return a row as plain data; the times of windows and rows become timestamps."""
    times = {"timestamp": _timestamp(row.timestamp)}
    key = row.key
    if isinstance(key, Windowed):
        times.update(window_start=_timestamp(key.start), window_end=_timestamp(key.end))
        key = key.key
    return {"key": msgspec.to_builtins(key), "value": msgspec.to_builtins(row.value), **times}


def _timestamp(milliseconds: int) -> Any:
    return pa.scalar(milliseconds, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
