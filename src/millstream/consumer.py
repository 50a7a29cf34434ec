"""Reading topics as Python records, alone or sharing the partitions with a group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import repeat
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from millstream.broker import Membership, SupportsMembership
from millstream.durations import Duration, milliseconds
from millstream.errors import BrokerError, DefinitionError, OffsetOutOfRangeError, RebalancedError, SerdeError
from millstream.foundation.blocks import headers_of
from millstream.records import Record, TopicPartition
from millstream.serdes import JSON, RAW, TEXT, Serde, SerdeLike, serde_for

if TYPE_CHECKING:
    from millstream.broker import Broker, RecordChunk

Reset: TypeAlias = Literal["earliest", "latest"]
Seek: TypeAlias = int | Literal["beginning", "end"] | datetime
Wait: TypeAlias = Duration | float
"""A duration, or seconds."""

_log = logging.getLogger(__name__)
_GROUP_SECONDS = 0.2  # how long a member of a group waits before it looks around again
_METADATA_SECONDS = 5.0


class Consumer:
    """Read records of topics as they come: ``for record in consumer``, or ``poll`` for lists.

    With a ``group``, partitions are shared with its other members, and reading goes on where the group committed;
    ``auto_commit`` commits what was handed out, from time to time and on ``close``, so that a record is seen at least
    once. Without a group all partitions are read and nothing is committed. Where nothing is committed, or it was
    deleted, ``auto_offset_reset`` decides. Iteration waits for ever, unless ``timeout`` says how long without a
    record, or ``stop_at_end`` ends it where the topics end when it begins. A record that cannot be decoded is a
    ``SerdeError``; ``value=bytes`` shows it as it is, ``seek`` skips it. For one thread.

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
        key: SerdeLike = None,
        value: SerdeLike = None,
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
        self._decoding = _Decoding(serde_for(key) or TEXT, serde_for(value) or JSON)
        self._reset: Reset = auto_offset_reset
        self._auto_commit = auto_commit and group is not None
        self._commit_seconds = milliseconds(commit_every) / 1000
        self._timeout = None if timeout is None else _seconds(timeout)
        self._stop_at_end = stop_at_end
        self._group = group
        self._cursors: dict[TopicPartition, _Cursor] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._batch: list[Record] = []
        self._at = 0
        self._turn = 0
        self._closed = False
        self._looked = float("-inf")
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
        """Close; after an exception nothing more is committed, so that the failed records come again."""
        self._auto_commit = self._auto_commit and kind is None
        self.close()

    def __iter__(self) -> Iterator[Record]:
        ends = self._ends() if self._stop_at_end else None
        last = monotonic()
        while True:
            while self._at < len(self._batch):
                record = self._batch[self._at]
                self._at += 1
                yield record
                last = monotonic() if self._at == len(self._batch) else last
            if ends is not None and all(self.position(*_parts(each)) >= ends.get(each, 0) for each in self._cursors):
                return
            left = _GROUP_SECONDS if self._timeout is None else last + self._timeout - monotonic()
            if left <= 0:
                return
            self._batch, self._at = self._poll(0 if ends is not None else min(left, _GROUP_SECONDS), 10_000), 0

    def poll(self, timeout: Wait = "1 s", max_records: int = 10_000) -> list[Record]:
        """Return up to ``max_records`` records, or none if none came in time; what was returned counts as read."""
        ahead = self._batch[self._at : self._at + max_records]
        self._at += len(ahead)
        return ahead or self._poll(_seconds(timeout), max_records)

    def commit(self) -> None:
        """Commit how far the records handed out so far reach; ``RebalancedError`` if partitions were lost."""
        if self._member is None:
            raise BrokerError("a consumer without a group cannot commit", hint="give it a group")
        self._last_commit = monotonic()
        changed = {each: at for each, at in self._positions().items() if self._committed.get(each) != at}
        if changed:
            self._member.commit(changed)
            self._committed.update(changed)

    def seek(self, topic: str, partition: int, to: Seek) -> None:
        """Go on at an offset, at the ``"beginning"`` or ``"end"``, or at the first record of a time or later."""
        each = TopicPartition(topic, partition)
        cursor = self._cursor(each)
        there = self._broker.offsets(topic)[partition]
        if to == "beginning":
            offset = there.begin
        elif to == "end":
            offset = there.end
        elif isinstance(to, datetime):
            found = self._broker.offset_at(topic, partition, round(to.timestamp() * 1000))
            offset = there.end if found is None else found
        else:
            offset = to
        if not there.begin <= offset <= there.end:
            raise OffsetOutOfRangeError(
                f"{topic}[{partition}] has no offset {offset!r}",
                hint=f"it has the offsets from {there.begin} up to {there.end}",
                topic=topic,
                partition=partition,
            )
        cursor.seek(offset)
        ahead = self._batch[self._at :]
        self._batch, self._at = [one for one in ahead if (one.topic, one.partition) != (topic, partition)], 0

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer reads now."""
        return tuple(sorted(self._cursors))

    def position(self, topic: str, partition: int) -> int:
        """Return the offset of the next record to be handed out."""
        return self._positions()[self._cursor(TopicPartition(topic, partition)).partition]

    def lag(self) -> dict[TopicPartition, int]:
        """Return how many offsets each partition has left to read."""
        ends = self._ends()
        return {each: ends[each] - at for each, at in self._positions().items()}

    def close(self) -> None:
        """Commit if that is automatic, and leave the group."""
        self._closed = True
        if self._member is not None:
            try:
                self._commit_if_automatic()
            finally:
                member, self._member = self._member, None
                self._cursors.clear()
                member.leave()

    def _poll(self, timeout: float, max_records: int) -> list[Record]:
        if self._closed:
            raise BrokerError("the consumer is closed", hint="make another one")
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
            self._broker.wait({each: cursor.position for each, cursor in self._cursors.items()}, slice_seconds)

    def _take(self, most: int) -> list[Record]:
        """Take records from one partition after the other, beginning with another one each time."""
        cursors = list(self._cursors.values())
        self._turn += 1
        taken: list[Record] = []
        for place in range(len(cursors)):
            if len(taken) == most:
                break
            cursor = cursors[(self._turn + place) % len(cursors)]
            try:
                taken += cursor.take(most - len(taken), strict=not taken)
            except OffsetOutOfRangeError as error:
                _log.warning("consumer.offset_reset to=%s reason=%s", self._reset, error)
                cursor.seek(self._start(cursor.partition))
        return taken

    def _refresh(self) -> None:
        """Take over the partitions that are ours now."""
        if self._member is not None:
            mine = self._member.refresh(self._release)
        elif monotonic() - self._looked >= _METADATA_SECONDS:
            self._looked = monotonic()
            mine = frozenset(self._ends())
        else:
            return
        if mine != self._cursors.keys():
            committed = {} if self._group is None else self._broker.committed(self._group)
            self._cursors = {each: self._cursors.get(each) or self._open(each, committed) for each in sorted(mine)}

    def _open(self, each: TopicPartition, committed: dict[TopicPartition, int]) -> _Cursor:
        there = self._broker.offsets(each.topic)[each.partition]
        at = committed.get(each)
        if at is not None and not there.begin <= at <= there.end:
            _log.warning("consumer.offset_reset to=%s committed=%d partition=%s", self._reset, at, each)
            at = None
        self._committed.pop(each, None)
        return _Cursor(self._broker, each, self._start(each) if at is None else at, self._decoding)

    def _start(self, each: TopicPartition) -> int:
        there = self._broker.offsets(each.topic)[each.partition]
        return there.begin if self._reset == "earliest" else there.end

    def _release(self, lost: frozenset[TopicPartition]) -> None:
        """Commit before others go on with our partitions."""
        self._commit_if_automatic()
        for each in lost:
            self._cursors.pop(each, None)

    def _commit_if_automatic(self) -> None:
        if self._auto_commit:
            try:
                self.commit()
            except RebalancedError as error:
                _log.warning("consumer.commit_refused reason=%s", error)

    def _positions(self) -> dict[TopicPartition, int]:
        positions = {each: cursor.position for each, cursor in self._cursors.items()}
        for record in reversed(self._batch[self._at :]):
            positions[TopicPartition(record.topic, record.partition)] = record.offset
        return positions

    def _ends(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic, partition): there.end
            for topic in self._topics
            for partition, there in enumerate(self._broker.offsets(topic))
        }

    def _cursor(self, each: TopicPartition) -> _Cursor:
        found = self._cursors.get(each)
        if found is None:
            raise BrokerError(
                f"{each.topic}[{each.partition}] is not read by this consumer", hint=f"it reads {self.assignment!r}"
            )
        return found


class _Cursor:
    """A place in a partition from which records are taken."""

    def __init__(self, broker: Broker, partition: TopicPartition, position: int, decoding: _Decoding) -> None:
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

    def take(self, most: int, *, strict: bool) -> list[Record]:
        """Return up to ``most`` decoded records; a bad one is raised if it is the first and ``strict``."""
        if self._chunk is None:
            self._fetch()
        chunk = self._chunk
        if chunk is None:
            return []
        block = chunk.block.slice(self._row, most)
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
            self.position = max(self.position, self._end)  # compaction may have removed what was last
            self._end = self._broker.offsets(topic)[partition].end
            if self._end > self.position:
                self._chunks = self._broker.read(topic, partition, self.position, self._end)
                self._chunk = next(self._chunks, None)


class _Decoding:
    """From columns of bytes to records."""

    def __init__(self, key: Serde, value: Serde) -> None:
        self._serdes = (key, value)

    def records(
        self, partition: TopicPartition, block: Any, offsets: Sequence[int]
    ) -> tuple[list[Record], SerdeError | None]:
        """Return the records up to the first that cannot be decoded, and its error."""
        keys, values = block.column(0).to_pylist(), block.column(1).to_pylist()
        error = None
        for what, column, serde in zip(("key", "value"), (keys, values), self._serdes, strict=True):
            if serde is not RAW:
                del column[len(keys) :]  # what comes after a bad key is not looked at
                error = _decode(column, serde, what, partition, offsets) or error
        headers = headers_of(block)
        columns = [offsets, keys, values, block.column(2).to_pylist()]
        if headers is not None:
            columns.append(headers)
        return list(map(Record, repeat(partition.topic), repeat(partition.partition), *columns)), error


def _decode(
    column: list[Any], serde: Serde, what: str, partition: TopicPartition, offsets: Sequence[int]
) -> SerdeError | None:
    """Decode a column in place; cut it at the first failure, which ``map`` then cuts the others at."""
    decode: Callable[[bytes], Any] = serde.decode
    done: list[Any] = []
    try:
        done.extend(None if data is None else decode(data) for data in column)
    except Exception as cause:
        place = len(done)
        data = column[place]
        column[:] = done
        error = SerdeError(
            f"cannot decode the {what} of {partition.topic}[{partition.partition}]@{offsets[place]} "
            f"as {serde.name}: {cause} in {data!r:.80}",
            hint=f"read it with {what}=bytes, or go on behind it with seek",
            topic=partition.topic,
            partition=partition.partition,
            offset=offsets[place],
        )
        error.__cause__ = cause
        return error
    column[:] = done
    return None


def _parts(each: TopicPartition) -> tuple[str, int]:
    return each.topic, each.partition


def _seconds(wait: Wait) -> float:
    return float(wait) if isinstance(wait, int | float) else milliseconds(wait) / 1000
