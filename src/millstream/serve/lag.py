"""How far an app is behind, as of this moment rather than of its last batch."""

from __future__ import annotations

from millstream.batch.batch import Progress
from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.errors import UnknownTopicError
from millstream.serve.place import Place


def lag_of(place: Place, journal: Journal) -> dict[str, int]:
    """Return how many records wait now, by ``topic/partition``, whether the app runs or not.

    While the broker does not answer, it is what the last batch left.
    """
    progress = journal.read()[0]
    now = place.asked(lambda broker: _waiting(broker, progress), None)
    if now is not None:
        return now
    return next((report.lag for report in journal.history.batches(1)), {})


def _waiting(broker: Broker, progress: Progress) -> dict[str, int]:
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
