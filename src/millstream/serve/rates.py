"""Growth rates of topics, from end offsets that are recorded whenever they are read."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

_WINDOW_SECONDS = 30.0
_SPACING_SECONDS = 0.9
_MAX_TOPICS = 10_000


class Rates:
    """End offsets of topics over the last half minute; there are none while no client reads them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[str, deque[tuple[float, int]]] = {}

    def record(self, ends: Mapping[str, int]) -> None:
        """Record how many records have ever been written to each topic."""
        now = self._clock()
        with self._lock:
            for topic, end in list(ends.items())[:_MAX_TOPICS]:
                recent = self._ends.setdefault(topic, deque())
                # an end that moves back means that the topic was deleted and created again
                while recent and (now - recent[0][0] > _WINDOW_SECONDS or recent[-1][1] > end):
                    recent.popleft()
                if not recent or now - recent[-1][0] >= _SPACING_SECONDS:
                    recent.append((now, end))
            for deleted in self._ends.keys() - ends.keys():
                del self._ends[deleted]

    def of(self, topic: str) -> float | None:
        """Return records per second, or None if there are too few measurements."""
        with self._lock:
            recent = self._ends.get(topic)
            if recent is None or len(recent) < 2:
                return None
            (since, first), (until, last) = recent[0], recent[-1]
        return (last - first) / (until - since)
