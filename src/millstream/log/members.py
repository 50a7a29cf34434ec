"""Members of a consumer group in several processes.

A member holds a lock that dies with its process, so that the others notice a crash at once, and touches its file
whenever it is asked for its partitions, so that they notice when it hangs. Whoever notices a change shares out the
partitions anew. A partition moves in two steps: its owner commits and lets go, then the next one takes it.
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
from millstream.foundation.names import check_name
from millstream.foundation.storage import FileLock
from millstream.log.assignment import assign
from millstream.log.groups import Groups, GroupState, MemberState
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.broker import ReleaseCallback

_LOOK_AROUND_SECONDS = 0.2
_TOUCH_SECONDS = 0.5


def is_alive(root: Path, group: str, member: str, session_ms: int) -> bool:
    """Whether a member's process lives and has polled within its session timeout."""
    path = _lock_path(root, group, member)
    try:
        silent = time() - path.stat().st_mtime
    except FileNotFoundError:
        return False
    if silent * 1000 > session_ms:
        return False
    probe = FileLock(path)
    if not probe.acquire():
        return True
    path.unlink(missing_ok=True)
    probe.release()
    return False


def _lock_path(root: Path, group: str, member: str) -> Path:
    return root / "members" / check_name("group", group) / check_name("member", member)


class Member:
    """One consumer in a group, used by one thread."""

    def __init__(
        self,
        groups: Groups,
        group: str,
        topics: Sequence[str],
        partitions: Callable[[Collection[str]], Mapping[str, int]],
        session_ms: int,
    ) -> None:
        if not topics:
            raise DefinitionError(f"a member of group {group!r} reads no topic", hint="name at least one")
        self.id = uuid4().hex
        self._groups = groups
        self._group = group
        self._partitions = partitions
        self._me = MemberState(process=os.getpid(), topics=tuple(topics), session_ms=session_ms)
        self._held: frozenset[TopicPartition] = frozenset()
        self._generation = -1
        self._looked = self._touched = float("-inf")
        self._lock = FileLock(_lock_path(groups.root, group, self.id))
        self._lock.acquire()
        self._rebalance()

    @property
    def generation(self) -> int:
        """The generation of the group as this member last saw it."""
        return self._generation

    def refresh(self, release: ReleaseCallback) -> frozenset[TopicPartition]:
        """Show life and return the partitions held now; ``release`` gets those to be given up while it may commit."""
        self._touch()
        if monotonic() - self._looked >= _LOOK_AROUND_SECONDS:
            self._looked = monotonic()
            self._look_around()
        state = self._groups.state(self._group)
        me = state.members.get(self.id)
        if me is None:  # we hung for too long and were put out
            if self._held:
                release(self._held)
            self._held = frozenset()
            state = self._rebalance()
            me = state.members[self.id]
        self._generation = state.generation
        if me.held != me.wanted:
            self._move(me, release)
        else:
            self._held = me.held
        return self._held

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of partitions held by this member."""
        self._touch()
        self._groups.commit(self._group, offsets, self.id)

    def leave(self) -> None:
        """Leave the group, so that others take over without waiting."""

        def without_me(state: GroupState) -> GroupState:
            left = {member: each for member, each in state.members.items() if member != self.id}
            return self._shared_out(state, left) if self.id in state.members else state

        self._groups.change(self._group, without_me)
        self._lock.path.unlink(missing_ok=True)
        self._lock.release()
        self._held = frozenset()

    def _touch(self) -> None:
        if monotonic() - self._touched >= _TOUCH_SECONDS:
            self._touched = monotonic()
            if self._lock.path.exists():
                os.utime(self._lock.path)

    def _look_around(self) -> None:
        """Share out anew if a member died or hangs, or a topic has more partitions than are shared out."""
        state = self._groups.state(self._group)
        shared = {partition for each in state.members.values() for partition in each.wanted}
        counts = self._counts(state.members.values())
        there = {TopicPartition(topic, partition) for topic, count in counts.items() for partition in range(count)}
        dead = [m for m, each in state.members.items() if m != self.id and not self._is_alive(m, each.session_ms)]
        if dead or shared != there:
            self._rebalance()

    def _is_alive(self, member: str, session_ms: int) -> bool:
        return is_alive(self._groups.root, self._group, member, session_ms)

    def _rebalance(self) -> GroupState:
        def change(state: GroupState) -> GroupState:
            living = {
                member: each
                for member, each in state.members.items()
                if member == self.id or self._is_alive(member, each.session_ms)
            }
            return self._shared_out(state, {**living, self.id: living.get(self.id, self._me)})

        return self._groups.change(self._group, change)

    def _shared_out(self, state: GroupState, members: Mapping[str, MemberState]) -> GroupState:
        counts = self._counts(members.values())
        topics = {member: each.topics for member, each in members.items()}
        before = {member: each.wanted for member, each in members.items()}
        wanted = assign(counts, topics, before)
        after = {
            member: msgspec.structs.replace(each, wanted=wanted[member]) for member, each in sorted(members.items())
        }
        if after == state.members:
            return state
        return GroupState(generation=state.generation + 1, members=after)

    def _counts(self, members: Collection[MemberState]) -> Mapping[str, int]:
        return self._partitions({topic for each in members for topic in each.topics})

    def _move(self, me: MemberState, release: ReleaseCallback) -> None:
        """Give up what is no longer wanted, then take what nobody else holds any more."""
        lost = me.held - me.wanted
        if lost:
            release(lost)

        def change(state: GroupState) -> GroupState:
            now = state.members.get(self.id)
            if now is None:
                return state
            taken = {p for member, each in state.members.items() if member != self.id for p in each.held}
            held = frozenset((now.held & now.wanted) | (now.wanted - taken))
            members = {**state.members, self.id: msgspec.structs.replace(now, held=held)}
            return GroupState(generation=state.generation, members=members)

        state = self._groups.change(self._group, change)
        self._held = state.members[self.id].held if self.id in state.members else frozenset()
