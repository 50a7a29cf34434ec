"""The position and lag of consumer groups."""

from __future__ import annotations

import msgspec

from millstream.broker import Broker, GroupInfo
from millstream.errors import UnknownTopicError
from millstream.records import TopicPartition


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group stands in one partition; ``lag`` is how many records it has not read.

    Without a committed offset, it has all records before it that are there.
    """

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int
    member: str | None


def standings_of(broker: Broker, info: GroupInfo) -> list[Standing]:
    """Return where the group stands in all partitions of the topics that it has committed or subscribed."""
    owners = {at: member.id for member in info.members for at in member.partitions}
    subscribed = {topic for member in info.members for topic in member.topics}
    found: list[Standing] = []
    for topic in sorted(subscribed | {at.topic for at in info.committed}):
        try:
            offsets = broker.offsets(topic)
        except UnknownTopicError:  # not made yet, or deleted in this moment: its commits will be gone too
            continue
        for at, there in ((TopicPartition(topic, number), there) for number, there in enumerate(offsets)):
            committed = info.committed.get(at)
            read = there.begin if committed is None else committed
            found.append(
                Standing(
                    topic=topic,
                    partition=at.partition,
                    committed=committed,
                    end=there.end,
                    lag=max(0, there.end - read),
                    member=owners.get(at),
                )
            )
    return found
