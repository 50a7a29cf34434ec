"""Topics: their settings, partitions and consumer groups; create, change, delete."""

from __future__ import annotations

from itertools import zip_longest
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from millstream.broker import Broker, TopicConfig
from millstream.serve.api.params import Name
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.groups import partition_lags

Bytes = Annotated[int, Meta(ge=1, le=2**50)]
Duration = Annotated[int, Meta(ge=1, le=2**53)]
Partitions = Annotated[int, Meta(ge=1, le=1000)]


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """A group that reads a topic, and its lag in records."""

    group: str
    lag: int


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a list; ``rate`` is in records per second, null until it was measured for a second."""

    topic: str
    partitions: int
    records: int
    bytes: int | None
    rate: float | None
    retention_ms: int | None
    retention_bytes: int | None
    compact: bool
    groups: list[GroupLag]


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a partition; records with ``begin <= offset < end`` can be read."""

    partition: int
    begin: int
    end: int
    bytes: int | None


class TopicDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with its settings and partitions."""

    topic: str
    rate: float | None
    config: TopicConfig
    partitions: list[PartitionState]
    groups: list[GroupLag]


class TopicParams(msgspec.Struct, frozen=True, kw_only=True):
    topic: Name


class NewTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic to create."""

    topic: Name
    partitions: Partitions = 4
    retention_ms: Duration | None = None
    retention_bytes: Bytes | None = None
    compact: bool = False
    timestamps: Literal["create", "append"] = "create"


class TopicChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings to change; null removes a limit, missing settings stay unchanged."""

    partitions: Partitions | UnsetType = UNSET
    retention_ms: Duration | UnsetType | None = UNSET
    retention_bytes: Bytes | UnsetType | None = UNSET
    compact: bool | UnsetType = UNSET


class Deletion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name again, so that nothing is deleted by accident."""

    confirm: Name


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A message that states the outcome."""

    done: str


def not_confirmed(body: Deletion) -> Done:
    """Return the outcome of a deletion whose confirmation is another name."""
    return Done(done=f"nothing was deleted: the name {body.confirm!r} does not match")


def list_topics(site: Site, _: object = None) -> list[TopicSummary]:
    """Return all topics by name."""
    broker = site.directory.broker
    topics = site.directory.map_topics(broker.topic).values()
    site.rates.record({info.name: sum(offsets.end for offsets in info.offsets) for info in topics})
    lags = _lags(broker)
    return [
        TopicSummary(
            topic=info.name,
            partitions=info.partitions,
            records=sum(offsets.end - offsets.begin for offsets in info.offsets),
            bytes=sum(info.bytes) if info.bytes else None,
            rate=site.rates.of(info.name),
            retention_ms=info.config.retention_ms,
            retention_bytes=info.config.retention_bytes,
            compact=info.config.compact,
            groups=lags.get(info.name, []),
        )
        for info in sorted(topics, key=lambda info: info.name)
    ]


def get_topic(site: Site, params: TopicParams) -> TopicDetail:
    """Return one topic."""
    broker = site.directory.broker
    info = broker.topic(params.topic)
    return TopicDetail(
        topic=info.name,
        rate=site.rates.of(info.name),
        config=info.config,
        partitions=[
            PartitionState(partition=partition, begin=offsets.begin, end=offsets.end, bytes=size)
            for partition, (offsets, size) in enumerate(zip_longest(info.offsets, info.bytes))
        ],
        groups=_lags(broker).get(info.name, []),
    )


def create_topic(site: Site, _: object, body: NewTopic) -> Done:
    settings = {name: value for name, value in msgspec.structs.asdict(body).items() if name != "topic"}
    site.directory.broker.create_topic(body.topic, TopicConfig(**settings))
    return Done(done=f"created {body.topic}")


def alter_topic(site: Site, params: TopicParams, body: TopicChanges) -> Done:
    changes = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
    site.directory.broker.alter_topic(params.topic, **changes)
    return Done(done=f"changed {params.topic}: {', '.join(changes) or 'nothing'}")


def delete_topic(site: Site, params: TopicParams, body: Deletion) -> Done:
    info = site.directory.broker.topic(params.topic)
    if body.confirm != info.name:
        return not_confirmed(body)
    site.directory.broker.delete_topic(info.name)
    return Done(done=f"deleted {info.name}")


def _lags(broker: Broker) -> dict[str, list[GroupLag]]:
    """Return the groups that read each topic."""
    lags: dict[str, dict[str, int]] = {}
    for name in broker.group_names():
        for partition in partition_lags(broker, broker.group(name)):
            groups = lags.setdefault(partition.topic, {})
            groups[name] = groups.get(name, 0) + partition.lag
    return {topic: [GroupLag(group=group, lag=lag) for group, lag in groups.items()] for topic, groups in lags.items()}


OPERATIONS = (
    Operation(method="GET", path="/api/topics", summary="List topics", handler=list_topics, result=list[TopicSummary]),
    Operation(
        method="POST", path="/api/topics", summary="Create a topic", handler=create_topic, body=NewTopic, result=Done
    ),
    Operation(
        method="GET",
        path="/api/topics/{topic}",
        summary="Describe a topic",
        handler=get_topic,
        params=TopicParams,
        result=TopicDetail,
    ),
    Operation(
        method="POST",
        path="/api/topics/{topic}/settings",
        summary="Change the settings of a topic",
        handler=alter_topic,
        params=TopicParams,
        body=TopicChanges,
        result=Done,
    ),
    Operation(
        method="POST",
        path="/api/topics/{topic}/delete",
        summary="Delete a topic with all its records",
        handler=delete_topic,
        params=TopicParams,
        body=Deletion,
        result=Done,
    ),
)
