"""The current lag of an app, rather than the lag after its last batch."""

from __future__ import annotations

from millstream.batch.batch import Progress
from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.errors import UnknownTopicError
from millstream.operations.data_directory import DataDirectory


def lag_of(directory: DataDirectory, journal: Journal) -> dict[str, int]:
    """Return the number of unread records by ``topic/partition``, whether the app runs or not.

    While the broker is unavailable, this is the lag after the last batch.
    """
    progress = journal.read()[0]
    lag = directory.query_broker(lambda broker: _lag(broker, progress), None)
    if lag is not None:
        return lag
    return next((report.lag for report in journal.history.batches(1)), {})


def _lag(broker: Broker, progress: Progress) -> dict[str, int]:
    lag: dict[str, int] = {}
    ends: dict[str, list[int]] = {}
    for name, position in progress.positions.items():
        topic, _, partition = name.rpartition("/")
        if topic not in ends:
            try:
                ends[topic] = [offsets.end for offsets in broker.offsets(topic)]
            except UnknownTopicError:
                ends[topic] = []
        if int(partition) < len(ends[topic]):
            lag[name] = max(0, ends[topic][int(partition)] - position)
    return lag
