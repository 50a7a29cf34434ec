"""``millstream consume``: print the records of topics."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import Any, TypeAlias, get_args

import click

from millstream.broker import Broker
from millstream.cli.command import Command
from millstream.cli.connection import complete_group, complete_topic, connected
from millstream.cli.formats import Format, Print, printer
from millstream.cli.moments import as_moment
from millstream.cli.settings import Settings, pass_settings
from millstream.cli.sharing import shared_rounds
from millstream.records import Record
from millstream.views.records import at_ends, at_offset, at_time, partitions_of, rounds

Rounds: TypeAlias = Generator[Iterator[Record], None, None]
_FLUSH_EVERY = 1000


@click.command(
    cls=Command,
    examples=[
        "millstream consume word-counts --from-beginning",
        "millstream consume orders --partition 2 --offset -10 --no-follow --verbose",
        'millstream consume clicks searches --since "10 min" --format json | jq .value',
    ],
)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topic)
@click.option("--from-beginning", is_flag=True, help="Start at the first record, rather than with new ones.")
@click.option("--since", type=as_moment, metavar="TIME", help='Start at a time: "2025-01-31T12:00", or "10 min" ago.')
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Only this partition.")
@click.option("--offset", type=int, metavar="N", help="Start there, -10 for the last ten; needs --partition.")
@click.option(
    "--group", shell_complete=complete_group, help="Go on where this group stood, together with its other members."
)
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="Stop after so many records.")
@click.option("--follow/--no-follow", default=None, help="Wait for more at the end.  [default: on a terminal]")
@click.option("--format", type=click.Choice(get_args(Format)), default="text", show_default=True, help="The form.")
@click.option(
    "--verbose", "-v", count=True, help="In text: show place, time and headers too; twice: stack traces whole."
)
@pass_settings
def consume(
    settings: Settings,
    /,
    topics: tuple[str, ...],
    group: str | None,
    most: int | None,
    follow: bool | None,
    format: Format,
    verbose: int,
    **start: Any,
) -> None:
    """Print the records of topics, a line each, and wait for more.

    Text is key, tab, value, where what is not printable is escaped and null is "null". JSON is one object per line.
    Raw is the value alone, as it is unless it goes to a terminal. When the output is not a terminal, or with
    --no-follow, it begins at the first record unless told otherwise, and stops at the end.
    """
    follows = sys.stdout.isatty() if follow is None else follow
    _check(group, start)
    shown = printer(format, verbose=verbose, to_terminal=sys.stdout.isatty())
    with connected(settings) as broker:
        if group is None:
            found = _ungrouped(broker, topics, follow=follows, **start)
        else:
            from_end = follows and not start["from_beginning"]
            found = shared_rounds(broker, group, topics, follow=follows, from_end=from_end, most=most)
        with closing(found):  # a group counts by itself, since what it yields is committed
            _print(found, shown, most if group is None else None)


def _check(group: str | None, start: dict[str, Any]) -> None:
    given = [
        name for name in ("from_beginning", "since", "offset") if start[name] is not None and start[name] is not False
    ]
    if len(given) > 1:
        raise click.UsageError(f"use only one of {', '.join('--' + name.replace('_', '-') for name in given)}")
    if group is not None and any(start[name] is not None for name in ("since", "offset", "partition")):
        raise click.UsageError("--group goes on where it stood: use no --since, --offset or --partition")
    if start["offset"] is not None and start["partition"] is None:
        raise click.UsageError("--offset needs --partition, since each partition has offsets of its own")


def _ungrouped(
    broker: Broker,
    topics: tuple[str, ...],
    *,
    follow: bool,
    from_beginning: bool,
    since: int | None,
    partition: int | None,
    offset: int | None,
) -> Rounds:
    partitions = partitions_of(broker, topics, partition)
    if offset is not None:
        positions = {at: there for one in partitions for at, there in at_offset(broker, one, offset).items()}
    elif since is not None:
        positions = at_time(broker, partitions, since)
    else:
        positions = at_ends(broker, partitions, end=follow and not from_beginning)
    return rounds(broker, positions, follow=follow, grow=partition is None)


def _print(found: Rounds, line: Print, most: int | None) -> None:
    out = sys.stdout.buffer
    left = most
    for records in found:
        printed = 0
        for record in islice(records, left):
            out.write(line(record))
            printed += 1
            if printed % _FLUSH_EVERY == 0:
                out.flush()
        out.flush()
        left = None if left is None else left - printed
        if left == 0:
            return
