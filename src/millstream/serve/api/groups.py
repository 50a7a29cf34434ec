"""Consumer groups: members, offsets and lag; reset offsets, delete groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from millstream.admin.group_offsets import Move, execute_moves, planned_moves
from millstream.broker import Broker, GroupInfo, GroupMember, ShareGroupInfo, SupportsShareGroupAdmin
from millstream.errors import UnknownTopicError
from millstream.serve.api.params import Name
from millstream.serve.api.topics import Deletion, Done, not_confirmed
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.groups import PartitionLag, partition_lags
from millstream.views.share_groups import (
    SharedPartitionLag,
    ShareGroupSummary,
    share_group,
    share_group_summary,
    share_groups,
    shared_partition_lags,
)


class MemberSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A live consumer of a group."""

    id: str
    process: int
    topics: list[str]
    partitions: int


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A group in a list; ``is_app`` if it is the group of an app and shows its position.

    ``share`` describes the jobs of a share group; its lag is the number of jobs that are not done.
    """

    group: str
    members: int
    topics: list[str]
    lag: int
    is_app: bool
    share: ShareGroupSummary | None = None


class GroupDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A group with its members and its position in each partition."""

    group: str
    is_app: bool
    members: list[MemberSummary]
    partitions: list[PartitionLag]
    shared_partitions: list[SharedPartitionLag] = []
    """Those of a share group; it has no ``partitions``."""
    is_share: bool = False


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
    groups = [_summary(broker, broker.group(name), name in apps) for name in broker.group_names()]
    groups += [_share_summary(broker, info) for info in share_groups(broker)]
    return sorted(groups, key=lambda group: group.group)


def get_group(site: Site, params: GroupParams) -> GroupDetail:
    """Return one group."""
    broker = site.directory.broker
    shared = share_group(broker, params.group)
    if shared is not None:
        return GroupDetail(
            group=shared.name,
            is_app=False,
            members=_members(shared.members),
            partitions=[],
            shared_partitions=shared_partition_lags(broker, shared),
            is_share=True,
        )
    info = _group(broker, params.group)
    return GroupDetail(
        group=info.name,
        is_app=info.name in site.directory.apps(),
        members=_members(info.members),
        partitions=partition_lags(broker, info),
    )


def _members(members: Sequence[GroupMember]) -> list[MemberSummary]:
    return [
        MemberSummary(
            id=member.id, process=member.process, topics=list(member.topics), partitions=len(member.partitions)
        )
        for member in members
    ]


def reset_group(site: Site, params: GroupParams, body: OffsetReset) -> Moves:
    """Reset the offsets of a group, or show what a reset would change."""
    broker = site.directory.broker
    moves = planned_moves(broker, site.directory.path, params.group, body.to, body.topics)
    if body.execute:
        execute_moves(broker, params.group, moves)
    return Moves(executed=body.execute, moves=moves)


def delete_group(site: Site, params: GroupParams, body: Deletion) -> Done:
    """Delete a group."""
    broker = site.directory.broker
    shared = share_group(broker, params.group)
    name = _group(broker, params.group).name if shared is None else shared.name
    if body.confirm != name:
        return not_confirmed(body)
    if shared is not None and isinstance(broker, SupportsShareGroupAdmin):
        broker.delete_share_group(name)
    else:
        broker.delete_group(name)
    return Done(done=f"deleted {name}")


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


def _share_summary(broker: Broker, info: ShareGroupInfo) -> GroupSummary:
    share = share_group_summary(broker, info)
    return GroupSummary(
        group=share.group,
        members=share.members,
        topics=share.topics,
        lag=share.waiting + share.in_flight,
        is_app=False,
        share=share,
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
