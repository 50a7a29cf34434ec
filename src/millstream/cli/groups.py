"""``millstream groups``: show consumer groups and reset their offsets."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from millstream.admin.group_offsets import Move, execute_moves, planned_moves
from millstream.broker import Broker, GroupInfo, ShareGroupInfo, SupportsShareGroupAdmin
from millstream.cli.command import CommandGroup
from millstream.cli.connection import complete_group, complete_topic, connected
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.text import format_count
from millstream.foundation.times import format_timestamp
from millstream.views.groups import PartitionLag, partition_lags
from millstream.views.share_groups import (
    SharedPartitionLag,
    share_group,
    share_group_summary,
    share_groups,
    shared_partition_lags,
)

group_argument = click.argument("group", shell_complete=complete_group)


@click.group(cls=CommandGroup)
def groups() -> None:
    """Show consumer groups and reset their offsets.

    The group of an app has the name of the app and shows its position.
    """


@groups.command("list", examples=["millstream groups list", "millstream groups list --json"])
@json_option
@pass_settings
def list_(settings: CommonOptions, as_json: bool) -> None:
    """List all consumer groups with their members and lag, and share groups with their jobs."""
    with connected(settings) as broker:
        summaries = [_summary(broker, broker.group(name)) for name in broker.group_names()]
        shared = [_share_summary(broker, info) for info in share_groups(broker)]
    if as_json:
        show_json([*summaries, *shared])
        return
    for listed in (summaries, shared):
        if listed:
            show_table(list(listed[0]), [list(summary.values()) for summary in listed])
    if not summaries and not shared:
        show_message("there are no groups yet")


@groups.command(examples=["millstream groups describe word-count", "millstream groups describe audit --json"])
@group_argument
@json_option
@pass_settings
def describe(settings: CommonOptions, group: str, as_json: bool) -> None:
    """Show the committed offset, end offset, lag and member of each partition that a group reads.

    For a share group, show how many records of each partition wait or are in flight.
    """
    lags: Sequence[PartitionLag | SharedPartitionLag]
    with connected(settings) as broker:
        shared = share_group(broker, group)
        info: GroupInfo | ShareGroupInfo = broker.group(group) if shared is None else shared
        lags = partition_lags(broker, info) if isinstance(info, GroupInfo) else shared_partition_lags(broker, info)
    if as_json:
        members = [{"id": member.id, "process": member.process, "topics": member.topics} for member in info.members]
        show_json({"group": info.name, "members": members, "partitions": lags})
        return
    for member in info.members:
        click.echo(f"member {member.id} (process {member.process}) reads {', '.join(member.topics)}")
    fields = PartitionLag if shared is None else SharedPartitionLag
    show_table(fields.__struct_fields__, [msgspec.structs.astuple(lag) for lag in lags])


@groups.command(
    examples=[
        "millstream groups reset audit --to earliest",
        "millstream groups reset audit --to 2025-01-31T12:00 --topic orders --execute",
        'millstream groups reset audit --to "1 h" --execute',
    ]
)
@group_argument
@click.option("--to", required=True, metavar="OFFSET", help="earliest, latest, an offset, a time, or a duration ago.")
@click.option(
    "--topic", "names", multiple=True, shell_complete=complete_topic, help="Only this topic; can be repeated."
)
@click.option("--execute", is_flag=True, help="Make the change instead of showing it.")
@json_option
@pass_settings
def reset(settings: CommonOptions, group: str, to: str, names: tuple[str, ...], execute: bool, as_json: bool) -> None:
    """Reset the offsets of a group without live members. Without --execute the change is only shown.

    A share group delivers all records from there on again. With --topic, offsets can also be set for topics that the
    group has not read yet.
    """
    with connected(settings) as broker:
        moves = planned_moves(broker, settings.data_dir, group, to, names)
        if execute:
            execute_moves(broker, group, moves)
    if as_json:
        show_json({"executed": execute, "moves": moves})
    else:
        show_table(Move.__struct_fields__, [msgspec.structs.astuple(move) for move in moves])
    show_message("done" if execute else "nothing was changed; add --execute to make the change")


@groups.command(examples=["millstream groups delete audit", "millstream groups delete audit --yes"])
@group_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_settings
def delete(settings: CommonOptions, group: str, yes: bool) -> None:
    """Delete a group without live members, with its offsets."""
    with connected(settings) as broker:
        shared = share_group(broker, group)
        read = broker.group(group).committed if shared is None else shared.partitions
        partitions = format_count(len(read), "partition")
        if not yes and not click.confirm(f"Delete group {group} with offsets of {partitions}?", err=True):
            show_message("nothing was deleted")
            return
        if shared is not None and isinstance(broker, SupportsShareGroupAdmin):
            broker.delete_share_group(group)
        else:
            broker.delete_group(group)
    show_message(f"deleted {group}")


def _summary(broker: Broker, info: GroupInfo) -> dict[str, str | int]:
    lags = partition_lags(broker, info)
    return {
        "group": info.name,
        "members": len(info.members),
        "topics": ", ".join(dict.fromkeys(lag.topic for lag in lags)),
        "lag": sum(lag.lag for lag in lags),
    }


def _share_summary(broker: Broker, info: ShareGroupInfo) -> dict[str, str | int]:
    summary = share_group_summary(broker, info)
    return {
        "share_group": summary.group,
        "members": summary.members,
        "topics": ", ".join(summary.topics),
        "waiting": summary.waiting,
        "in_flight": summary.in_flight,
        "redelivered": summary.redelivered,
        "oldest": "-" if summary.oldest is None else format_timestamp(summary.oldest),
        "dead": summary.dead,
    }
