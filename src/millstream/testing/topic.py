"""Topics of the test driver: where tests put records in and take records out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from millstream.durations import Duration, milliseconds
from millstream.records import Headers, Record
from millstream.serdes import RAW, Serde

if TYPE_CHECKING:
    from millstream.testing.driver import TestDriver


class TestTopic:
    """A topic of a test driver. What is read once is not read again.

    Records that are piped without a timestamp get the time of the wall clock or, with ``start`` and ``advance``, the
    time ``start`` and then each ``advance`` later.
    """

    __test__ = False

    def __init__(
        self, driver: TestDriver, name: str, *, start: int | None = None, advance: Duration | None = None
    ) -> None:
        self.name = name
        self._driver = driver
        self._advance = 0 if advance is None else milliseconds(advance)
        self._time = driver.wall_clock if start is None and advance is not None else start

    # Writing

    def pipe(
        self,
        *values: Any,
        key: Any = None,
        timestamp: int | None = None,
        advance: Duration = "0 ms",
        headers: Mapping[str, bytes] | Headers = (),
    ) -> None:
        """Append records and process each with all that follows from it.

        All have the ``timestamp``, or each is by ``advance`` later than the one before.
        """
        pairs = tuple(headers.items()) if isinstance(headers, Mapping) else headers
        step = milliseconds(advance)
        for number, value in enumerate(values):
            at = self._next_time() if timestamp is None else timestamp + number * step
            self._driver._append(self.name, (key, value, at, pairs), *self._serdes)

    def pipe_pairs(
        self, pairs: Iterable[tuple[Any, Any]], *, timestamp: int | None = None, advance: Duration = "0 ms"
    ) -> None:
        """Append (key, value) pairs, one after the other."""
        for number, (key, value) in enumerate(pairs):
            self.pipe(
                value, key=key, timestamp=None if timestamp is None else timestamp + number * milliseconds(advance)
            )

    def pipe_records(self, records: Iterable[Record]) -> None:
        """Append records with their keys, values, timestamps and headers, for instance those read elsewhere."""
        for record in records:
            self.pipe(record.value, key=record.key, timestamp=record.timestamp, headers=record.headers)

    def pipe_raw(
        self, value: bytes | None, *, key: bytes | None = None, timestamp: int = 0, headers: Headers = ()
    ) -> None:
        """Append bytes as they are, also such as cannot be decoded."""
        self._driver._append(self.name, (key, value, timestamp, headers), RAW, RAW)

    def advance_time(self, by: Duration) -> None:
        """Move the time of records that are piped without a timestamp."""
        self._time = (self._driver.wall_clock if self._time is None else self._time) + milliseconds(by)

    def _next_time(self) -> int:
        if self._time is None:
            return self._driver.wall_clock
        now, self._time = self._time, self._time + self._advance
        return now

    # Reading

    @property
    def unread(self) -> int:
        """How many records were not read yet."""
        return self._driver._count_unread(self.name)

    @property
    def is_empty(self) -> bool:
        """Whether all records were read."""
        return self.unread == 0

    def read(self) -> list[Record]:
        """Return the records that were not read yet."""
        return self._driver._take(self.name, *self._serdes)

    def read_record(self) -> Record:
        """Return the next record that was not read yet."""
        found = self._driver._take(self.name, *self._serdes, most=1)
        if not found:
            raise LookupError(f"topic {self.name!r} has no record that was not read yet")
        return found[0]

    def read_raw(self) -> list[Record]:
        """Return the records that were not read yet with keys and values as bytes, also such as cannot be decoded."""
        return self._driver._take(self.name, RAW, RAW)

    def read_key_values(self) -> list[tuple[Any, Any]]:
        """Return (key, value) of the records that were not read yet."""
        return [(record.key, record.value) for record in self.read()]

    def read_values(self) -> list[Any]:
        """Return the values of the records that were not read yet."""
        return [record.value for record in self.read()]

    def read_map(self) -> dict[Any, Any]:
        """Return the last value of each key among the records that were not read yet."""
        return dict(self.read_key_values())

    @property
    def _serdes(self) -> tuple[Serde, Serde]:
        return self._driver._serdes_of(self.name)


Piped = tuple[Any, Any, int, Headers]
"""Key, value, timestamp and headers of a record on its way in."""
