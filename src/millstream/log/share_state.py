"""What a share group knows about one partition, as runs of consecutive offsets in the same state.

All records before ``start`` are done. The runs cover the offsets from ``start`` to the last one that was ever acquired,
without gaps; later records are waiting. Times are epoch milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

if TYPE_CHECKING:
    from millstream.broker import AnswerKind

WAITING, ACQUIRED, DONE = range(3)
MAX_IN_FLIGHT = 2_000
"""How many records of a partition a group has acquired at most."""

_first = attrgetter("first")


class OffsetRun(msgspec.Struct, array_like=True):
    """Consecutive offsets ``first <= offset <= last`` in the same state."""

    first: int
    last: int
    state: int
    deliveries: int = 0
    until: int = 0
    """The end of the lock if acquired; if waiting, the time before which it is not delivered again."""
    member: str = ""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def cut(self, offset: int) -> OffsetRun:
        """End this run before ``offset`` and return the rest."""
        rest = OffsetRun(offset, self.last, self.state, self.deliveries, self.until, self.member)
        self.last = offset - 1
        return rest

    def continues(self, other: OffsetRun) -> bool:
        """Whether it is in the same state as the run before it."""
        if self.state == DONE or other.state == DONE:
            return self.state == other.state
        return (self.state, self.deliveries, self.until, self.member) == (
            other.state,
            other.deliveries,
            other.until,
            other.member,
        )


def new_lineage() -> str:
    """Return a name for the dead letters of a state; a group that starts over writes them again."""
    return uuid4().hex[:12]


class ShareState(msgspec.Struct, array_like=True):
    """The state of a share group in one partition."""

    topic_id: str
    """A topic that was created again has another id, and no state."""
    start: int
    runs: list[OffsetRun] = []
    dead: int = 0
    expired: int = 0
    lineage: str = msgspec.field(default_factory=new_lineage)

    @property
    def next_offset(self) -> int:
        """The first offset that was never acquired."""
        return self.runs[-1].last + 1 if self.runs else self.start

    def count(self, state: int, min_deliveries: int = 0) -> int:
        """Return the number of offsets of the runs in a state."""
        return sum(len(run) for run in self.runs if run.state == state and run.deliveries >= min_deliveries)

    def members(self) -> set[str]:
        """Return the members that have acquired records."""
        return {run.member for run in self.runs if run.state == ACQUIRED}

    def release_ended(self, now: int, dead: Collection[str]) -> None:
        """Release records whose lock has ended or whose member has died; these deliveries count."""
        for run in self.runs:
            if run.state == ACQUIRED and (run.until <= now or run.member in dead):
                run.state, run.until, run.member = WAITING, 0, ""

    def delete_before(self, begin: int) -> None:
        """Forget waiting records before ``begin``, which no longer exist."""
        if begin <= self.start:
            return
        self._split(begin)
        for run in self.runs:
            if run.first < begin and run.state == WAITING:
                self.expired += len(run)
                run.state = DONE
        if self.next_offset < begin:
            never_acquired = OffsetRun(self.next_offset, begin - 1, DONE)
            self.expired += len(never_acquired)
            self.runs.append(never_acquired)

    def answer(
        self, first: int, last: int, kind: AnswerKind, member: str, now: int, until: int
    ) -> list[tuple[int, int]]:
        """Apply an answer of a member and return the parts of its range that are no longer locked by the member.

        ``until`` is the new end of the lock, or the end of the delay.
        """
        lost: list[tuple[int, int]] = []
        covered = first
        for run in self._between(first, last):
            covered = run.last + 1
            if run.state != ACQUIRED or run.member != member or run.until <= now:
                lost.append((run.first, run.last))
                continue
            if kind == "renew":
                run.until = until
                continue
            run.state = DONE if kind in ("accept", "reject") else WAITING
            run.until, run.member = (until if kind == "release" else 0), ""
            run.deliveries -= kind == "unread"
            self.dead += len(run) if kind == "reject" else 0
        if first < self.start:
            lost.insert(0, (first, min(last, self.start - 1)))
            covered = max(covered, self.start)
        return [*lost, (covered, last)] if covered <= last else lost

    def advance(self) -> None:
        """Move ``start`` past records that are done, and join runs in the same state."""
        joined: list[OffsetRun] = []
        for run in self.runs:
            if run.state == DONE and not joined:
                self.start = run.last + 1
            elif joined and run.continues(joined[-1]):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self.runs = joined

    def acquire(self, end: int, limit: int, member: str, now: int, until: int) -> list[OffsetRun]:
        """Acquire up to ``limit`` records for a member, those that were delivered before first."""
        limit = min(limit, MAX_IN_FLIGHT - self.count(ACQUIRED))
        acquired: list[OffsetRun] = []
        for run in [run for run in self.runs if run.state == WAITING and run.until <= now]:
            if limit <= 0:
                break
            if len(run) > limit:
                self.runs.insert(self.runs.index(run) + 1, run.cut(run.first + limit))
            acquired.append(run)
            limit -= len(run)
        first = self.next_offset
        if limit > 0 and first < end:
            new = OffsetRun(first, min(end, first + limit) - 1, WAITING)
            self.runs.append(new)
            acquired.append(new)
        for run in acquired:
            run.state, run.deliveries, run.until, run.member = ACQUIRED, run.deliveries + 1, until, member
        return acquired

    def can_acquire(self, end: int, now: int) -> bool:
        """Whether ``acquire`` would acquire records, locks that have ended included."""
        if sum(len(run) for run in self.runs if run.state == ACQUIRED and run.until > now) >= MAX_IN_FLIGHT:
            return False
        return self.next_offset < end or any(run.until <= now and run.state != DONE for run in self.runs)

    def next_time(self, now: int) -> int | None:
        """Return the time at which the next lock or delay ends."""
        return min((run.until for run in self.runs if run.state != DONE and run.until > now), default=None)

    def _between(self, first: int, last: int) -> Iterator[OffsetRun]:
        """Yield the runs that cover the range, split at its ends."""
        self._split(first)
        self._split(last + 1)
        for index in range(max(0, bisect_right(self.runs, first, key=_first) - 1), len(self.runs)):
            run = self.runs[index]
            if run.first > last:
                return
            if run.first >= first:
                yield run

    def _split(self, offset: int) -> None:
        index = bisect_right(self.runs, offset, key=_first) - 1
        if index >= 0 and self.runs[index].first < offset <= self.runs[index].last:
            self.runs.insert(index + 1, self.runs[index].cut(offset))
