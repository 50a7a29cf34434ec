"""One consumer in a share group of the embedded log.

A poll is one write transaction: it applies the answers for the last records, releases what was locked by members that
have died or were too slow, moves on, and acquires the next records. A member holds a file lock that ends with its
process, so that the others notice a crash at once.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from millstream.broker import Acquired, Answer, RecordChunk, Refusal
from millstream.errors import MillstreamError, UnknownTopicError
from millstream.foundation.names import check_name
from millstream.log.reading import offset_at, read_chunks
from millstream.log.share_groups import LogShareGroups, StoredMember
from millstream.log.share_state import OffsetRun, ShareState
from millstream.log.waiting import LogWaiter, notify
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.broker import Offsets, Output, ShareSettings
    from millstream.foundation.transactions import WriteTransaction
    from millstream.log.topic import Topic

_CHECK_SECONDS = 0.2  # how often a member looks for dead members and for new topics
_FETCH_RECORDS = 5_000  # only the first chunk of what is read is used
Append = Callable[[Mapping[str, "Sequence[Output]"]], None]
"""Append the blocks of each producer exactly once."""


class _SharedPartition(NamedTuple):
    """A partition that a member reads, as it is now."""

    partition: TopicPartition
    topic: Topic
    offsets: Offsets


class _Work(NamedTuple):
    """What a transaction has done."""

    acquired: list[tuple[_SharedPartition, OffsetRun]]
    refused: list[Refusal]


class LogShareMember:
    """One consumer in a share group, used by one thread; ``answer`` may also be called by another."""

    def __init__(
        self,
        groups: LogShareGroups,
        group: str,
        settings: ShareSettings,
        append: Append,
        waiter: Callable[[], LogWaiter],
    ) -> None:
        self.id = uuid4().hex
        self._groups = groups
        self._group = check_name("group", group)
        self._settings = settings
        self._append = append
        self._waiter = waiter
        self._topics: tuple[str, ...] = ()
        self._past_topics: set[str] = set()
        self._gaps: list[Answer] = []
        self._chunks: dict[tuple[str, int], RecordChunk] = {}
        self._lineages: dict[TopicPartition, str] = {}
        self._polls = 0
        self._checked_at = float("-inf")
        self._lock = groups.lock(group, self.id)
        self._lock.acquire()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics from now on; the group starts with those that it has not read yet."""
        self._past_topics.update(self._topics)
        self._topics = tuple(check_name("topic", topic) for topic in topics)
        self._groups.put_member(self._group, self.id, StoredMember(os.getpid(), self._topics))
        sources = list(self._sources())

        def initialize(txn: WriteTransaction) -> None:
            known = {
                source.partition.topic
                for source in sources
                if self._groups.state(txn, self._group, source.partition, source.topic.id) is not None
            }
            for source in sources:
                if source.partition.topic not in known:  # new partitions of a known topic are read from their beginning
                    state = ShareState(source.topic.id, self._start(source))
                    self._groups.put(txn, self._group, source.partition, state)

        self._groups.update(initialize)

    def poll(self, answers: Sequence[Answer], max_records: int, timeout: float) -> tuple[list[Acquired], list[Refusal]]:
        """Send answers and acquire records; acquire none, and do not wait, if an answer was refused."""
        deadline = monotonic() + timeout
        self._polls += 1
        while True:
            sources = list(self._sources())
            gaps, self._gaps = self._gaps, []
            dead = self._find_dead(sources)
            if answers or gaps or dead or self._can_acquire(sources):
                work = self._transact([*answers, *gaps], sources, max_records, dead)
                acquired = [records for source, run in work.acquired for records in self._read(source, run)]
                refused = [refusal for refusal in work.refused if not _is_within(refusal.answer, gaps)]
                if acquired or refused:
                    return acquired, refused
                answers = []
                if work.acquired or work.refused:  # compaction has removed the records
                    continue
            if monotonic() >= deadline:
                return [], []
            self._wait(sources, deadline)

    def answer(self, answers: Sequence[Answer]) -> list[Refusal]:
        """Send answers."""
        return self._transact(answers, [], 0, set()).refused if answers else []

    def publish(self, letters: Mapping[tuple[TopicPartition, int], Output]) -> None:
        """Append the dead letters of acquired records, each exactly once."""
        names = {
            (partition, offset): f"{self._group}/{self._lineages[partition]}/{partition.partition}/{offset}"
            for partition, offset in letters
        }
        self._append({f"share/{names[key]}": [letter] for key, letter in letters.items()})

    def leave(self, answers: Sequence[Answer]) -> list[Refusal]:
        """Send answers, release all other records and leave the group."""
        try:
            sources = list(self._sources(self._past_topics.union(self._topics)))
            return self._transact([*answers, *self._gaps], sources, 0, {self.id}).refused
        finally:
            self._lock.release()

    # One transaction

    def _transact(
        self, answers: Sequence[Answer], sources: Sequence[_SharedPartition], max_records: int, dead: set[str]
    ) -> _Work:
        by_partition: dict[TopicPartition, list[Answer]] = {}
        for answer in answers:
            by_partition.setdefault(answer.partition, []).append(answer)
        missing = by_partition.keys() - {source.partition for source in sources}
        answered = [source for source in self._sources({p.topic for p in missing}) if source.partition in missing]
        gone = missing - {source.partition for source in answered}

        def write(txn: WriteTransaction) -> _Work:
            now = self._groups.now()
            states = [(source, self._state(txn, source)) for source in (*sources, *answered)]
            refused = [
                refusal
                for source, state in states
                for answer in by_partition.get(source.partition, ())
                for refusal in self._apply(state, answer, now)
            ]
            refused += [_topic_is_gone(answer) for partition in gone for answer in by_partition[partition]]
            for source, state in states:
                state.release_ended(now, dead)
                state.delete_before(source.offsets.begin)
            acquired = [] if refused else self._acquire(states[: len(sources)], max_records, now)
            for source, state in states:
                state.advance()
                self._groups.put(txn, self._group, source.partition, state)
            self._groups.remove_members(txn, self._group, dead)
            return _Work(acquired, refused)

        work = self._groups.update(write)
        if dead or any(answer.kind in ("release", "unread") for answer in answers):
            notify(self._groups.waiters(self._group))
        return work

    def _state(self, txn: WriteTransaction, source: _SharedPartition) -> ShareState:
        """Return the stored state; what is new since ``subscribe`` is read from its beginning."""
        stored = self._groups.state(txn, self._group, source.partition, source.topic.id)
        return stored or ShareState(source.topic.id, source.offsets.begin)

    def _apply(self, state: ShareState, answer: Answer, now: int) -> Iterator[Refusal]:
        until = now + (self._settings.lock_ms if answer.kind == "renew" else answer.delay_ms)
        for first, last in state.answer(answer.first, answer.last, answer.kind, self.id, now, until):
            part = Answer(answer.partition, first, last, answer.kind, answer.delay_ms)
            yield Refusal(part, part.lock_lost(self._group))

    def _acquire(
        self, states: Sequence[tuple[_SharedPartition, ShareState]], max_records: int, now: int
    ) -> list[tuple[_SharedPartition, OffsetRun]]:
        """Acquire from the partitions in turn, starting with a different one each time."""
        acquired: list[tuple[_SharedPartition, OffsetRun]] = []
        left = max_records
        for number in range(len(states)):
            source, state = states[(self._polls + number) % len(states)]
            if left > 0:
                runs = state.acquire(source.offsets.end, left, self.id, now, now + self._settings.lock_ms)
                self._lineages[source.partition] = state.lineage
                left -= sum(map(len, runs))
                acquired += [(source, OffsetRun(run.first, run.last, run.state, run.deliveries)) for run in runs]
        return acquired

    # Looking

    def _sources(self, topics: Iterable[str] | None = None) -> Iterator[_SharedPartition]:
        """Yield the partitions of topics that exist, by default of those that this member reads."""
        for name in self._topics if topics is None else topics:
            with suppress(UnknownTopicError):  # it may be created later
                topic = self._groups.topic(name)
                for number, offsets in enumerate(topic.offsets()):
                    yield _SharedPartition(TopicPartition(name, number), topic, offsets)

    def _states(self, sources: Sequence[_SharedPartition]) -> list[tuple[_SharedPartition, ShareState | None]]:
        with self._groups.environment.read() as txn:
            return [
                (source, self._groups.state(txn, self._group, source.partition, source.topic.id)) for source in sources
            ]

    def _can_acquire(self, sources: Sequence[_SharedPartition]) -> bool:
        now = self._groups.now()
        return any(
            source.offsets.end > source.offsets.begin if state is None else state.can_acquire(source.offsets.end, now)
            for source, state in self._states(sources)
        )

    def _find_dead(self, sources: Sequence[_SharedPartition]) -> set[str]:
        """Return the members that hold records but have died, at a minimum interval."""
        if monotonic() - self._checked_at < _CHECK_SECONDS:
            return set()
        self._checked_at = monotonic()
        holders = {member for _, state in self._states(sources) if state is not None for member in state.members()}
        return {member for member in holders - {self.id} if not self._groups.lock(self._group, member).is_held()}

    def _wait(self, sources: Sequence[_SharedPartition], deadline: float) -> None:
        """Wait until there is something to acquire, or it is time to look for dead members."""
        directories = {source.topic.waiters for source in sources} | {self._groups.waiters(self._group)}
        now = self._groups.now()
        times = [time for _, state in self._states(sources) if state is not None and (time := state.next_time(now))]
        ends_in = (min(times) - now) / 1000 if times else _CHECK_SECONDS
        timeout = max(0.0, min(deadline - monotonic(), ends_in, _CHECK_SECONDS))
        self._waiter().wait(directories, lambda: self._can_acquire(list(self._sources())), timeout)

    def _start(self, source: _SharedPartition) -> int:
        start, offsets = self._settings.start, source.offsets
        if isinstance(start, str):
            return offsets.begin if start == "earliest" else offsets.end
        first = offset_at(source.topic, source.partition.partition, self._groups.now() - start)
        return offsets.end if first is None else first

    # Reading

    def _read(self, source: _SharedPartition, run: OffsetRun) -> Iterator[Acquired]:
        """Yield the records of an acquired run, and remember the offsets without a record as done."""
        position = run.first
        for chunk in self._chunks_between(source, run.first, run.last):
            offsets = chunk.offsets
            if not (isinstance(offsets, range) and offsets[0] == position):
                self._note_gaps(source.partition, position, offsets)
            position = offsets[-1] + 1
            yield Acquired(source.partition, chunk, run.deliveries)
        if position <= run.last:
            self._gaps.append(Answer(source.partition, position, run.last, "accept"))

    def _note_gaps(self, partition: TopicPartition, position: int, offsets: Sequence[int]) -> None:
        for offset in offsets:
            if offset > position:
                self._gaps.append(Answer(partition, position, offset - 1, "accept"))
            position = offset + 1

    def _chunks_between(self, source: _SharedPartition, first: int, last: int) -> Iterator[RecordChunk]:
        """Yield the records of a range; the last chunk is kept, since the next range is usually in it."""
        key, position = (source.topic.id, source.partition.partition), first
        while position <= last:
            chunk = self._chunks.get(key)
            if chunk is None or not chunk.offsets[0] <= position < chunk.next_offset:
                chunk = next(self._fetch(source, position), None)
                if chunk is None:
                    return
                self._chunks[key] = chunk
            low, high = bisect_left(chunk.offsets, position), bisect_left(chunk.offsets, last + 1)
            position = min(chunk.next_offset, last + 1)
            if low < high:
                yield RecordChunk(chunk.block.slice(low, high - low), chunk.offsets[low:high], position)

    def _fetch(self, source: _SharedPartition, position: int) -> Iterator[RecordChunk]:
        """Read from an offset to the end; from the first record that exists, if retention has been faster."""
        topic, partition = source.topic, source.partition.partition
        offsets = topic.offsets()[partition]
        start = max(position, offsets.begin)
        return read_chunks(topic, partition, start, offsets.end, fetch_records=_FETCH_RECORDS)


def _is_within(answer: Answer, ranges: Sequence[Answer]) -> bool:
    return any(answer.partition == other.partition and other.first <= answer.first <= other.last for other in ranges)


def _topic_is_gone(answer: Answer) -> Refusal:
    topic = answer.partition.topic
    error: MillstreamError = UnknownTopicError(
        f"there is no topic {topic!r}", hint="it was deleted after its records were delivered", topic=topic
    )
    return Refusal(answer, error)
