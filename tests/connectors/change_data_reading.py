"""A source that is driven by hand, as the loop of sources drives it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from millstream.connect.protocols import ConnectorContext, Intake, Source
from millstream.errors import TargetUnavailableError
from millstream.foundation.blocks import rows_of
from millstream.records import Headers

SECONDS = 30.0


class Reading:
    """Opens a source, reads it, and keeps what a journal would keep: records and position, together."""

    def __init__(self, source: Source, directory: Path, name: str = "shop") -> None:
        self.source = source
        self.gauges: dict[str, float] = {}
        self.position: bytes | None = None
        self.records: dict[str, list[tuple[bytes | None, Any]]] = {}
        self.headers: dict[str, list[Headers]] = {}
        self.reader: Any = None
        self._context = ConnectorContext(
            name=name, app="test", directory=directory, stopping=threading.Event(), report=self.gauges.__setitem__
        )

    def open(self) -> Any:
        deadline = time.monotonic() + SECONDS
        while self.reader is None:
            try:
                self.reader = self.source.open(self.position, self._context)
            except TargetUnavailableError:  # the server has not noticed yet that the last reader was closed
                assert time.monotonic() < deadline
        return self.reader

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def step(self, *, commit: bool = True) -> Intake | None:
        """Read once; without ``commit``, as if the process died before the source learned of it."""
        reader = self.reader or self.open()
        intake: Intake | None = reader.read(0.2)
        if intake is not None:
            for topic, block in intake.records.items():
                rows = rows_of(block)
                self.records.setdefault(topic, []).extend(zip(rows.keys, rows.values, strict=True))
                self.headers.setdefault(topic, []).extend(rows.headers or [()] * len(rows.keys))
            self.position = intake.position
            if commit:
                reader.committed(intake.position)
        return intake

    def until(self, condition: Callable[[], bool]) -> None:
        """Read until something is true."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"not within {SECONDS} s: {self.records}"
            self.step()

    def values(self, topic: str) -> list[Any]:
        return [None if value is None else msgspec.json.decode(value) for _, value in self.records.get(topic, [])]

    def table(self, topic: str) -> dict[bytes, Any]:
        """Return the last value of each key."""
        rows = {key: value for key, value in self.records.get(topic, []) if key is not None}
        return {key: msgspec.json.decode(value) for key, value in rows.items() if value is not None}

    def count(self, topic: str) -> int:
        return len(self.records.get(topic, []))
