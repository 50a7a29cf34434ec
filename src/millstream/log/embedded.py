"""The embedded log as a broker: a thin front to catalog, topics, waiting, cleaning and groups."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from millstream.broker import Acks, GroupInfo, Offsets, Output, RecordChunk, TopicConfig, TopicInfo
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError, UnknownTopicError
from millstream.foundation.storage import make_private_directory, translate_storage_errors
from millstream.log.catalog import Catalog
from millstream.log.cleaning import Sweeper, clean
from millstream.log.groups import Groups
from millstream.log.members import Member, is_alive
from millstream.log.reading import offset_at, read_chunks, viewed
from millstream.log.waiting import Waiter
from millstream.log.writing import check_partition
from millstream.records import TopicPartition

Durability = Literal["sync", "os"]

_users: Counter[Path] = Counter()
_users_lock = threading.Lock()


class EmbeddedLog:
    """A broker in a directory: any number of processes of one host may use it at the same time.

    With ``durability="sync"`` every append is on the disk before it returns, whatever its ``acks``: LMDB cannot leave
    out the disk for one append without endangering those before it. With ``durability="os"`` an append returns when
    the operating system has it, which survives the process but not the machine: after a power cut a topic may have
    lost its last appends or be damaged as a whole. ``acks="synced"`` then still forces everything to the disk first.

    >>> from tempfile import mkdtemp
    >>> from millstream.foundation.blocks import block_of
    >>> with EmbeddedLog(Path(mkdtemp())) as log:
    ...     log.create_topic("lines", TopicConfig(partitions=1))
    ...     log.append([Output("lines", 0, block_of([None], [b"hello"], [0]))])
    ...     [chunk.block.column("value").to_pylist() for chunk in log.read("lines", 0, 0, 1)]
    [0]
    [[b'hello']]
    """

    def __init__(self, data_dir: Path, *, durability: Durability = "sync") -> None:
        if durability not in ("sync", "os"):
            raise DefinitionError(f"durability {durability!r} is not known", hint="use 'sync' or 'os'")
        self._data_dir = Path(data_dir).absolute()
        self._root = self._data_dir / "log"
        with translate_storage_errors(self._data_dir):
            make_private_directory(self._data_dir)
        self._sync = durability == "sync"
        self._catalog = Catalog(self._root, sync=self._sync)
        self._groups = Groups(self._root, lambda: self._catalog.meta, partial(is_alive, self._root))
        self._sweeper = Sweeper()
        self._local = threading.local()
        self._is_open = True
        with _users_lock:
            _users[self._root] += 1

    @property
    def url(self) -> str:
        """Where the log is, in the form that ``broker=`` takes."""
        return f"embedded:{self._data_dir}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what this process holds; the last user of the directory closes its environments."""
        if not self._is_open:
            return
        self._is_open = False
        self._sweeper.close()
        with _users_lock:
            _users[self._root] -= 1
            if not _users[self._root]:
                del _users[self._root]
                self._catalog.close()

    def create_topic(self, name: str, config: TopicConfig) -> None:
        """Create a topic."""
        self._catalog.create(name, config)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records; those who wait for it wake up with an ``UnknownTopicError``."""
        self._catalog.delete(name)

    def alter_topic(self, name: str, **changes: Any) -> TopicInfo:
        """Change settings of a topic, named as in ``TopicConfig``; partitions can only grow."""
        self._catalog.alter(name, changes)
        return self.topic(name)

    def topic(self, name: str) -> TopicInfo:
        """Describe a topic as it is now."""
        topic = self._catalog.get(name)
        return TopicInfo(name=name, config=topic.config, offsets=tuple(topic.offsets()), bytes=tuple(topic.bytes()))

    def topic_names(self) -> list[str]:
        """Return the names of all topics in order."""
        return self._catalog.names()

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Forget the records of a partition before ``offset``."""
        self._catalog.get(topic).delete_before(partition, offset)

    def clean(self, topic: str | None = None, *, now: int | None = None) -> None:
        """Apply retention and compaction to one topic or to all; appends do the same from time to time."""
        for name in self.topic_names() if topic is None else [topic]:
            clean(self._catalog.get(name), now)

    def append(self, outputs: Sequence[Output], *, acks: Acks = "synced") -> list[int]:
        """Append blocks, those for one topic in one transaction, and return the offset of the first record of each."""
        return self._append(outputs, [], acks)

    def append_once(self, producer: str, sequence: int, outputs: Sequence[Output], *, acks: Acks = "synced") -> None:
        """Append blocks, leaving out partitions that have this or a later ``sequence`` of ``producer``."""
        self._append(outputs, [(producer, sequence)] * len(outputs), acks)

    def append_together(self, sequence: int, outputs: Mapping[str, Sequence[Output]]) -> None:
        """Do what ``append_once`` does for several producers, with one transaction for each topic."""
        once = [(producer, sequence) for producer, own in outputs.items() for _ in own]
        self._append([output for own in outputs.values() for output in own], once, "synced")

    def _append(self, outputs: Sequence[Output], once: Sequence[tuple[str, int]], acks: Acks) -> list[int]:
        offsets = [0] * len(outputs)
        for name in dict.fromkeys(output.topic for output in outputs):
            topic = self._catalog.get(name)
            places = [place for place, output in enumerate(outputs) if output.topic == name]
            claims = [once[place] for place in places] if once else []
            bases, cleaning_is_due = topic.append([outputs[place] for place in places], claims)
            for place, base in zip(places, bases, strict=True):
                offsets[place] = base
            if acks == "synced" and not self._sync:
                topic.force()
            if cleaning_is_due:
                self._sweeper.sweep(topic)
        return offsets

    def offsets(self, topic: str) -> list[Offsets]:
        """Return begin and end of each partition."""
        return self._catalog.get(topic).offsets()

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Return the first offset whose record has ``timestamp`` or later, or None if there is none."""
        found = self._catalog.get(topic)
        check_partition(topic, partition, found.config)
        return offset_at(found, partition, timestamp)

    def timestamp_at(self, topic: str, partition: int, start: int, end: int) -> int | None:
        """Return the time of the first record with ``start <= offset < end``, or None if there is none."""
        for chunk in self.read(topic, partition, start, end):
            return int(chunk.block.column(2)[0].as_py())
        return None

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records with ``start <= offset < end`` in order; chunks own their memory."""
        found = self._catalog.get(topic)
        check_partition(topic, partition, found.config)
        return read_chunks(found, partition, start, end)

    def view(self, topic: str, partition: int, start: int, end: int) -> AbstractContextManager[Iterator[RecordChunk]]:
        """Read without any copy: ``with log.view(...) as chunks``; nothing of them may be used after the block."""
        found = self._catalog.get(topic)
        check_partition(topic, partition, found.config)
        return viewed(found, partition, start, end)

    def wait(self, positions: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Block until a partition has a record at or after its position; False if none came in time."""
        topics = {name: self._catalog.get(name) for name in {each.topic for each in positions}}

        def ready() -> bool:
            ends = {name: self._catalog.get(name).offsets() for name in topics}
            return any(ends[each.topic][each.partition].end > at for each, at in positions.items())

        return self._waiter().wait([topic.waiters for topic in topics.values()], ready, timeout)

    def _waiter(self) -> Waiter:
        waiter: Waiter | None = getattr(self._local, "waiter", None)
        if waiter is None or not waiter.is_ours:
            waiter = self._local.waiter = Waiter()
        return waiter

    def group_names(self) -> list[str]:
        """Return the names of all consumer groups in order."""
        return self._groups.names()

    def group(self, name: str) -> GroupInfo:
        """Describe a consumer group."""
        return self._groups.info(name)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move a group that has no live members; a member commits through its consumer."""
        self._groups.commit(group, offsets)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        return self._groups.committed(group)

    def join_group(self, group: str, topics: Sequence[str], *, session_timeout: Duration = "10 s") -> Member:
        """Become a member of a group that shares the partitions of its topics, also with other processes."""
        for name in topics:
            self._catalog.get(name)
        return Member(self._groups, group, topics, self._partition_counts, milliseconds(session_timeout))

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        counts = {}
        for name in topics:
            with suppress(UnknownTopicError):
                counts[name] = self._catalog.get(name).config.partitions
        return counts

    def forget_producers(self, prefixes: Iterable[str]) -> None:
        """Do nothing: here a producer of another lineage is another producer."""

    def delete_group(self, name: str) -> None:
        """Forget a group that has no live members."""
        self._groups.delete(name)
