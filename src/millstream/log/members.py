"""Members of a consumer group in several processes.

A member holds a file lock that ends with its process, so that the others notice a crash at once. It touches the file
whenever it refreshes, so that they notice when it hangs. The member that notices a change reassigns the partitions. A
partition moves in two steps: its owner commits and releases it, then the new owner takes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from millstream.errors import DefinitionError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.names import check_name
from millstream.log.assignment import assign
from millstream.log.groups import GroupState, LogGroups, MemberState
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.broker import ReleaseCallback

_CHECK_SECONDS = 0.2
_TOUCH_SECONDS = 0.5


def is_alive(root: Path, group: str, member: str, session_ms: int) -> bool:
    """Whether a member's process is alive and has polled within its session timeout."""
    path = _lock_path(root, group, member)
    try:
        idle_seconds = time() - path.stat().st_mtime
    except FileNotFoundError:
        return False
    if idle_seconds * 1000 > session_ms:
        return False
    probe = FileLock(path)
    if not probe.acquire():
        return True
    path.unlink(missing_ok=True)
    probe.release()
    return False


def _lock_path(root: Path, group: str, member: str) -> Path:
    return root / "members" / check_name("group", group) / check_name("member", member)


class LogMember:
    """One consumer in a group, used by one thread."""

    def __init__(
        self,
        groups: LogGroups,
        group: str,
        topics: Sequence[str],
        partitions: Callable[[Collection[str]], Mapping[str, int]],
        session_ms: int,
    ) -> None:
        if not topics:
            raise DefinitionError(f"a member of group {group!r} reads no topic", hint="name at least one topic")
        self.id = uuid4().hex
        self._groups = groups
        self._group = group
        self._partitions = partitions
        self._initial = MemberState(process=os.getpid(), topics=tuple(topics), session_ms=session_ms)
        self._held: frozenset[TopicPartition] = frozenset()
        self._generation = -1
        self._checked_at = self._touched_at = float("-inf")
        self._lock = FileLock(_lock_path(groups.root, group, self.id))
        self._lock.acquire()
        self._rebalance()

    @property
    def generation(self) -> int:
        """The generation of the group as this member last saw it."""
        return self._generation

    def refresh(self, release: ReleaseCallback) -> frozenset[TopicPartition]:
        """Signal liveness and return the held partitions; ``release`` is called with partitions to be revoked."""
        self._touch()
        if monotonic() - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = monotonic()
            self._rebalance_if_changed()
        state = self._groups.state(self._group)
        me = state.members.get(self.id)
        if me is None:  # this member was removed from the group after its session timeout
            if self._held:
                release(self._held)
            self._held = frozenset()
            state = self._rebalance()
            me = state.members[self.id]
        self._generation = state.generation
        if me.held != me.wanted:
            self._move_partitions(me, release)
        else:
            self._held = me.held
        return self._held

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of partitions held by this member."""
        self._touch()
        self._groups.commit(self._group, offsets, self.id)

    def leave(self) -> None:
        """Leave the group, so that other members take over immediately."""

        def without_self(state: GroupState) -> GroupState:
            others = {member_id: member for member_id, member in state.members.items() if member_id != self.id}
            return self._with_members(state, others) if self.id in state.members else state

        self._groups.change(self._group, without_self)
        self._lock.path.unlink(missing_ok=True)
        self._lock.release()
        self._held = frozenset()

    def _touch(self) -> None:
        if monotonic() - self._touched_at >= _TOUCH_SECONDS:
            self._touched_at = monotonic()
            if self._lock.path.exists():
                os.utime(self._lock.path)

    def _rebalance_if_changed(self) -> None:
        """Reassign partitions if a member has died or hangs, or the partitions of a topic have changed."""
        state = self._groups.state(self._group)
        assigned = {partition for member in state.members.values() for partition in member.wanted}
        counts = self._partition_counts(state.members.values())
        existing = {TopicPartition(topic, partition) for topic, count in counts.items() for partition in range(count)}
        others = [(member_id, member) for member_id, member in state.members.items() if member_id != self.id]
        dead = [member_id for member_id, member in others if not self._is_alive(member_id, member.session_ms)]
        if dead or assigned != existing:
            self._rebalance()

    def _is_alive(self, member: str, session_ms: int) -> bool:
        return is_alive(self._groups.root, self._group, member, session_ms)

    def _rebalance(self) -> GroupState:
        def change(state: GroupState) -> GroupState:
            live = {
                member_id: member
                for member_id, member in state.members.items()
                if member_id == self.id or self._is_alive(member_id, member.session_ms)
            }
            return self._with_members(state, {**live, self.id: live.get(self.id, self._initial)})

        return self._groups.change(self._group, change)

    def _with_members(self, state: GroupState, members: Mapping[str, MemberState]) -> GroupState:
        counts = self._partition_counts(members.values())
        topics = {member_id: member.topics for member_id, member in members.items()}
        previous = {member_id: member.wanted for member_id, member in members.items()}
        wanted = assign(counts, topics, previous)
        updated = {
            member_id: msgspec.structs.replace(member, wanted=wanted[member_id])
            for member_id, member in sorted(members.items())
        }
        if updated == state.members:
            return state
        return GroupState(generation=state.generation + 1, members=updated)

    def _partition_counts(self, members: Collection[MemberState]) -> Mapping[str, int]:
        return self._partitions({topic for member in members for topic in member.topics})

    def _move_partitions(self, me: MemberState, release: ReleaseCallback) -> None:
        """Release the partitions that are no longer wanted, then take wanted partitions that no other member holds."""
        lost = me.held - me.wanted
        if lost:
            release(lost)

        def change(state: GroupState) -> GroupState:
            me = state.members.get(self.id)
            if me is None:
                return state
            taken = {p for member_id, member in state.members.items() if member_id != self.id for p in member.held}
            held = frozenset((me.held & me.wanted) | (me.wanted - taken))
            members = {**state.members, self.id: msgspec.structs.replace(me, held=held)}
            return GroupState(generation=state.generation, members=members)

        state = self._groups.change(self._group, change)
        self._held = state.members[self.id].held if self.id in state.members else frozenset()
