"""Consumer groups: members, offsets and lag; reset offsets, delete groups."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from millstream.admin.group_offsets import Move, execute_moves, planned_moves
from millstream.broker import Broker, GroupInfo
from millstream.errors import UnknownTopicError
from millstream.serve.api.params import Name
from millstream.serve.api.topics import Deletion, Done, not_confirmed
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.groups import PartitionLag, partition_lags


class MemberSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A live consumer of a group."""

    id: str
    process: int
    topics: list[str]
    partitions: int


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a list; ``is_app`` if it is the group of an app and shows its position."""

    group: str
    members: int
    topics: list[str]
    lag: int
    is_app: bool


class GroupDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A group with its members and its position in each partition."""

    group: str
    is_app: bool
    members: list[MemberSummary]
    partitions: list[PartitionLag]


class GroupParams(msgspec.Struct, frozen=True, kw_only=True):
    group: Name


class OffsetReset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new position of a group; without ``execute`` the response only shows what would change."""

    to: Annotated[str, Meta(min_length=1, max_length=100, description="earliest, latest, an offset or a time.")]
    topics: Annotated[list[Name], Meta(max_length=100)] = []
    execute: bool = False


class Moves(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of committed offsets, executed or only planned."""

    executed: bool
    moves: list[Move]


def list_groups(site: Site, _: object = None) -> list[GroupSummary]:
    """Return all groups by name."""
    broker, apps = site.directory.broker, set(site.directory.apps())
    return [_summary(broker, broker.group(name), name in apps) for name in sorted(broker.group_names())]


def get_group(site: Site, params: GroupParams) -> GroupDetail:
    """Return one group."""
    broker = site.directory.broker
    info = _group(broker, params.group)
    return GroupDetail(
        group=info.name,
        is_app=info.name in site.directory.apps(),
        members=[
            MemberSummary(
                id=member.id, process=member.process, topics=list(member.topics), partitions=len(member.partitions)
            )
            for member in info.members
        ],
        partitions=partition_lags(broker, info),
    )


def reset_group(site: Site, params: GroupParams, body: OffsetReset) -> Moves:
    """Reset the offsets of a group, or show what a reset would change."""
    broker = site.directory.broker
    moves = planned_moves(broker, site.directory.path, params.group, body.to, body.topics)
    if body.execute:
        execute_moves(broker, params.group, moves)
    return Moves(executed=body.execute, moves=moves)


def delete_group(site: Site, params: GroupParams, body: Deletion) -> Done:
    """Delete a group."""
    info = _group(site.directory.broker, params.group)
    if body.confirm != info.name:
        return not_confirmed(body)
    site.directory.broker.delete_group(info.name)
    return Done(done=f"deleted {info.name}")


def _group(broker: Broker, name: str) -> GroupInfo:
    names = broker.group_names()
    if name not in names:
        raise UnknownTopicError(f"there is no group {name!r}", hint=f"groups: {', '.join(names) or 'none yet'}")
    return broker.group(name)


def _summary(broker: Broker, info: GroupInfo, is_app: bool) -> GroupSummary:
    lags = partition_lags(broker, info)
    return GroupSummary(
        group=info.name,
        members=len(info.members),
        topics=list(dict.fromkeys(lag.topic for lag in lags)),
        lag=sum(lag.lag for lag in lags),
        is_app=is_app,
    )


OPERATIONS = (
    Operation(method="GET", path="/api/groups", summary="List groups", handler=list_groups, result=list[GroupSummary]),
    Operation(
        method="GET",
        path="/api/groups/{group}",
        summary="Describe a group",
        handler=get_group,
        params=GroupParams,
        result=GroupDetail,
    ),
    Operation(
        method="POST",
        path="/api/groups/{group}/reset",
        summary="Reset the offsets of a group, or show what a reset would change",
        handler=reset_group,
        params=GroupParams,
        body=OffsetReset,
        result=Moves,
    ),
    Operation(
        method="POST",
        path="/api/groups/{group}/delete",
        summary="Delete a group",
        handler=delete_group,
        params=GroupParams,
        body=Deletion,
        result=Done,
    ),
)
