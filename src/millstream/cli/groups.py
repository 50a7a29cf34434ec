"""``millstream groups``: how far consumer groups are, and how to move them."""

from __future__ import annotations

import click
import msgspec

from millstream.admin.group_offsets import Move, execute_moves, planned_moves
from millstream.broker import Broker, GroupInfo
from millstream.cli.command import Group
from millstream.cli.connection import complete_group, complete_topic, connected
from millstream.cli.output import json_option, say, show_json, show_table
from millstream.cli.settings import Settings, pass_settings
from millstream.foundation.text import format_count
from millstream.views.groups import Standing, standings_of

group_argument = click.argument("group", shell_complete=complete_group)


@click.group(cls=Group)
def groups() -> None:
    """See how far consumer groups are, and move them.

    The group of an app has the app's name and shows how far the app has read.
    """


@groups.command("list", examples=["millstream groups list", "millstream groups list --json"])
@json_option
@pass_settings
def list_(settings: Settings, as_json: bool) -> None:
    """List all consumer groups with their members and how many records they have not read."""
    with connected(settings) as broker:
        found = [_summary(broker, broker.group(name)) for name in broker.group_names()]
    if as_json:
        show_json(found)
    elif found:
        show_table(list(found[0]), [list(one.values()) for one in found])
    else:
        say("there are no groups yet")


@groups.command(examples=["millstream groups describe word-count", "millstream groups describe audit --json"])
@group_argument
@json_option
@pass_settings
def describe(settings: Settings, group: str, as_json: bool) -> None:
    """Show the committed offset, the end and the lag of each partition that a group reads, and who reads it."""
    with connected(settings) as broker:
        info = broker.group(group)
        standings = standings_of(broker, info)
    if as_json:
        members = [{"id": member.id, "process": member.process, "topics": member.topics} for member in info.members]
        show_json({"group": info.name, "members": members, "partitions": standings})
        return
    for member in info.members:
        click.echo(f"member {member.id} (process {member.process}) reads {', '.join(member.topics)}")
    show_table(Standing.__struct_fields__, [msgspec.structs.astuple(one) for one in standings])


@groups.command(
    examples=[
        "millstream groups reset audit --to earliest",
        "millstream groups reset audit --to 2025-01-31T12:00 --topic orders --execute",
        'millstream groups reset audit --to "1 h" --execute',
    ]
)
@group_argument
@click.option("--to", required=True, metavar="WHERE", help="earliest, latest, an offset, a time, or a duration ago.")
@click.option(
    "--topic", "names", multiple=True, shell_complete=complete_topic, help="Only this topic; can be repeated."
)
@click.option("--execute", is_flag=True, help="Do it, rather than show what would be done.")
@json_option
@pass_settings
def reset(settings: Settings, group: str, to: str, names: tuple[str, ...], execute: bool, as_json: bool) -> None:
    """Move a group that has no live consumers to other offsets. Without --execute this only shows the change.

    With --topic a group can be placed on topics that it has not read yet, so that its consumers start there.
    """
    with connected(settings) as broker:
        moves = planned_moves(broker, settings.data_dir, group, to, names)
        if execute:
            execute_moves(broker, group, moves)
    if as_json:
        show_json({"executed": execute, "moves": moves})
    else:
        show_table(Move.__struct_fields__, [msgspec.structs.astuple(move) for move in moves])
    say("done" if execute else "nothing was changed; add --execute to do it")


@groups.command(examples=["millstream groups delete audit", "millstream groups delete audit --yes"])
@group_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_settings
def delete(settings: Settings, group: str, yes: bool) -> None:
    """Forget a group that has no live consumers. Its consumers would start anew where they are told to."""
    with connected(settings) as broker:
        partitions = format_count(len(broker.group(group).committed), "partition")
        if not yes and not click.confirm(f"Delete group {group} with offsets of {partitions}?", err=True):
            say("nothing was deleted")
            return
        broker.delete_group(group)
    say(f"deleted {group}")


def _summary(broker: Broker, info: GroupInfo) -> dict[str, str | int]:
    standings = standings_of(broker, info)
    return {
        "group": info.name,
        "members": len(info.members),
        "topics": ", ".join(dict.fromkeys(one.topic for one in standings)),
        "lag": sum(one.lag for one in standings),
    }
