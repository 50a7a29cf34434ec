"""The consumer: reads topics as records, alone or in a consumer group."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Generic, Literal, Self, TypeAlias

from millstream.broker import Membership, SupportsMembership
from millstream.durations import Duration, milliseconds
from millstream.errors import BrokerError, DefinitionError, OffsetOutOfRangeError, RebalancedError
from millstream.foundation.record_decoding import RecordDecoder
from millstream.foundation.type_variables import TextKey, Value
from millstream.records import Record, TopicPartition
from millstream.serdes import JSON, TEXT, SerdeLike, serde_for
from millstream.windowed_serdes import reading_serde

if TYPE_CHECKING:
    from millstream.broker import Broker, RecordChunk

Reset: TypeAlias = Literal["earliest", "latest"]
Seek: TypeAlias = int | Literal["beginning", "end"] | datetime
Wait: TypeAlias = Duration | float
"""A duration, or seconds."""

_log = logging.getLogger(__name__)
_GROUP_SECONDS = 0.2  # how often a member of a group checks its assignment
_METADATA_SECONDS = 5.0


class Consumer(Generic[TextKey, Value]):
    """Reads records of topics: ``for record in consumer``, or ``poll`` for lists.

    With a ``group``, partitions are shared with its other members, and reading continues at the committed offsets;
    ``auto_commit`` commits the records returned so far, every ``commit_every`` and on ``close``, so that each record is
    seen at least once. Without a group all partitions are read and nothing is committed. Without a valid committed
    offset, ``auto_offset_reset`` decides. Iteration never ends, unless ``timeout`` passes without a record, or with
    ``stop_at_end`` at the current end of the topics. A record that cannot be decoded raises a ``SerdeError``;
    ``value=bytes`` returns it undecoded, ``seek`` skips it. Not thread-safe.

    >>> from tempfile import mkdtemp
    >>> from pathlib import Path
    >>> from millstream.broker import TopicConfig
    >>> from millstream.log import EmbeddedLog
    >>> from millstream.producer import Producer
    >>> log = EmbeddedLog(Path(mkdtemp()))
    >>> log.create_topic("lines", TopicConfig(partitions=1))
    >>> with Producer(log) as producer:
    ...     producer.send("lines", {"n": 1}, key="a")
    >>> with Consumer(log, "audit", topics=["lines"], stop_at_end=True) as consumer:
    ...     [(record.key, record.value) for record in consumer]
    [('a', {'n': 1})]
    >>> log.committed("audit")
    {TopicPartition(topic='lines', partition=0): 1}
    >>> log.close()
    """

    def __init__(
        self,
        broker: Broker,
        group: str | None = None,
        *,
        topics: str | Sequence[str],
        key: SerdeLike[TextKey] = None,
        value: SerdeLike[Value] = None,
        auto_offset_reset: Reset = "earliest",
        auto_commit: bool = True,
        commit_every: Duration = "1 s",
        session_timeout: Duration = "10 s",
        timeout: Wait | None = None,
        stop_at_end: bool = False,
    ) -> None:
        if auto_offset_reset not in ("earliest", "latest"):
            raise DefinitionError(f"auto_offset_reset is {auto_offset_reset!r}", hint="use 'earliest' or 'latest'")
        self._broker = broker
        self._topics = (topics,) if isinstance(topics, str) else tuple(topics)
        self._decoding = RecordDecoder(reading_serde(key) or TEXT, serde_for(value) or JSON)
        self._reset: Reset = auto_offset_reset
        self._auto_commit = auto_commit and group is not None
        self._commit_seconds = milliseconds(commit_every) / 1000
        self._timeout = None if timeout is None else _seconds(timeout)
        self._stop_at_end = stop_at_end
        self._group = group
        self._cursors: dict[TopicPartition, _Cursor] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._batch: list[Record[TextKey, Value]] = []
        self._at = 0
        self._polls = 0
        self._closed = False
        self._refreshed = float("-inf")
        self._last_commit = monotonic()
        self._member = None if group is None else self._join(group, session_timeout)
        self._refresh()

    def _join(self, group: str, session_timeout: Duration) -> Membership:
        if not isinstance(self._broker, SupportsMembership):
            raise DefinitionError(f"{self._broker.url!r} has no consumer groups", hint="leave out group")
        return self._broker.join_group(group, self._topics, session_timeout=session_timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close; after an exception nothing is committed, so that the failed records are read again."""
        self._auto_commit = self._auto_commit and kind is None
        self.close()

    def __iter__(self) -> Iterator[Record[TextKey, Value]]:
        ends = self._ends() if self._stop_at_end else None
        last = monotonic()
        while True:
            while self._at < len(self._batch):
                record = self._batch[self._at]
                self._at += 1
                yield record
                last = monotonic() if self._at == len(self._batch) else last
            if ends is not None and self._is_past(ends):
                return
            left = _GROUP_SECONDS if self._timeout is None else last + self._timeout - monotonic()
            if left <= 0:
                return
            self._batch, self._at = self._poll(0 if ends is not None else min(left, _GROUP_SECONDS), 10_000), 0

    def poll(self, timeout: Wait = "1 s", max_records: int = 10_000) -> list[Record[TextKey, Value]]:
        """Return up to ``max_records`` records, or none if none arrived in time; returned records count as read."""
        ahead = self._batch[self._at : self._at + max_records]
        self._at += len(ahead)
        return ahead or self._poll(_seconds(timeout), max_records)

    def commit(self) -> None:
        """Commit the records returned so far; raises ``RebalancedError`` if partitions were lost."""
        if self._member is None:
            raise BrokerError("a consumer without a group cannot commit", hint="give it a group")
        self._last_commit = monotonic()
        positions = self._positions().items()
        changed = {partition: offset for partition, offset in positions if self._committed.get(partition) != offset}
        if changed:
            self._member.commit(changed)
            self._committed.update(changed)

    def seek(self, topic: str, partition: int, to: Seek) -> None:
        """Continue at an offset, at the ``"beginning"`` or ``"end"``, or at the first record at or after a time."""
        cursor = self._cursor(TopicPartition(topic, partition))
        offsets = self._broker.offsets(topic)[partition]
        if to == "beginning":
            offset = offsets.begin
        elif to == "end":
            offset = offsets.end
        elif isinstance(to, datetime):
            first = self._broker.offset_at(topic, partition, round(to.timestamp() * 1000))
            offset = offsets.end if first is None else first
        else:
            offset = to
        if not offsets.begin <= offset <= offsets.end:
            raise OffsetOutOfRangeError(
                f"{topic}[{partition}] has no offset {offset!r}",
                hint=f"it has the offsets from {offsets.begin} up to {offsets.end}",
                topic=topic,
                partition=partition,
            )
        cursor.seek(offset)
        ahead = self._batch[self._at :]
        self._batch = [record for record in ahead if (record.topic, record.partition) != (topic, partition)]
        self._at = 0

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer currently reads."""
        return tuple(sorted(self._cursors))

    def position(self, topic: str, partition: int) -> int:
        """Return the offset of the next record to be returned."""
        return self._positions()[self._cursor(TopicPartition(topic, partition)).partition]

    def lag(self) -> dict[TopicPartition, int]:
        """Return the number of offsets left to read in each partition."""
        ends = self._ends()
        return {partition: ends[partition] - offset for partition, offset in self._positions().items()}

    def close(self) -> None:
        """Commit with ``auto_commit``, and leave the group."""
        self._closed = True
        if self._member is not None:
            try:
                self._commit_if_automatic()
            finally:
                member, self._member = self._member, None
                self._cursors.clear()
                member.leave()

    def _poll(self, timeout: float, max_records: int) -> list[Record[TextKey, Value]]:
        if self._closed:
            raise BrokerError("the consumer is closed", hint="create another one")
        deadline = monotonic() + timeout
        self._batch, self._at = [], 0
        if self._auto_commit and monotonic() - self._last_commit >= self._commit_seconds:
            self._commit_if_automatic()
        while True:
            self._refresh()
            records = self._take(max_records)
            left = deadline - monotonic()
            if records or left <= 0:
                return records
            slice_seconds = min(left, _METADATA_SECONDS if self._member is None else _GROUP_SECONDS)
            positions = {partition: cursor.position for partition, cursor in self._cursors.items()}
            self._broker.wait(positions, slice_seconds)

    def _take(self, max_records: int) -> list[Record[TextKey, Value]]:
        """Take records from the partitions in turn, starting with a different one each time."""
        cursors = list(self._cursors.values())
        self._polls += 1
        taken: list[Record[TextKey, Value]] = []
        for number in range(len(cursors)):
            if len(taken) == max_records:
                break
            cursor = cursors[(self._polls + number) % len(cursors)]
            try:
                taken += cursor.take(max_records - len(taken), strict=not taken)
            except OffsetOutOfRangeError as error:
                _log.warning("consumer.offset_reset to=%s reason=%s", self._reset, error)
                cursor.seek(self._start(cursor.partition))
        return taken

    def _refresh(self) -> None:
        """Open cursors for newly assigned partitions and drop those of lost ones."""
        if self._member is not None:
            assigned = self._member.refresh(self._release)
        elif monotonic() - self._refreshed >= _METADATA_SECONDS:
            self._refreshed = monotonic()
            assigned = frozenset(self._ends())
        else:
            return
        if assigned != self._cursors.keys():
            committed = {} if self._group is None else self._broker.committed(self._group)
            self._cursors = {
                partition: self._cursors.get(partition) or self._open(partition, committed)
                for partition in sorted(assigned)
            }

    def _open(self, partition: TopicPartition, committed: dict[TopicPartition, int]) -> _Cursor:
        offsets = self._broker.offsets(partition.topic)[partition.partition]
        start = committed.get(partition)
        if start is not None and not offsets.begin <= start <= offsets.end:
            _log.warning("consumer.offset_reset to=%s committed=%d partition=%s", self._reset, start, partition)
            start = None
        self._committed.pop(partition, None)
        return _Cursor(self._broker, partition, self._start(partition) if start is None else start, self._decoding)

    def _start(self, partition: TopicPartition) -> int:
        offsets = self._broker.offsets(partition.topic)[partition.partition]
        return offsets.begin if self._reset == "earliest" else offsets.end

    def _release(self, lost: frozenset[TopicPartition]) -> None:
        """Commit before other members continue with the lost partitions."""
        self._commit_if_automatic()
        for partition in lost:
            self._cursors.pop(partition, None)

    def _commit_if_automatic(self) -> None:
        if self._auto_commit:
            try:
                self.commit()
            except RebalancedError as error:
                _log.warning("consumer.commit_refused reason=%s", error)

    def _positions(self) -> dict[TopicPartition, int]:
        positions = {partition: cursor.position for partition, cursor in self._cursors.items()}
        for record in reversed(self._batch[self._at :]):
            positions[TopicPartition(record.topic, record.partition)] = record.offset
        return positions

    def _is_past(self, ends: dict[TopicPartition, int]) -> bool:
        return all(offset >= ends.get(partition, 0) for partition, offset in self._positions().items())

    def _ends(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic, partition): offsets.end
            for topic in self._topics
            for partition, offsets in enumerate(self._broker.offsets(topic))
        }

    def _cursor(self, partition: TopicPartition) -> _Cursor:
        cursor = self._cursors.get(partition)
        if cursor is None:
            raise BrokerError(
                f"{partition.topic}[{partition.partition}] is not read by this consumer",
                hint=f"it reads {self.assignment!r}",
            )
        return cursor


class _Cursor:
    """The position of a consumer in a partition."""

    def __init__(self, broker: Broker, partition: TopicPartition, position: int, decoding: RecordDecoder) -> None:
        self.partition = partition
        self.position = position
        self._broker = broker
        self._decoding = decoding
        self._chunks: Iterator[RecordChunk] = iter(())
        self._chunk: RecordChunk | None = None
        self._row = 0
        self._end = position

    def seek(self, offset: int) -> None:
        self.position = self._end = offset
        self._chunks, self._chunk, self._row = iter(()), None, 0

    def take(self, max_records: int, *, strict: bool) -> list[Record]:
        """Return decoded records; if the first cannot be decoded, ``strict`` raises its error."""
        if self._chunk is None:
            self._fetch()
        chunk = self._chunk
        if chunk is None:
            return []
        block = chunk.block.slice(self._row, max_records)
        offsets = chunk.offsets[self._row : self._row + len(block)]
        records, error = self._decoding.records(self.partition, block, offsets)
        if error is not None and strict and not records:
            raise error
        self._row += len(records)
        if self._row < len(chunk.offsets):
            self.position = chunk.offsets[self._row]
        else:
            self.position = chunk.next_offset
            self._chunk = None
        return records

    def _fetch(self) -> None:
        topic, partition = self.partition.topic, self.partition.partition
        self._chunk, self._row = next(self._chunks, None), 0
        if self._chunk is None:
            self.position = max(self.position, self._end)  # compaction may have removed the last records
            self._end = self._broker.offsets(topic)[partition].end
            if self._end > self.position:
                self._chunks = self._broker.read(topic, partition, self.position, self._end)
                self._chunk = next(self._chunks, None)


def _seconds(wait: Wait) -> float:
    return float(wait) if isinstance(wait, int | float) else milliseconds(wait) / 1000
