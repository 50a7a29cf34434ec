"""The progress of all apps and topics in a few numbers: a page refreshes when they change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from millstream.broker import Broker
from millstream.operations.data_directory import DataDirectory
from millstream.serve.rates import Rates

_MIN_INTERVAL_SECONDS = 0.3
_INTERVAL_FACTOR = 4


class ProgressSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The last batch of each app, and how many records have ever been written to each topic.

    There are no topics while the broker is not available.
    """

    apps: dict[str, int]
    topics: dict[str, int]
    is_broker_available: bool


class ProgressWatch:
    """Reads the progress once for all event streams, at most a fifth of the time: a broker may be slow."""

    def __init__(self, directory: DataDirectory, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._rates = rates
        self._clock = clock
        self._reading = threading.Lock()
        self._last: ProgressSnapshot | None = None
        self._next = 0.0

    def current(self) -> ProgressSnapshot:
        """Return the progress, which may be slightly outdated."""
        last = self._last
        if last is not None and (self._clock() < self._next or not self._reading.acquire(blocking=False)):
            return last
        if last is None:
            self._reading.acquire()
        try:
            started = self._clock()
            self._last = snapshot = self._read()
            ended = self._clock()
            self._next = ended + max(_MIN_INTERVAL_SECONDS, _INTERVAL_FACTOR * (ended - started))
            return snapshot
        finally:
            self._reading.release()

    def _read(self) -> ProgressSnapshot:
        directory = self._directory
        topics = directory.query_broker(self._ends, None)
        if topics is not None:
            self._rates.record(topics)
        apps = {app: directory.journal(app).read()[0].done for app in directory.apps()}
        return ProgressSnapshot(apps=apps, topics=topics or {}, is_broker_available=topics is not None)

    def _ends(self, broker: Broker) -> dict[str, int]:
        return self._directory.map_topics(lambda name: sum(offsets.end for offsets in broker.offsets(name)))
