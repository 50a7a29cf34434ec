"""Batches for tests of sinks, without the loop that usually makes them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from millstream.connect.protocols import ConnectorContext, SinkBatch
from millstream.records import Record

START = 1_700_000_000_000


def context(directory: Path, name: str = "out", app: str = "shop") -> ConnectorContext:
    """Return the context of a sink."""
    directory.mkdir(parents=True, exist_ok=True)
    return ConnectorContext(
        name=name, app=app, directory=directory, stopping=threading.Event(), report=lambda _name, _value: None
    )


def batch(number: int, rows: Iterable[tuple[Any, Any]], *, lineage: str = "first", partition: int = 0) -> SinkBatch:
    """Return a batch of keys and values; its offsets follow from its number."""
    records = [
        Record(topic="totals", partition=partition, offset=number * 1000 + row, key=key, value=value, timestamp=START)
        for row, (key, value) in enumerate(rows)
    ]
    return SinkBatch(lineage=lineage, number=number, wall_time=START + number, records=records)


def numbered(number: int, rows: int = 20) -> SinkBatch:
    """Return a batch that every process makes alike: the values of its rows are all different."""
    return batch(number, [(f"k{row}", {"id": number * rows + row, "batch": number}) for row in range(rows)])
