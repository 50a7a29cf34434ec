"""Records for a member of a consumer group, committed once they are printed."""

from __future__ import annotations

import heapq
import time
from collections.abc import Generator, Iterator

from millstream.broker import Broker, Joinable, Membership
from millstream.cli.reading import at_ends, records_between, time_of
from millstream.errors import DefinitionError
from millstream.records import Record, TopicPartition

_SESSION = "1 min"
_NAP_SECONDS = 0.25
_ROUND_RECORDS = 10_000  # of a partition: a member has to show life between rounds
_PATIENCE_SECONDS = 3.0  # how long to wait for partitions that others have to give up first


class Shared:
    """The part of a group's records that falls to us."""

    def __init__(self, broker: Broker, group: str, topics: tuple[str, ...], *, from_end: bool) -> None:
        if not isinstance(broker, Joinable):
            raise DefinitionError(f"broker {broker.url!r} has no groups to join", hint="leave out --group")
        self._broker = broker
        self._group = group
        self._from_end = from_end
        self._positions: dict[TopicPartition, int] = {}
        self._member: Membership = broker.join_group(group, topics, session_timeout=_SESSION)

    def rounds(self, *, follow: bool) -> Generator[Iterator[Record], None, None]:
        """Yield what is there for us now, and so on; what was taken from a round is committed before the next."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        try:
            while True:
                self._positions = self._held()
                ends = self._ends()
                yield self._round(ends)
                self._positions = ends
                self._commit()
                if all(end <= ends[at] for at, end in at_ends(self._broker, list(ends), end=True).items()):
                    if not follow and (ends or time.monotonic() > deadline):
                        return
                    self._broker.wait(ends, _NAP_SECONDS)
        finally:
            try:
                self._commit()
            finally:
                self._member.leave()

    def _held(self) -> dict[TopicPartition, int]:
        held = sorted(self._member.refresh(lambda _: None))  # everything taken so far is committed
        bounds = at_ends(self._broker, held, end=self._from_end)
        known = {**bounds, **self._broker.committed(self._group), **self._positions}
        return {at: known[at] for at in held}

    def _ends(self) -> dict[TopicPartition, int]:
        ends = at_ends(self._broker, list(self._positions), end=True)
        return {at: max(start, min(ends[at], start + _ROUND_RECORDS)) for at, start in self._positions.items()}

    def _round(self, ends: dict[TopicPartition, int]) -> Iterator[Record]:
        parts = (records_between(self._broker, at, start, ends[at]) for at, start in self._positions.items())
        for record in heapq.merge(*parts, key=time_of):
            self._positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
            yield record

    def _commit(self) -> None:
        if self._positions:
            self._member.commit(self._positions)
