"""How far an app is behind, as of this moment rather than of its last batch."""

from __future__ import annotations

from millstream.batch.plan import Progress
from millstream.broker import Broker
from millstream.errors import UnknownTopicError


def lag_of(broker: Broker, progress: Progress) -> dict[str, int]:
    """Return how many records wait now, by ``topic/partition``, whether the app runs or not."""
    waiting: dict[str, int] = {}
    ends: dict[str, list[int]] = {}
    for place, position in progress.positions.items():
        topic, _, partition = place.rpartition("/")
        if topic not in ends:
            try:
                ends[topic] = [one.end for one in broker.offsets(topic)]
            except UnknownTopicError:
                ends[topic] = []
        if int(partition) < len(ends[topic]):
            waiting[place] = max(0, ends[topic][int(partition)] - position)
    return waiting
