"""The processing log: errors of SQL expressions as records of a topic, published with the output of their batch."""

from __future__ import annotations

from typing import Final

import msgspec

from millstream.foundation.value_errors import LoggedError, ValueErrors
from millstream.operators.runtime import Columns

RETENTION_MS: Final = 7 * 86_400_000
RETENTION_BYTES: Final = 100 * 1024 * 1024
"""How much of the log a topic keeps that is created for it; the bytes are for each partition."""


def write_processing_log(columns: Columns, errors: ValueErrors, wall_time: int) -> None:
    """Append the errors of a task; the key is the query, and the last record says how many were left out."""
    for error in errors.logged:
        _append(columns, error.query, error, wall_time)
    if errors.omitted:
        message = f"{errors.omitted:,} further errors of this batch are counted in its report only"
        _append(columns, "", LoggedError(error="Omitted", message=message), wall_time)


def _append(columns: Columns, query: str, error: LoggedError, wall_time: int) -> None:
    columns.keys.append(query.encode())
    columns.values.append(msgspec.json.encode(error))
    columns.timestamps.append(wall_time)
    columns.set_headers(())
