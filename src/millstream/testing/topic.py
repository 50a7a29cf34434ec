"""Topics of the test driver: tests pipe records in and read records out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic

from millstream.durations import Duration, milliseconds
from millstream.foundation.headers import HeadersLike, header_pairs
from millstream.foundation.type_variables import Key, Value
from millstream.records import Headers, Record
from millstream.serdes import RAW, Serde, SerdeLike, serde_for

if TYPE_CHECKING:
    from millstream.testing.driver import TestDriver


class TestTopic(Generic[Key, Value]):
    """A topic of a test driver. Each record is read once.

    Records that are piped without a timestamp get the wall-clock time or, with ``start`` and ``advance``, the time
    ``start`` and then each ``advance`` later.
    """

    __test__ = False

    def __init__(
        self,
        driver: TestDriver,
        name: str,
        *,
        key: SerdeLike[Key] = None,
        value: SerdeLike[Value] = None,
        start: int | None = None,
        advance: Duration | None = None,
    ) -> None:
        self.name = name
        self._driver = driver
        self._key, self._value = serde_for(key), serde_for(value)
        self._advance = 0 if advance is None else milliseconds(advance)
        self._time = driver.wall_clock if start is None and advance is not None else start

    # Writing

    def pipe(
        self,
        *values: Value | None,
        key: Key | None = None,
        timestamp: int | None = None,
        advance: Duration = "0 ms",
        headers: HeadersLike = (),
    ) -> None:
        """Append records and process each of them to the end.

        All have the ``timestamp``, or each is ``advance`` later than the one before.
        """
        pairs = header_pairs(headers)
        step = milliseconds(advance)
        for number, value in enumerate(values):
            at = self._next_time() if timestamp is None else timestamp + number * step
            self._driver._append(self.name, (key, value, at, pairs), *self._serdes)

    def pipe_pairs(
        self,
        pairs: Iterable[tuple[Key | None, Value | None]],
        *,
        timestamp: int | None = None,
        advance: Duration = "0 ms",
    ) -> None:
        """Append (key, value) pairs in order."""
        for number, (key, value) in enumerate(pairs):
            self.pipe(
                value, key=key, timestamp=None if timestamp is None else timestamp + number * milliseconds(advance)
            )

    def pipe_records(self, records: Iterable[Record[Key, Value]]) -> None:
        """Append records with their keys, values, timestamps and headers, for example records of another topic."""
        for record in records:
            self.pipe(record.value, key=record.key, timestamp=record.timestamp, headers=record.headers)

    def pipe_raw(
        self, value: bytes | None, *, key: bytes | None = None, timestamp: int = 0, headers: Headers = ()
    ) -> None:
        """Append undecoded bytes, which need not be valid."""
        self._driver._append(self.name, (key, value, timestamp, headers), RAW, RAW)

    def advance_time(self, by: Duration) -> None:
        """Advance the time of records that are piped without a timestamp."""
        self._time = (self._driver.wall_clock if self._time is None else self._time) + milliseconds(by)

    def _next_time(self) -> int:
        if self._time is None:
            return self._driver.wall_clock
        now, self._time = self._time, self._time + self._advance
        return now

    # Reading

    @property
    def unread(self) -> int:
        """The number of unread records."""
        return self._driver._count_unread(self.name)

    @property
    def is_empty(self) -> bool:
        """Whether all records were read."""
        return self.unread == 0

    def read(self) -> list[Record[Key, Value]]:
        """Return the unread records."""
        return self._driver._take(self.name, *self._serdes)

    def read_record(self) -> Record[Key, Value]:
        """Return the next unread record."""
        records = self._driver._take(self.name, *self._serdes, max_records=1)
        if not records:
            raise LookupError(f"topic {self.name!r} has no unread record")
        return records[0]

    def read_raw(self) -> list[Record[bytes, bytes]]:
        """Return the unread records with keys and values as undecoded bytes."""
        return self._driver._take(self.name, RAW, RAW)

    def read_key_values(self) -> list[tuple[Key, Value]]:
        """Return (key, value) of the unread records."""
        return [(record.key, record.value) for record in self.read()]

    def read_values(self) -> list[Value]:
        """Return the values of the unread records."""
        return [record.value for record in self.read()]

    def read_map(self) -> dict[Key, Value]:
        """Return the last value of each key among the unread records."""
        return dict(self.read_key_values())

    @property
    def _serdes(self) -> tuple[Serde, Serde]:
        key, value = self._driver._serdes_of(self.name)
        return self._key or key, self._value or value


Piped = tuple[Any, Any, int, Headers]
"""Key, value, timestamp and headers of a record that is piped in."""
