"""Committed offsets of consumer groups, and who may commit them.

A group with live members belongs to them: each may commit the partitions it holds. A group without members can be
moved by anybody, which is how an administrator resets it and how a batch run reports its progress.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.broker import GroupInfo, GroupMember
from millstream.errors import BrokerError, RebalancedError
from millstream.foundation.names import check_name
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.foundation.storage import Environment

_OFFSET = struct.Struct(">Q")


class MemberState(msgspec.Struct, frozen=True, kw_only=True):
    """A member as the group remembers it: what it shall own (``wanted``) and what it owns now (``held``)."""

    process: int
    topics: tuple[str, ...]
    session_ms: int
    wanted: frozenset[TopicPartition] = frozenset()
    held: frozenset[TopicPartition] = frozenset()


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """Who is in a group; ``generation`` counts the changes."""

    generation: int = 0
    members: dict[str, MemberState] = {}


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(GroupState).decode


class Groups:
    """The consumer groups of a log directory."""

    def __init__(self, root: Path, meta: Callable[[], Environment], is_alive: Callable[[str, str, int], bool]) -> None:
        self.root = root
        self._meta = meta
        self._is_alive = is_alive

    def names(self) -> list[str]:
        """Return the names of all groups that have members or committed offsets."""
        meta = self._meta()
        with meta.read() as txn:
            named = {_decoded(key)[0] for key, _ in _pairs(txn, meta.databases["committed"], b"")}
            return sorted(named | {key.decode() for key, _ in _pairs(txn, meta.databases["groups"], b"")})

    def info(self, name: str) -> GroupInfo:
        """Describe a group; members that died or hang do not count."""
        self._check_known(name)
        state = self.state(name)
        members = (
            GroupMember(id=member, process=each.process, topics=each.topics, partitions=tuple(sorted(each.held)))
            for member, each in sorted(state.members.items())
            if self._is_alive(name, member, each.session_ms)
        )
        return GroupInfo(name=name, generation=state.generation, members=tuple(members), committed=self.committed(name))

    def state(self, name: str) -> GroupState:
        """Return what the group remembers of its members."""
        meta = self._meta()
        with meta.read() as txn:
            return self._state(txn, meta, name)

    def change(self, name: str, change: Callable[[GroupState], GroupState]) -> GroupState:
        """Replace the state of a group in one transaction."""
        meta = self._meta()

        def write(txn: Any) -> GroupState:
            before = self._state(txn, meta, name)
            after = change(before)
            if after != before:
                txn.put(name.encode(), _pack(after), db=meta.databases["groups"])
            return after

        return meta.update(write)

    def commit(self, name: str, offsets: Mapping[TopicPartition, int], member: str | None = None) -> None:
        """Store offsets for a member that holds the partitions, or for anybody if the group has no live members."""
        check_name("group", name)
        meta = self._meta()

        def write(txn: Any) -> None:
            state = self._state(txn, meta, name)
            if member is None:
                self._check_empty(name, state, "commit for")
            else:
                _check_held(name, state, member, offsets)
            for partition, offset in offsets.items():
                key = _committed_key(name, partition)
                txn.put(key, _OFFSET.pack(offset), db=meta.databases["committed"])

        meta.update(write)

    def committed(self, name: str) -> dict[TopicPartition, int]:
        """Return what the group has committed; nothing for a group that nobody knows."""
        meta = self._meta()
        with meta.read() as txn:
            found = _pairs(txn, meta.databases["committed"], check_name("group", name).encode() + b"\0")
            return {_decoded(key)[1]: _OFFSET.unpack(data)[0] for key, data in found}

    def delete(self, name: str) -> None:
        """Forget a group and its offsets; refused while it has live members."""
        self._check_known(name)
        meta = self._meta()

        def write(txn: Any) -> None:
            self._check_empty(name, self._state(txn, meta, name), "delete")
            txn.delete(name.encode(), db=meta.databases["groups"])
            for key, _ in list(_pairs(txn, meta.databases["committed"], name.encode() + b"\0")):
                txn.delete(key, db=meta.databases["committed"])

        meta.update(write)

    def _state(self, txn: Any, meta: Environment, name: str) -> GroupState:
        stored = txn.get(check_name("group", name).encode(), db=meta.databases["groups"])
        return GroupState() if stored is None else _unpack(stored)

    def _check_known(self, name: str) -> None:
        if check_name("group", name) not in self.names():
            raise BrokerError(f"there is no group {name!r}", hint="see: millstream groups list", group=name)

    def _check_empty(self, name: str, state: GroupState, what: str) -> None:
        live = [member for member, each in state.members.items() if self._is_alive(name, member, each.session_ms)]
        if live:
            raise BrokerError(
                f"cannot {what} group {name!r}, it has {len(live)} live members",
                hint="stop its consumers first",
                group=name,
                members=live,
            )


def _check_held(name: str, state: GroupState, member: str, offsets: Mapping[TopicPartition, int]) -> None:
    known = state.members.get(member)
    lost = sorted(offsets.keys() - (known.held if known else frozenset()))
    if lost:
        raise RebalancedError(
            f"group {name!r} gave {lost[0].topic}[{lost[0].partition}] to another member before this commit",
            hint="poll again: its records will be read from the last commit by their new owner",
            group=name,
            partitions=lost,
        )


def _committed_key(group: str, partition: TopicPartition) -> bytes:
    return b"%s\0%s\0%d" % (group.encode(), partition.topic.encode(), partition.partition)


def _decoded(key: bytes) -> tuple[str, TopicPartition]:
    group, topic, partition = key.split(b"\0")
    return group.decode(), TopicPartition(topic.decode(), int(partition))


def _pairs(txn: Any, database: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    with txn.cursor(db=database) as cursor:
        if cursor.set_range(prefix) if prefix else cursor.first():
            for key, data in cursor.iternext():
                if not key.startswith(prefix):
                    return
                yield key, data
