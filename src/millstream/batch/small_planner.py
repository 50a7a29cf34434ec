"""Plan the batches of a resident task, which keeps up with its topics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from millstream.batch.batch import Batch, Progress
from millstream.batch.planner import Planner, records_in
from millstream.broker import Offsets
from millstream.records import TopicPartition
from millstream.task.task_input import Range

_LOOK_UP_SECONDS = 1.0
"""How often a resident task looks up whether a topic has more partitions, and where its records begin."""


@runtime_checkable
class SupportsArrivals(Protocol):
    """A broker that can receive the next records of partitions before they are read, for one thread that follows them.

    Reads and waits of that thread are then served from what was received.
    """

    def received_ends(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return up to which offsets records after these positions were received; empty if that is not known."""

    def stop_receiving(self) -> None: ...


class SmallPlanner(Planner):
    """Plans small batches only; for a larger backlog it plans none and sets ``is_backlog_too_large``."""

    is_backlog_too_large = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._looked_up: dict[str, tuple[float, list[Offsets]]] = {}
        """When all offsets of a topic were looked up, and what they were."""
        self._knows_ends_only = False
        self._receives = isinstance(self.broker, SupportsArrivals)
        self._received: Mapping[TopicPartition, int] = {}
        """Where the records that this process has received end; empty if the broker has to be asked."""

    def backlog(self, progress: Progress) -> list[Range]:
        """Return everything that could be read now; before the loop waits for records, look all offsets up.

        A partition that was added meanwhile would otherwise not be noticed while the others get no records.
        """
        backlog = self.known_backlog(progress)
        if backlog or not self._knows_ends_only:
            return backlog
        self._looked_up.clear()
        self._received = {}
        return super().backlog(progress)

    def known_backlog(self, progress: Progress) -> list[Range]:
        self._knows_ends_only = False
        self._received = self._received_ends(progress)
        return super().backlog(progress)

    def _received_ends(self, progress: Progress) -> Mapping[TopicPartition, int]:
        """Return up to where records were received, if all topics were looked up recently."""
        if not self._receives:
            return {}
        positions: dict[TopicPartition, int] = {}
        for topic in self._topics:
            known = self._recently_known(topic, progress)
            if known is None:
                return {}
            for partition, offsets in enumerate(known):
                key = TopicPartition(topic, partition)
                positions[key] = max(progress.position(topic, partition) or 0, offsets.begin)
        assert isinstance(self.broker, SupportsArrivals)
        return self.broker.received_ends(positions)

    def _offsets(self, topic: str, progress: Progress) -> list[Offsets]:
        """Look up only where partitions end, if all records before the last look-up of all offsets have been read.

        Retention has then deleted nothing of what will be read, and a batch on Kafka waits for one request, not three.
        """
        known = self._recently_known(topic, progress)
        if known is not None:
            received = [self._received.get(TopicPartition(topic, partition), -1) for partition in range(len(known))]
            ends = self.broker.end_offsets(topic, len(known)) if -1 in received else received
            recent = [Offsets(begin=offsets.begin, end=end) for offsets, end in zip(known, ends, strict=True)]
            self._last_offsets[topic] = recent
            self._knows_ends_only = True
            return recent
        offsets = super()._offsets(topic, progress)
        self._looked_up[topic] = time.monotonic(), offsets
        return offsets

    def _recently_known(self, topic: str, progress: Progress) -> list[Offsets] | None:
        """Return the offsets of the last full look-up, if it was recent and all records before it have been read."""
        looked_up_at, known = self._looked_up.get(topic, (-_LOOK_UP_SECONDS, []))
        is_recent = time.monotonic() - looked_up_at < _LOOK_UP_SECONDS
        has_read = is_recent and all(
            (progress.position(topic, partition) or 0) >= offsets.end for partition, offsets in enumerate(known)
        )
        return known if has_read else None

    def stop(self) -> None:
        """Let another process read the topics."""
        if isinstance(self.broker, SupportsArrivals):
            self.broker.stop_receiving()

    def adapt(self, records: int, seconds: float) -> None:
        """Do nothing: a small batch always takes the whole backlog."""

    def choose(self, progress: Progress, backlog: list[Range], *, idle: bool = True) -> Batch | None:
        """Return a batch with the whole backlog, or None if that is empty or too large."""
        self.is_backlog_too_large = records_in(backlog) > self._size.max_records
        return None if self.is_backlog_too_large else super().choose(progress, backlog, idle=idle)
