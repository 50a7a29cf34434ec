"""Committed offsets and members of groups, in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from millstream.broker import TopicConfig
from millstream.errors import BrokerError, DefinitionError, InvalidNameError, RebalancedError, UnknownTopicError
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.log.members import LogMember


@pytest.fixture
def members(log: EmbeddedLog, topic: str) -> Iterator[list[LogMember]]:
    """Two members of the group "readers" on a topic with two partitions, after rebalancing."""
    both = [log.join_group("readers", [topic]) for _ in range(2)]
    settle(both)
    yield both
    for member in both:
        member.leave()


def settle(members: list[LogMember]) -> list[set[int]]:
    """Refresh until no partition moves, and return the partitions of each member."""
    owned: list[frozenset[TopicPartition]] = []
    while owned != (owned := [member.refresh(lambda lost: None) for member in members]):
        pass
    return [{partition.partition for partition in partitions} for partitions in owned]


def test_commits_are_stored_per_group(log: EmbeddedLog, topic: str) -> None:
    log.commit("one", {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 7})
    log.commit("one", {TopicPartition(topic, 0): 6})
    log.commit("one-more", {TopicPartition(topic, 0): 1})
    assert log.committed("one") == {TopicPartition(topic, 0): 6, TopicPartition(topic, 1): 7}
    assert log.committed("unknown") == {}
    assert log.group_names() == ["one", "one-more"]


def test_deleting_a_topic_deletes_its_commits(log: EmbeddedLog, topic: str) -> None:
    log.create_topic("other", TopicConfig())
    log.commit("one", {TopicPartition(topic, 0): 5, TopicPartition("other", 0): 7})
    log.delete_topic(topic)
    assert log.committed("one") == {TopicPartition("other", 0): 7}


def test_a_deleted_group_no_longer_exists(log: EmbeddedLog, topic: str) -> None:
    log.commit("one", {TopicPartition(topic, 0): 5})
    log.delete_group("one")
    assert log.group_names() == []
    for call in (log.group, log.delete_group):
        with pytest.raises(BrokerError, match="there is no group 'one'"):
            call("one")


def test_names_of_groups_are_checked(log: EmbeddedLog, topic: str) -> None:
    with pytest.raises(InvalidNameError):
        log.commit("../up", {})
    with pytest.raises(InvalidNameError):
        log.join_group("a/b", [topic])


def test_members_share_the_partitions(log: EmbeddedLog, topic: str, members: list[LogMember]) -> None:
    assert sorted(map(sorted, settle(members))) == [[0], [1]]
    info = log.group("readers")
    assert {member.id for member in info.members} == {member.id for member in members}
    assert {member.process for member in info.members} == {os.getpid()}
    assert sorted(p.partition for member in info.members for p in member.partitions) == [0, 1]
    assert info.generation == 2


def test_a_partition_is_released_before_it_moves(log: EmbeddedLog, topic: str) -> None:
    first = log.join_group("g", [topic])
    assert settle([first]) == [{0, 1}]
    second = log.join_group("g", [topic])
    assert second.refresh(lambda lost: None) == frozenset()
    released: list[TopicPartition] = []

    def release(lost: frozenset[TopicPartition]) -> None:
        released.extend(lost)
        first.commit(dict.fromkeys(lost, 3))

    first.refresh(release)
    assert second.refresh(lambda lost: None) == frozenset(released)
    assert log.committed("g") == dict.fromkeys(released, 3)
    first.leave()
    second.leave()


def test_only_the_owner_can_commit(log: EmbeddedLog, topic: str, members: list[LogMember]) -> None:
    mine, others = ({next(iter(member.refresh(lambda lost: None))): 1} for member in members)
    members[0].commit(mine)
    with pytest.raises(RebalancedError, match=r"assigned lines\[.\] to another member before this commit"):
        members[0].commit(others)
    assert log.committed("readers") == mine


def test_a_group_with_members_cannot_be_moved_or_deleted(
    log: EmbeddedLog, topic: str, members: list[LogMember]
) -> None:
    with pytest.raises(BrokerError, match="group 'readers', it has 2 live members; stop its consumers first"):
        log.commit("readers", {TopicPartition(topic, 0): 1})
    with pytest.raises(BrokerError, match="cannot delete group 'readers'"):
        log.delete_group("readers")
    for member in members:
        member.leave()
    log.commit("readers", {TopicPartition(topic, 0): 1})
    log.delete_group("readers")


def test_when_a_member_leaves_the_other_takes_its_partitions(members: list[LogMember]) -> None:
    members[0].leave()
    assert settle(members[1:]) == [{0, 1}]


def test_a_member_that_hangs_is_removed_and_rejoins(log: EmbeddedLog, topic: str) -> None:
    slow = log.join_group("g", [topic], session_timeout="1 ms")
    assert settle([slow]) == [{0, 1}]
    lock = slow._lock.path
    os.utime(lock, (0, 0))  # as if it had not polled for a long time
    quick = log.join_group("g", [topic], session_timeout="1 h")
    assert settle([quick]) == [{0, 1}]
    with pytest.raises(RebalancedError):
        slow.commit({TopicPartition(topic, 0): 1})
    lost: list[TopicPartition] = []
    slow._initial = quick._initial  # a session timeout that the test cannot exceed
    slow.refresh(lost.extend)
    assert len(lost) == 2
    assert sorted(map(sorted, settle([slow, quick]))) == [[0], [1]]
    slow.leave()
    quick.leave()


def test_new_partitions_are_assigned(log: EmbeddedLog, topic: str, members: list[LogMember]) -> None:
    log.alter_topic(topic, partitions=4)
    for member in members:
        member._checked_at = float("-inf")
    assert sorted(map(len, settle(members))) == [2, 2]


def test_the_partitions_of_a_deleted_topic_are_revoked(log: EmbeddedLog, topic: str) -> None:
    log.create_topic("other", TopicConfig(partitions=1))
    member = log.join_group("g", [topic, "other"])
    assert len(member.refresh(lambda lost: None)) == 3
    log.delete_topic("other")
    member._checked_at = float("-inf")
    member.refresh(lambda lost: None)
    assert settle([member]) == [{0, 1}]
    member.leave()


def test_joining_without_an_existing_topic_is_refused(log: EmbeddedLog) -> None:
    with pytest.raises(UnknownTopicError):
        log.join_group("g", ["nowhere"])
    with pytest.raises(DefinitionError, match="reads no topic"):
        log.join_group("g", [])
