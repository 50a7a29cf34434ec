"""Consumer groups: members, offsets and lag; move and forget them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from millstream.admin.group_offsets import Move, execute_moves, planned_moves
from millstream.broker import Broker, GroupInfo
from millstream.errors import UnknownTopicError
from millstream.serve.api.params import Name
from millstream.serve.api.topics import Deletion, Done
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.groups import Standing, standings_of


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A live consumer of a group."""

    id: str
    process: int
    topics: list[str]
    partitions: int


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a list; ``is_app`` says that it shows how far an app has read."""

    group: str
    members: int
    topics: list[str]
    lag: int
    is_app: bool


class GroupDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A group with its members and where it stands in each partition."""

    group: str
    is_app: bool
    members: list[Member]
    partitions: list[Standing]


class GroupParams(msgspec.Struct, frozen=True, kw_only=True):
    group: Name


class Reset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to move a group; without ``execute`` the answer only tells what would change."""

    to: Annotated[str, Meta(min_length=1, max_length=100, description="earliest, latest, an offset or a time.")]
    topics: Annotated[list[Name], Meta(max_length=100)] = []
    execute: bool = False


class Moves(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of committed offsets, done or only planned."""

    executed: bool
    moves: list[Move]


def list_groups(site: Site, _: object = None) -> list[GroupSummary]:
    """Return all groups by name."""
    broker, apps = site.place.broker, set(site.place.apps())
    return [_summary(broker, broker.group(name), name in apps) for name in sorted(broker.group_names())]


def get_group(site: Site, params: GroupParams) -> GroupDetail:
    """Return one group."""
    broker = site.place.broker
    info = _known(broker, params.group)
    return GroupDetail(
        group=info.name,
        is_app=info.name in site.place.apps(),
        members=[
            Member(id=one.id, process=one.process, topics=list(one.topics), partitions=len(one.partitions))
            for one in info.members
        ],
        partitions=standings_of(broker, info),
    )


def reset_group(site: Site, params: GroupParams, body: Reset) -> Moves:
    """Move a group, or tell how it would be moved."""
    broker = site.place.broker
    moves = planned_moves(broker, site.place.data_dir, params.group, body.to, body.topics)
    if body.execute:
        execute_moves(broker, params.group, moves)
    return Moves(executed=body.execute, moves=moves)


def delete_group(site: Site, params: GroupParams, body: Deletion) -> Done:
    """Forget a group."""
    info = _known(site.place.broker, params.group)
    if body.confirm != info.name:
        return Done(done=f"nothing was deleted, since {body.confirm!r} is another name")
    site.place.broker.delete_group(info.name)
    return Done(done=f"deleted {info.name}")


def _known(broker: Broker, name: str) -> GroupInfo:
    known = broker.group_names()
    if name not in known:
        raise UnknownTopicError(f"there is no group {name!r}", hint=f"groups: {', '.join(known) or 'none yet'}")
    return broker.group(name)


def _summary(broker: Broker, info: GroupInfo, is_app: bool) -> GroupSummary:
    standings = standings_of(broker, info)
    return GroupSummary(
        group=info.name,
        members=len(info.members),
        topics=list(dict.fromkeys(one.topic for one in standings)),
        lag=sum(one.lag for one in standings),
        is_app=is_app,
    )


OPERATIONS = (
    Operation(method="GET", path="/api/groups", summary="List groups", handler=list_groups, answer=list[GroupSummary]),
    Operation(
        method="GET",
        path="/api/groups/{group}",
        summary="Describe a group",
        handler=get_group,
        params=GroupParams,
        answer=GroupDetail,
    ),
    Operation(
        method="POST",
        path="/api/groups/{group}/reset",
        summary="Move a group to other offsets, or see how it would be moved",
        handler=reset_group,
        params=GroupParams,
        body=Reset,
        answer=Moves,
    ),
    Operation(
        method="POST",
        path="/api/groups/{group}/delete",
        summary="Forget a group",
        handler=delete_group,
        params=GroupParams,
        body=Deletion,
        answer=Done,
    ),
)
