"""Share groups and how far they are."""

from __future__ import annotations

import msgspec

from millstream.broker import Broker, ShareGroupInfo, SupportsShareGroupAdmin


class SharedPartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a share group in one partition; all records before ``start`` are done."""

    topic: str
    partition: int
    start: int
    end: int
    waiting: int
    in_flight: int
    redelivered: int
    oldest: int | None
    """The timestamp of the first record that is not done."""
    dead: int
    expired: int


class ShareGroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A share group in a list, summed up over its partitions."""

    group: str
    members: int
    topics: list[str]
    waiting: int
    in_flight: int
    redelivered: int
    oldest: int | None
    dead: int


def share_groups(broker: Broker) -> list[ShareGroupInfo]:
    """Return all share groups by name; Kafka's client cannot list them."""
    if not isinstance(broker, SupportsShareGroupAdmin):
        return []
    return [broker.share_group(name) for name in broker.share_group_names()]


def share_group(broker: Broker, name: str) -> ShareGroupInfo | None:
    """Return a share group, or None if there is none of that name."""
    if not isinstance(broker, SupportsShareGroupAdmin) or name not in broker.share_group_names():
        return None
    return broker.share_group(name)


def shared_partition_lags(broker: Broker, info: ShareGroupInfo) -> list[SharedPartitionLag]:
    """Return the progress of a share group in all its partitions."""
    return [
        SharedPartitionLag(
            **msgspec.structs.asdict(partition),
            oldest=broker.timestamp_at(partition.topic, partition.partition, partition.start, partition.end)
            if partition.start < partition.end
            else None,
        )
        for partition in info.partitions
    ]


def share_group_summary(broker: Broker, info: ShareGroupInfo) -> ShareGroupSummary:
    """Sum up a share group."""
    lags = shared_partition_lags(broker, info)
    return ShareGroupSummary(
        group=info.name,
        members=len(info.members),
        topics=list(dict.fromkeys(lag.topic for lag in lags)),
        waiting=sum(lag.waiting for lag in lags),
        in_flight=sum(lag.in_flight for lag in lags),
        redelivered=sum(lag.redelivered for lag in lags),
        oldest=min((lag.oldest for lag in lags if lag.oldest is not None), default=None),
        dead=sum(lag.dead for lag in lags),
    )
