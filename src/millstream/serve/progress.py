"""How far everything is, in few numbers: what tells a page that it is time to look again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from millstream.serve.place import Place
from millstream.serve.rates import Rates

_REST_SECONDS = 0.3
_REST_FACTOR = 4


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The last batch of each app, and how many records were ever written to each topic."""

    apps: dict[str, int]
    topics: dict[str, int]


class ProgressWatch:
    """Looks for all streams of a server together, and for no more than a fifth of the time: a broker may be slow."""

    def __init__(self, place: Place, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = place
        self._rates = rates
        self._clock = clock
        self._looking = threading.Lock()
        self._last: Progress | None = None
        self._next = 0.0

    def now(self) -> Progress:
        """Return how far everything is, or was a moment ago."""
        last = self._last
        if last is not None and (self._clock() < self._next or not self._looking.acquire(blocking=False)):
            return last
        if last is None:
            self._looking.acquire()
        try:
            began = self._clock()
            self._last = found = self._look()
            ended = self._clock()
            self._next = ended + max(_REST_SECONDS, _REST_FACTOR * (ended - began))
            return found
        finally:
            self._looking.release()

    def _look(self) -> Progress:
        place = self._place
        topics = place.each_topic(lambda name: sum(one.end for one in place.broker.offsets(name)))
        self._rates.note(topics)
        return Progress(apps={app: place.journal(app).read()[0].done for app in place.apps()}, topics=topics)
