"""A source that is driven by hand, as the loop of sources drives it; commits may be left out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Self

import msgspec

from millstream.connect.protocols import ConnectorContext, Source, SourceReader
from millstream.foundation.blocks import rows_of

QUICK = 0.05
LONG = 20.0


class Reading:
    """Opens a source, reads it, and keeps what a journal would keep: records and position, together."""

    def __init__(self, source: Source, directory: Path) -> None:
        self.source = source
        self.position: bytes | None = None
        self.gauges: dict[str, float] = {}
        self.stopping = threading.Event()
        self.reader: SourceReader | None = None
        self._context = ConnectorContext(
            name="in", app="test", directory=directory, stopping=self.stopping, report=self.gauges.__setitem__
        )

    def open(self) -> SourceReader:
        if self.reader is None:
            self.reader = self.source.open(self.position, self._context)
        return self.reader

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def read(self, seconds: float = QUICK, *, commit: bool = True) -> list[tuple[str | None, Any]]:
        """Return keys and decoded values of the next intake; without ``commit`` as if the process had died."""
        reader = self.open()
        intake = reader.read(seconds)
        if intake is None:
            return []
        if commit:
            self.position = intake.position
            reader.committed(intake.position)
        return [
            (None if key is None else bytes(key).decode(), None if value is None else _decoded(bytes(value)))
            for block in intake.records.values()
            for key, value in zip(rows_of(block).keys, rows_of(block).values, strict=True)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _decoded(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
