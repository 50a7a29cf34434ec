"""The share groups of a log directory: the state of their partitions, and their members.

They have an environment of their own, since a member writes with every poll, and every write of the catalog's makes all
readers look up their topics again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import msgspec

from millstream.broker import GroupMember, SharedPartition, ShareGroupInfo
from millstream.errors import BrokerError, DamagedError, UnknownTopicError
from millstream.foundation.content import SHARE_GROUPS
from millstream.foundation.damage import damaged
from millstream.foundation.file_lock import FileLock
from millstream.foundation.names import check_name
from millstream.foundation.small_file import replace_file
from millstream.foundation.storage import Environment, open_environment
from millstream.foundation.stored import decoding
from millstream.log.group_commit import GroupCommit
from millstream.log.groups import group_partition_key, parse_group_partition, scan
from millstream.log.share_state import ACQUIRED, WAITING, ShareState
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.foundation.transactions import Database, Transaction, WriteTransaction
    from millstream.log.topic import Topic

T = TypeVar("T")
_DATABASES = ("partitions", "members")
_IDENTITY, _ID = "identity", b"id"
_COMMIT = b"share-groups-commit"


class StoredMember(msgspec.Struct, frozen=True):
    """A member as its group stores it."""

    process: int
    topics: tuple[str, ...]


_pack = msgspec.msgpack.Encoder().encode
_unpack_state = msgspec.msgpack.Decoder(ShareState).decode
_unpack_member = msgspec.msgpack.Decoder(StoredMember).decode


def _identity(txn: WriteTransaction, database: Database) -> bytes:
    """Return the id of an environment; a new one gets one, from whichever process is first."""
    stored = txn.get(_ID, db=database)
    if stored is None:
        stored = uuid4().bytes
        txn.put(_ID, stored, db=database)
    return bytes(stored)


def _lost(path: Path) -> DamagedError:
    return DamagedError(
        f"{str(path)!r}, the state of the share groups, is lost or was replaced by another file",
        hint=f"restore it from a backup; to let all groups start over, delete {str(path.parent)!r}",
        path=str(path),
    )


class LogShareGroups:
    """The share groups of a log directory; ``clock`` returns epoch seconds."""

    def __init__(
        self,
        root: Path,
        topic: Callable[[str], Topic],
        meta: Callable[[], Environment],
        *,
        sync: bool,
        clock: Callable[[], float] = time,
    ) -> None:
        self.topic = topic
        self._meta = meta
        self._root = root / "shares"
        self._sync = sync
        self._clock = clock
        self._cached: Environment | None = None
        self._commits = GroupCommit(lambda: self.environment)

    def now(self) -> int:
        """Return the current time in epoch milliseconds."""
        return int(self._clock() * 1000)

    @property
    def environment(self) -> Environment:
        """The environment, opened by this process when it is first used."""
        if self._cached is None or not self._cached.is_open:
            self._cached = self._open()
        return self._cached

    def update(self, change: Callable[[WriteTransaction], T]) -> T:
        """Commit a change, together with those of other threads of this process, and return its result."""
        return self._commits.run(change)

    def _open(self) -> Environment:
        """Open the environment; it has an id that is also stored beside it, so that its loss is not a new beginning."""
        path, id_file = self._root / "state", self._root / "id"
        expected = id_file.read_bytes() if id_file.exists() else None
        if expected is not None and not (path / "data.mdb").exists():
            raise _lost(path)
        environment = open_environment(path, (*_DATABASES, _IDENTITY), sync=self._sync, content=SHARE_GROUPS)
        database = environment.databases[_IDENTITY]
        with environment.read() as txn:
            stored = txn.get(_ID, db=database)
        if expected is not None and (stored is None or bytes(stored) != expected):
            raise _lost(path)
        if expected is None:
            meta = self._meta()
            meta.update(lambda txn: txn.delete(_COMMIT, db=meta.databases["identity"]))
            replace_file(id_file, environment.update(lambda txn: _identity(txn, database)), sync=self._sync)
        elif environment.last_commit() < self._known_commit():
            raise damaged(path / "data.mdb", "it is an old copy: acknowledged records would be delivered again")
        return environment

    def _known_commit(self) -> int:
        """Return the commit at which the share groups were when a process last closed the log in an orderly way."""
        meta = self._meta()
        with meta.read() as txn:
            return int(txn.get(_COMMIT, b"0", db=meta.databases["identity"]))

    def remember_commit(self) -> None:
        """Store in the catalog how far the share groups are, if this process has used them."""
        opened = self._cached
        if opened is not None and opened.is_open and opened.last_commit() > self._known_commit():
            meta, commit = self._meta(), b"%d" % opened.last_commit()
            meta.update(lambda txn: txn.put(_COMMIT, commit, db=meta.databases["identity"]))

    def waiters(self, group: str) -> Path:
        """The directory in which members wait for records that other members release."""
        return self._root / "waiters" / group

    def lock(self, group: str, member: str) -> FileLock:
        """Return the lock that a member holds while its process lives."""
        return FileLock(self._root / "members" / check_name("group", group) / check_name("member", member))

    # Within a transaction

    def state(self, txn: Transaction, group: str, partition: TopicPartition, topic_id: str) -> ShareState | None:
        """Return the state of a partition; None if the group has not read it, or another topic of that name."""
        stored = txn.get(group_partition_key(group, partition), db=self.environment.databases["partitions"])
        if stored is None:
            return None
        with decoding(self.environment.path):
            state = _unpack_state(stored)
        return state if state.topic_id == topic_id else None

    def put(self, txn: WriteTransaction, group: str, partition: TopicPartition, state: ShareState) -> None:
        """Store the state of a partition if it has changed."""
        key, packed = group_partition_key(group, partition), _pack(state)
        database = self.environment.databases["partitions"]
        if txn.get(key, db=database) != packed:
            txn.put(key, packed, db=database)

    # Members

    def put_member(self, group: str, member: str, stored: StoredMember) -> None:
        """Store a member, and remove those that have died."""
        environment = self.environment

        def write(txn: WriteTransaction) -> None:
            others = [_member_id(key) for key, _ in self._scan(txn, "members", group.encode() + b"\0")]
            dead = {other for other in others if other != member and not self.lock(group, other).is_held()}
            self.remove_members(txn, group, dead)
            txn.put(_member_key(group, member), _pack(stored), db=environment.databases["members"])

        self.update(write)

    def remove_members(self, txn: WriteTransaction, group: str, members: set[str]) -> None:
        """Remove members that have left or died."""
        for member in members:
            txn.delete(_member_key(group, member), db=self.environment.databases["members"])
            self.lock(group, member).path.unlink(missing_ok=True)

    def members(self, group: str) -> dict[str, StoredMember]:
        """Return the live members of a group by id."""
        with decoding(self.environment.path), self.environment.read() as txn:
            stored = [
                (_member_id(key), _unpack_member(data))
                for key, data in self._scan(txn, "members", group.encode() + b"\0")
            ]
        return {member: info for member, info in stored if self.lock(group, member).is_held()}

    # Administration

    def names(self) -> list[str]:
        """Return the names of all share groups."""
        if self._cached is None and not ((self._root / "state").exists() or (self._root / "id").exists()):
            return []  # reading must not create the environment
        with self.environment.read() as txn:
            keys = [key for database in _DATABASES for key, _ in self._scan(txn, database, b"")]
        return sorted({key.partition(b"\0")[0].decode() for key in keys})

    def info(self, name: str) -> ShareGroupInfo:
        """Describe a share group."""
        self._check_exists(name)
        members = self.members(name)
        return ShareGroupInfo(
            name=name,
            members=tuple(
                GroupMember(id=member, process=stored.process, topics=stored.topics, partitions=())
                for member, stored in sorted(members.items())
            ),
            partitions=tuple(self._partitions(name, set(members))),
        )

    def _partitions(self, name: str, members: set[str]) -> Iterator[SharedPartition]:
        with decoding(self.environment.path), self.environment.read() as txn:
            pairs = self._scan(txn, "partitions", name.encode() + b"\0")
            states = {parse_group_partition(key)[1]: _unpack_state(data) for key, data in pairs}
        for partition, state in sorted(states.items()):
            try:
                topic = self.topic(partition.topic)
            except UnknownTopicError:
                continue
            if topic.id != state.topic_id:
                continue
            state.release_ended(self.now(), state.members() - members)
            offsets = topic.offsets()[partition.partition]
            state.delete_before(offsets.begin)
            state.advance()
            yield SharedPartition(
                topic=partition.topic,
                partition=partition.partition,
                start=state.start,
                end=offsets.end,
                waiting=max(0, offsets.end - state.next_offset) + state.count(WAITING),
                in_flight=state.count(ACQUIRED),
                redelivered=state.count(WAITING, 1) + state.count(ACQUIRED, 2),
                dead=state.dead,
                expired=state.expired,
            )

    def move(self, name: str, starts: Mapping[TopicPartition, int]) -> None:
        """Start partitions of a group without live members at other offsets."""
        check_name("group", name)
        topics = {topic: self.topic(topic) for topic in {partition.topic for partition in starts}}

        def write(txn: WriteTransaction) -> None:
            self._check_empty(name, "reset")
            for partition, start in starts.items():
                before = self.state(txn, name, partition, topics[partition.topic].id)
                counts = (before.dead, before.expired) if before is not None else (0, 0)
                self.put(txn, name, partition, ShareState(topics[partition.topic].id, start, [], *counts))

        self.update(write)

    def delete(self, name: str) -> None:
        """Delete a group without live members."""
        self._check_exists(name)
        environment = self.environment

        def write(txn: WriteTransaction) -> None:
            self._check_empty(name, "delete")
            for database in _DATABASES:
                for key, _ in list(self._scan(txn, database, name.encode() + b"\0")):
                    txn.delete(key, db=environment.databases[database])

        self.update(write)

    def _check_exists(self, name: str) -> None:
        if check_name("group", name) not in self.names():
            raise BrokerError(f"there is no share group {name!r}", hint="see: millstream groups list", group=name)

    def _check_empty(self, name: str, action: str) -> None:
        live = sorted(self.members(name))
        if live:
            raise BrokerError(
                f"cannot {action} share group {name!r}, it has {len(live)} live members",
                hint="stop its consumers first",
                group=name,
                members=live,
            )

    def _scan(self, txn: Transaction, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return scan(txn, self.environment.databases[database], prefix)


def _member_key(group: str, member: str) -> bytes:
    return b"%s\0%s" % (group.encode(), member.encode())


def _member_id(key: bytes) -> str:
    return key.rpartition(b"\0")[2].decode()
