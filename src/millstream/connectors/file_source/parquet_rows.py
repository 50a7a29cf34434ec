"""Rows of complete Parquet files as JSON, one row group at a time."""

from __future__ import annotations

import logging
import os

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.connect.protocols import ConnectorContext
from millstream.connectors.file_source.tracked import Tracked
from millstream.foundation.json_text import json_bytes
from millstream.foundation.text import printable

_log = logging.getLogger("millstream.connectors.files")
_MAGIC = b"PAR1"


def read_row_group(tracked: Tracked, context: ConnectorContext) -> tuple[list[bytes], int]:
    """Return the next rows of a file and their size; nothing of a file that is read or not complete."""
    file, size, entry = tracked.open(), tracked.size(), tracked.entry
    is_read = entry.is_done and size == entry.offset
    if is_read or size < 2 * len(_MAGIC) or os.pread(file, len(_MAGIC), size - len(_MAGIC)) != _MAGIC:
        return [], 0
    number = entry.row_groups
    try:
        with os.fdopen(os.dup(file), "rb") as stream, pq.ParquetFile(stream) as parquet:
            count = parquet.num_row_groups
            rows = parquet.read_row_group(number).to_pylist() if number < count else []
            length = parquet.metadata.row_group(number).total_byte_size if number < count else 0
    except pa.ArrowException as error:
        if not tracked.has_warned:
            text = printable(str(error))[:200]
            _log.warning("source %s: %s is not valid Parquet: %s", context.name, printable(str(tracked.path)), text)
            tracked.has_warned = True
        return [], 0
    tracked.entry = entry.advanced(file, size, number + 1, is_done=number + 1 >= count)
    return [json_bytes(row) for row in rows], max(1, length)
