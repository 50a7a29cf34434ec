"""Committed offsets of consumer groups, and who may commit them.

In a group with live members, each member may commit the partitions it holds. Any process can move a group without
members: this is how an administrator resets a group and how an app commits its progress.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from millstream.broker import GroupInfo, GroupMember
from millstream.errors import BrokerError, RebalancedError
from millstream.foundation.names import check_name
from millstream.foundation.transactions import Database, Transaction
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.foundation.storage import Environment

_OFFSET = struct.Struct(">Q")


class MemberState(msgspec.Struct, frozen=True, kw_only=True):
    """A member as stored by the group: the partitions it is to own (``wanted``) and those it owns now (``held``)."""

    process: int
    topics: tuple[str, ...]
    session_ms: int
    wanted: frozenset[TopicPartition] = frozenset()
    held: frozenset[TopicPartition] = frozenset()


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a group; ``generation`` counts the changes."""

    generation: int = 0
    members: dict[str, MemberState] = {}


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(GroupState).decode


class LogGroups:
    """The consumer groups of a log directory."""

    def __init__(self, root: Path, meta: Callable[[], Environment], is_alive: Callable[[str, str, int], bool]) -> None:
        self.root = root
        self._meta = meta
        self._is_alive = is_alive

    def names(self) -> list[str]:
        """Return the names of all groups that have members or committed offsets."""
        meta = self._meta()
        with meta.read() as txn:
            named = {parse_group_partition(key)[0] for key, _ in scan(txn, meta.databases["committed"], b"")}
            return sorted(named | {key.decode() for key, _ in scan(txn, meta.databases["groups"], b"")})

    def info(self, name: str) -> GroupInfo:
        """Describe a group; members that have died or hang are left out."""
        self._check_exists(name)
        state = self.state(name)
        members = (
            GroupMember(
                id=member_id, process=member.process, topics=member.topics, partitions=tuple(sorted(member.held))
            )
            for member_id, member in sorted(state.members.items())
            if self._is_alive(name, member_id, member.session_ms)
        )
        return GroupInfo(name=name, generation=state.generation, members=tuple(members), committed=self.committed(name))

    def state(self, name: str) -> GroupState:
        """Return the stored state of a group."""
        meta = self._meta()
        with meta.read() as txn:
            return self._state(txn, meta, name)

    def change(self, name: str, change: Callable[[GroupState], GroupState]) -> GroupState:
        """Replace the state of a group in one transaction."""
        meta = self._meta()

        def write(txn: Transaction) -> GroupState:
            before = self._state(txn, meta, name)
            after = change(before)
            if after != before:
                txn.put(name.encode(), _pack(after), db=meta.databases["groups"])
            return after

        return meta.update(write)

    def commit(self, name: str, offsets: Mapping[TopicPartition, int], member: str | None = None) -> None:
        """Commit offsets for a member that holds the partitions, or without a member if the group has none alive."""
        check_name("group", name)
        meta = self._meta()

        def write(txn: Transaction) -> None:
            state = self._state(txn, meta, name)
            if member is None:
                self._check_empty(name, state, "commit for")
            else:
                _check_held(name, state, member, offsets)
            for partition, offset in offsets.items():
                key = group_partition_key(name, partition)
                txn.put(key, _OFFSET.pack(offset), db=meta.databases["committed"])

        meta.update(write)

    def committed(self, name: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group; empty for an unknown group."""
        meta = self._meta()
        with meta.read() as txn:
            pairs = scan(txn, meta.databases["committed"], check_name("group", name).encode() + b"\0")
            return {parse_group_partition(key)[1]: _OFFSET.unpack(data)[0] for key, data in pairs}

    def delete(self, name: str) -> None:
        """Delete a group and its offsets; refused while it has live members."""
        self._check_exists(name)
        meta = self._meta()

        def write(txn: Transaction) -> None:
            self._check_empty(name, self._state(txn, meta, name), "delete")
            txn.delete(name.encode(), db=meta.databases["groups"])
            for key, _ in list(scan(txn, meta.databases["committed"], name.encode() + b"\0")):
                txn.delete(key, db=meta.databases["committed"])

        meta.update(write)

    def _state(self, txn: Transaction, meta: Environment, name: str) -> GroupState:
        stored = txn.get(check_name("group", name).encode(), db=meta.databases["groups"])
        return GroupState() if stored is None else _unpack(stored)

    def _check_exists(self, name: str) -> None:
        if check_name("group", name) not in self.names():
            raise BrokerError(f"there is no group {name!r}", hint="see: millstream groups list", group=name)

    def _check_empty(self, name: str, state: GroupState, action: str) -> None:
        live = [
            member_id
            for member_id, member in state.members.items()
            if self._is_alive(name, member_id, member.session_ms)
        ]
        if live:
            raise BrokerError(
                f"cannot {action} group {name!r}, it has {len(live)} live members",
                hint="stop its consumers first",
                group=name,
                members=live,
            )


def _check_held(name: str, state: GroupState, member: str, offsets: Mapping[TopicPartition, int]) -> None:
    stored = state.members.get(member)
    lost = sorted(offsets.keys() - (stored.held if stored else frozenset()))
    if lost:
        raise RebalancedError(
            f"group {name!r} assigned {lost[0].topic}[{lost[0].partition}] to another member before this commit",
            hint="poll again; the new owner reads its records again from the last commit",
            group=name,
            partitions=lost,
        )


def group_partition_key(group: str, partition: TopicPartition) -> bytes:
    """Return the key of a partition that a group reads."""
    return b"%s\0%s\0%d" % (group.encode(), partition.topic.encode(), partition.partition)


def parse_group_partition(key: bytes) -> tuple[str, TopicPartition]:
    """Return the group and the partition of a key."""
    group, topic, partition = key.split(b"\0")
    return group.decode(), TopicPartition(topic.decode(), int(partition))


def scan(txn: Transaction, database: Database, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries whose keys have a prefix."""
    with txn.cursor(db=database) as cursor:
        if cursor.set_range(prefix) if prefix else cursor.first():
            for key, data in cursor.iternext():
                if not key.startswith(prefix):
                    return
                yield key, data
