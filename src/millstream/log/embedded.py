"""The embedded log as a broker: a thin facade over catalog, topics, waiting, cleaning and groups."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from time import time
from typing import Any, Literal, Self

from millstream.broker import (
    Acks,
    GroupInfo,
    GroupMember,
    Offsets,
    Output,
    RecordChunk,
    ShareGroupInfo,
    ShareSettings,
    TopicConfig,
    TopicInfo,
)
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError, MillstreamError, UnknownTopicError
from millstream.foundation.storage import make_private_directory, translate_storage_errors
from millstream.log.catalog import TopicCatalog
from millstream.log.cleaning import BackgroundCleaner, clean
from millstream.log.groups import LogGroups
from millstream.log.members import LogMember, is_alive
from millstream.log.reading import offset_at, read_chunks, view_chunks
from millstream.log.share_groups import LogShareGroups
from millstream.log.share_member import LogShareMember
from millstream.log.waiting import LogWaiter
from millstream.log.writing import check_partition
from millstream.records import TopicPartition

Durability = Literal["sync", "os"]

_users: Counter[Path] = Counter()
_users_lock = threading.Lock()


class EmbeddedLog:
    """A broker in a directory; any number of processes on one host can use it at the same time.

    With ``durability="sync"`` every append is flushed to disk before it returns, regardless of ``acks``: LMDB cannot
    skip the flush of one append without endangering earlier ones. With ``durability="os"`` an append returns when the
    operating system has the data, which survives a crash of the process but not of the machine: after a power failure
    a topic may have lost its last appends or be corrupted. ``acks="synced"`` still flushes everything to disk first.
    ``clock`` returns the time of locks in share groups, in epoch seconds.

    >>> from tempfile import mkdtemp
    >>> from millstream.foundation.blocks import block_of
    >>> with EmbeddedLog(Path(mkdtemp())) as log:
    ...     log.create_topic("lines", TopicConfig(partitions=1))
    ...     log.append([Output("lines", 0, block_of([None], [b"hello"], [0]))])
    ...     [chunk.block.column("value").to_pylist() for chunk in log.read("lines", 0, 0, 1)]
    [0]
    [[b'hello']]
    """

    can_renew_locks = True

    def __init__(self, data_dir: Path, *, durability: Durability = "sync", clock: Callable[[], float] = time) -> None:
        if durability not in ("sync", "os"):
            raise DefinitionError(f"unknown durability {durability!r}", hint="use 'sync' or 'os'")
        self._data_dir = Path(data_dir).absolute()
        self._root = self._data_dir / "log"
        with translate_storage_errors(self._data_dir):
            make_private_directory(self._data_dir)
        self._sync = durability == "sync"
        self._catalog = TopicCatalog(self._root, sync=self._sync)
        self._groups = LogGroups(self._root, lambda: self._catalog.meta, partial(is_alive, self._root))
        self._shares = LogShareGroups(
            self._root, self._catalog.get, lambda: self._catalog.meta, sync=self._sync, clock=clock
        )
        self._cleaner = BackgroundCleaner()
        self._local = threading.local()
        self._is_open = True
        self._has_written = False
        with _users_lock:
            _users[self._root] += 1

    @property
    def url(self) -> str:
        """The URL of the log, as accepted by ``broker=``."""
        return f"embedded:{self._data_dir}"

    def cluster_id(self) -> str:
        """Return the id of the log, which stays the same when its directory moves."""
        return self._catalog.cluster_id()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release resources; the last user of the directory in this process closes its environments."""
        if not self._is_open:
            return
        self._is_open = False
        self._cleaner.close()
        if self._sync:  # otherwise what was written may not be on disk
            with suppress(MillstreamError):  # it is only a safeguard, and another process may delete a topic now
                if self._has_written:
                    self._catalog.remember_ends()
                self._shares.remember_commit()
        with _users_lock:
            _users[self._root] -= 1
            if not _users[self._root]:
                del _users[self._root]
                self._catalog.close()

    def create_topic(self, name: str, config: TopicConfig) -> None:
        """Create a topic."""
        self._catalog.create(name, config)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records; a waiting reader gets an ``UnknownTopicError``."""
        self._catalog.delete(name)

    def alter_topic(self, name: str, **changes: Any) -> TopicInfo:
        """Change settings of a topic, named as in ``TopicConfig``; the number of partitions can only grow."""
        self._catalog.alter(name, changes)
        return self.topic(name)

    def topic(self, name: str) -> TopicInfo:
        """Describe a topic."""
        topic = self._catalog.get(name)
        return TopicInfo(
            name=name,
            config=topic.config,
            offsets=tuple(topic.offsets()),
            bytes=tuple(topic.bytes()),
            id=topic.id,
        )

    def topic_names(self) -> list[str]:
        """Return the names of all topics in order."""
        return self._catalog.names()

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition before ``offset``."""
        self._catalog.get(topic).delete_before(partition, offset)

    def clean(self, topic: str | None = None, *, now: int | None = None) -> None:
        """Apply retention and compaction to one topic or to all; appends also trigger this periodically."""
        for name in self.topic_names() if topic is None else [topic]:
            clean(self._catalog.get(name), now)

    def append(self, outputs: Sequence[Output], *, acks: Acks = "synced") -> list[int]:
        """Append blocks, one transaction per topic, and return the offset of the first record of each."""
        return self._append(outputs, [], acks)

    def append_once(self, producer: str, sequence: int, outputs: Sequence[Output], *, acks: Acks = "synced") -> None:
        """Append blocks, except to partitions that already have this or a later ``sequence`` of ``producer``."""
        self._append(outputs, [(producer, sequence)] * len(outputs), acks)

    def append_together(self, sequence: int, outputs: Mapping[str, Sequence[Output]]) -> None:
        """Append like ``append_once`` for several producers, with one transaction per topic."""
        once = [(producer, sequence) for producer, blocks in outputs.items() for _ in blocks]
        self._append([output for blocks in outputs.values() for output in blocks], once, "synced")

    def _append(self, outputs: Sequence[Output], once: Sequence[tuple[str, int]], acks: Acks) -> list[int]:
        offsets = [0] * len(outputs)
        self._has_written = True
        for name in dict.fromkeys(output.topic for output in outputs):
            topic = self._catalog.get(name)
            indexes = [index for index, output in enumerate(outputs) if output.topic == name]
            claims = [once[index] for index in indexes] if once else []
            bases, is_cleaning_due = topic.append([outputs[index] for index in indexes], claims)
            for index, base in zip(indexes, bases, strict=True):
                offsets[index] = base
            if acks == "synced" and not self._sync:
                topic.sync()
            if is_cleaning_due:
                self._cleaner.start(topic)
        return offsets

    def offsets(self, topic: str) -> list[Offsets]:
        """Return the first and the next offset of each partition."""
        return self._catalog.get(topic).offsets()

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """Return the next offset of the first ``partitions`` partitions."""
        return [offsets.end for offsets in self.offsets(topic)[:partitions]]

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Return the offset of the first record with ``timestamp`` or later, or None if there is none."""
        stored = self._catalog.get(topic)
        check_partition(topic, partition, stored.config)
        return offset_at(stored, partition, timestamp)

    def timestamp_at(self, topic: str, partition: int, start: int, end: int) -> int | None:
        """Return the timestamp of the first record with ``start <= offset < end``, or None if there is none."""
        for chunk in self.read(topic, partition, start, end):
            return int(chunk.block.column(2)[0].as_py())
        return None

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records with ``start <= offset < end`` in order; chunks own their memory."""
        stored = self._catalog.get(topic)
        check_partition(topic, partition, stored.config)
        return read_chunks(stored, partition, start, end)

    def view(self, topic: str, partition: int, start: int, end: int) -> AbstractContextManager[Iterator[RecordChunk]]:
        """Read without copying: ``with log.view(...) as chunks``; the chunks must not be used after the block."""
        stored = self._catalog.get(topic)
        check_partition(topic, partition, stored.config)
        return view_chunks(stored, partition, start, end)

    def wait(self, positions: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Block until a partition has a record at or after its position; False after ``timeout`` seconds."""
        topics = {name: self._catalog.get(name) for name in {position.topic for position in positions}}

        def is_ready() -> bool:
            offsets = {name: self._catalog.get(name).offsets() for name in topics}
            return any(offsets[key.topic][key.partition].end > offset for key, offset in positions.items())

        return self._waiter().wait([topic.waiters for topic in topics.values()], is_ready, timeout)

    def _waiter(self) -> LogWaiter:
        waiter: LogWaiter | None = getattr(self._local, "waiter", None)
        if waiter is None or not waiter.belongs_to_this_process:
            waiter = self._local.waiter = LogWaiter()
        return waiter

    def group_names(self) -> list[str]:
        """Return the names of all consumer groups in order."""
        return self._groups.names()

    def group(self, name: str) -> GroupInfo:
        """Describe a consumer group."""
        return self._groups.info(name)

    def members(self, group: str) -> tuple[GroupMember, ...]:
        """Return the live members of a consumer group; none for an unknown group."""
        return self._groups.info(group).members if group in self._groups.names() else ()

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of a group that has no live members; a member commits through its consumer."""
        self._has_written = True
        self._groups.commit(group, offsets)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        return self._groups.committed(group)

    def join_group(self, group: str, topics: Sequence[str], *, session_timeout: Duration = "10 s") -> LogMember:
        """Join a group whose members, also in other processes, share the partitions of its topics."""
        if group in self._shares.names():
            raise DefinitionError(f"{group!r} is a share group", hint="use share_consumer, or choose another name")
        for name in topics:
            self._catalog.get(name)
        return LogMember(self._groups, group, topics, self._partition_counts, milliseconds(session_timeout))

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        counts = {}
        for name in topics:
            with suppress(UnknownTopicError):
                counts[name] = self._catalog.get(name).config.partitions
        return counts

    def forget_producers(self, prefixes: Iterable[str]) -> None:
        """Do nothing: in the embedded log, producers of different lineages are different producers."""

    def delete_group(self, name: str) -> None:
        """Delete a group that has no live members."""
        self._groups.delete(name)

    def join_share_group(self, group: str, settings: ShareSettings) -> LogShareMember:
        """Join a share group, whose members, also in other processes, acquire single records."""
        if group in self._groups.names():
            raise DefinitionError(f"{group!r} is a consumer group", hint="use consumer, or choose another name")
        self._has_written = True
        return LogShareMember(self._shares, group, settings, partial(self.append_together, 1), self._waiter)

    def share_group_names(self) -> list[str]:
        """Return the names of all share groups in order."""
        return self._shares.names()

    def share_group(self, name: str) -> ShareGroupInfo:
        """Describe a share group."""
        return self._shares.info(name)

    def move_share_group(self, name: str, starts: Mapping[TopicPartition, int]) -> None:
        """Start partitions of a share group without live members at other offsets."""
        self._shares.move(name, starts)

    def delete_share_group(self, name: str) -> None:
        """Delete a share group that has no live members."""
        self._shares.delete(name)
