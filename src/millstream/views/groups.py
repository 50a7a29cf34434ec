"""The committed offsets and the lag of consumer groups."""

from __future__ import annotations

import msgspec

from millstream.broker import Broker, GroupInfo
from millstream.errors import UnknownTopicError
from millstream.records import TopicPartition


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """The lag of a group in one partition: how many records it has not read.

    Without a committed offset, the lag is the number of records in the partition.
    """

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int
    member: str | None


def partition_lags(broker: Broker, info: GroupInfo) -> list[PartitionLag]:
    """Return the lag of a group in all partitions of the topics that it has committed or subscribed to."""
    owners = {partition: member.id for member in info.members for partition in member.partitions}
    subscribed = {topic for member in info.members for topic in member.topics}
    lags: list[PartitionLag] = []
    for topic in sorted(subscribed | {partition.topic for partition in info.committed}):
        try:
            offsets = broker.offsets(topic)
        except UnknownTopicError:  # not created yet, or being deleted, together with its committed offsets
            continue
        for number, bounds in enumerate(offsets):
            partition = TopicPartition(topic, number)
            committed = info.committed.get(partition)
            lags.append(
                PartitionLag(
                    topic=topic,
                    partition=number,
                    committed=committed,
                    end=bounds.end,
                    lag=max(0, bounds.end - (bounds.begin if committed is None else committed)),
                    member=owners.get(partition),
                )
            )
    return lags
