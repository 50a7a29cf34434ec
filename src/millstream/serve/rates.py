"""How quickly topics grow: their ends, noted whenever somebody looks."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

_SECONDS = 30.0
_SPACING = 0.9
_MOST_TOPICS = 10_000


class Rates:
    """Ends of topics over the last half minute; nothing is noted while nobody looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def note(self, ends: Mapping[str, int]) -> None:
        """Note how many records have ever been written to each topic."""
        now = self._clock()
        with self._lock:
            for topic, end in list(ends.items())[:_MOST_TOPICS]:
                seen = self._seen.setdefault(topic, deque())
                while seen and (now - seen[0][0] > _SECONDS or seen[-1][1] > end):  # it was deleted and made anew
                    seen.popleft()
                if not seen or now - seen[-1][0] >= _SPACING:
                    seen.append((now, end))
            for gone in self._seen.keys() - ends.keys():
                del self._seen[gone]

    def of(self, topic: str) -> float | None:
        """Return records per second, or None if it was not watched long enough to know."""
        with self._lock:
            seen = self._seen.get(topic)
            if seen is None or len(seen) < 2:
                return None
            (since, first), (until, last) = seen[0], seen[-1]
        return (last - first) / (until - since)
