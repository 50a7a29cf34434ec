"""``millstream groups``: how far consumer groups are, and how to move them."""

from __future__ import annotations

import re

import click
import msgspec

from millstream.broker import Broker, GroupInfo
from millstream.cli.command import Group
from millstream.cli.connection import complete_group, complete_topic, connected
from millstream.cli.moments import moment
from millstream.cli.output import counted, json_option, say, show_json, show_table
from millstream.cli.settings import Settings, pass_settings
from millstream.errors import DefinitionError, StateError, UnknownTopicError
from millstream.places import app_names
from millstream.records import TopicPartition

group_argument = click.argument("group", shell_complete=complete_group)


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


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a committed offset."""

    topic: str
    partition: int
    before: int | None
    after: int


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
        standings = _standings(broker, info)
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
        _check_no_app(settings, group)
        committed = broker.committed(group)
        topics = names or sorted({at.topic for at in committed})
        if not topics:
            raise DefinitionError(f"group {group!r} has read no topic", hint="name one with --topic")
        moves = [move for topic in topics for move in _moves(broker, topic, to, committed)]
        if execute:
            broker.commit(group, {TopicPartition(move.topic, move.partition): move.after for move in moves})
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
        partitions = counted(len(broker.group(group).committed), "partition")
        if not yes and not click.confirm(f"Delete group {group} with offsets of {partitions}?", err=True):
            say("nothing was deleted")
            return
        broker.delete_group(group)
    say(f"deleted {group}")


def _summary(broker: Broker, info: GroupInfo) -> dict[str, str | int]:
    standings = _standings(broker, info)
    return {
        "group": info.name,
        "members": len(info.members),
        "topics": ", ".join(dict.fromkeys(one.topic for one in standings)),
        "lag": sum(one.lag for one in standings),
    }


def _standings(broker: Broker, info: GroupInfo) -> list[Standing]:
    """Return where the group stands in all partitions of the topics that it has committed or subscribed."""
    owners = {at: member.id for member in info.members for at in member.partitions}
    subscribed = {topic for member in info.members for topic in member.topics}
    standings: list[Standing] = []
    for topic in sorted(subscribed | {at.topic for at in info.committed}):
        try:
            offsets = broker.offsets(topic)
        except UnknownTopicError:  # not made yet, or deleted in this moment: its commits will be gone too
            continue
        for at, there in ((TopicPartition(topic, number), there) for number, there in enumerate(offsets)):
            committed = info.committed.get(at)
            read = there.begin if committed is None else committed
            standings.append(
                Standing(
                    topic=topic,
                    partition=at.partition,
                    committed=committed,
                    end=there.end,
                    lag=max(0, there.end - read),
                    member=owners.get(at),
                )
            )
    return standings


def _moves(broker: Broker, topic: str, to: str, committed: dict[TopicPartition, int]) -> list[Move]:
    return [
        Move(
            topic=topic,
            partition=partition,
            before=committed.get(TopicPartition(topic, partition)),
            after=_place(broker, topic, partition, to),
        )
        for partition in range(broker.topic(topic).partitions)
    ]


def _place(broker: Broker, topic: str, partition: int, to: str) -> int:
    there = broker.offsets(topic)[partition]
    if to in ("earliest", "latest"):
        return there.begin if to == "earliest" else there.end
    if re.fullmatch(r"\d{1,18}", to):
        return min(max(int(to), there.begin), there.end)
    timestamp = moment(to)
    if timestamp is None:
        raise click.BadParameter(
            f'{to!r} is not known: write earliest, latest, an offset, "2025-01-31T12:00" or "10 min"',
            param_hint="--to",
        )
    found = broker.offset_at(topic, partition, timestamp)
    return there.end if found is None else found


def _check_no_app(settings: Settings, group: str) -> None:
    if group in app_names(settings.data_dir):
        raise StateError(
            f"group {group!r} belongs to the app of that name, which goes on from its own journal",
            hint="give the app another id to process everything again",
        )
