"""When the batches of an app on a cluster run in seats, and when as Spark jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from pyspark import SparkContext

from millstream.batch.batch import Batch
from millstream.batch.logs import log_event
from millstream.spark.header import AppHeader
from millstream.spark.placement import ANYWHERE, seats_of
from millstream.spark.seats import Seats, SeatsLostError
from millstream.spark.worker import Item
from millstream.state.task import StateVersion

_SMALL_BATCHES = 3
"""How many small batches in a row are followed by seats."""
_MAX_SEATS = 32
"""Every seat sends to every other after each level."""
_PAUSE_SECONDS = 5.0
_MAX_PAUSE_SECONDS = 3600.0
_ENCRYPTION = ("spark.network.crypto.enabled", "spark.ssl.enabled", "spark.ssl.rpc.enabled")
_log = logging.getLogger(__name__)
_apps: set[Seating] = set()
"""The apps of this process that run on a cluster; their jobs share its cores."""
_apps_lock = threading.Lock()


class Seating:
    """The seats of one app, while it has some.

    Seats are for small batches of an app with changelogs, which lets a batch be run again at any point. They would
    occupy the cores that jobs of other apps of this process need, so only the app of a process that has one uses them.
    """

    def __init__(self, context: SparkContext, small_batch_records: int) -> None:
        self._context = context
        self._max_records = 0 if _encrypts(context) else small_batch_records
        self._seats: Seats | None = None
        self._small_batches = 0
        self._pause = _PAUSE_SECONDS
        self._next_try = 0.0
        with _apps_lock:
            _apps.add(self)

    def run(self, header: AppHeader, batch: Batch, versions: Mapping[str, StateVersion]) -> list[Item] | None:
        """Run a batch in seats and return its reports and failures; None if it has to be run as a job."""
        if not self._accepts(header, batch):
            self.leave()
            return None
        try:
            if self._seats is None:
                self._seats = Seats(self._context, header)
                log_event(_log, logging.DEBUG, "seats taken", {"app": header.tasks.app})
            items = self._seats.run(batch, versions)
        except SeatsLostError as error:
            log_event(_log, logging.INFO, "seats left", {"app": header.tasks.app, "reason": str(error)})
            self._next_try = time.monotonic() + self._pause
            self._pause = min(_MAX_PAUSE_SECONDS, 2 * self._pause)
            self._seats = None
            return None
        self._pause = _PAUSE_SECONDS
        return items

    def _accepts(self, header: AppHeader, batch: Batch) -> bool:
        """Whether a batch, like those before it, is small, and seats are possible now."""
        self._small_batches = self._small_batches + 1 if batch.records <= self._max_records else 0
        if self._seats is not None and self._seats.are_left:
            self._seats = None
            self._small_batches = 1
        if self._small_batches < _SMALL_BATCHES or time.monotonic() < self._next_try or len(_apps) > 1:
            return False
        seats = seats_of(header.slots)
        return len(seats) <= _MAX_SEATS and all(seat.host != ANYWHERE for seat in seats)

    def leave(self) -> None:
        """Leave the seats, so that jobs can use their cores."""
        if self._seats is not None:
            self._seats.close()
            self._seats = None

    def close(self) -> None:
        """Leave the seats for good."""
        self.leave()
        with _apps_lock:
            _apps.discard(self)


def _encrypts(context: SparkContext) -> bool:
    """Whether Spark encrypts what it sends over the network, which seats do not."""
    conf = context.getConf()
    return any((conf.get(name) or "").lower() == "true" for name in _ENCRYPTION)
