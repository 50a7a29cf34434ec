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
from millstream.cli.group_reading import group_rounds
from millstream.cli.option_types import parse_time
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.records import Record
from millstream.views.records import (
    beginning_offsets,
    checked_offset,
    end_offsets,
    offsets_for_time,
    read_rounds,
    topic_partitions,
)

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
@click.option("--from-beginning", is_flag=True, help="Start at the first record instead of the next new one.")
@click.option(
    "--since", type=parse_time, metavar="TIME", help='Start at a time, "2025-01-31T12:00", or a time ago, "10 min".'
)
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Read only this partition.")
@click.option(
    "--offset", type=int, metavar="N", help="Start at this offset, -10 for the last ten records; needs --partition."
)
@click.option("--group", shell_complete=complete_group, help="Join this group and continue from its committed offsets.")
@click.option("--max", "limit", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@click.option("--follow/--no-follow", default=None, help="Wait for new records at the end.  [default: on a terminal]")
@click.option("--format", type=click.Choice(get_args(Format)), default="text", show_default=True, help="Output format.")
@click.option(
    "--verbose", "-v", count=True, help="In text: also show position, time and headers; twice: full stack traces."
)
@pass_settings
def consume(
    settings: CommonOptions,
    /,
    topics: tuple[str, ...],
    group: str | None,
    limit: int | None,
    follow: bool | None,
    format: Format,
    verbose: int,
    **start: Any,
) -> None:
    """Print the records of topics, one per line, and wait for more.

    Text is key, tab, value; unprintable characters are escaped and null is "null". JSON is one object per line. Raw is
    the unchanged value, escaped only on a terminal. If the output is not a terminal, or with --no-follow, reading
    starts at the first record by default and stops at the end.
    """
    follows = sys.stdout.isatty() if follow is None else follow
    _check_options(group, start)
    to_line = printer(format, verbose=verbose, to_terminal=sys.stdout.isatty())
    with connected(settings) as broker:
        if group is None:
            record_rounds = _read(broker, topics, follow=follows, **start)
        else:
            from_end = follows and not start["from_beginning"]
            record_rounds = group_rounds(broker, group, topics, follow=follows, from_end=from_end, limit=limit)
        with closing(record_rounds):  # group_rounds applies the limit itself, since it commits what it yields
            _print(record_rounds, to_line, limit if group is None else None)


def _check_options(group: str | None, start: dict[str, Any]) -> None:
    given = [
        name for name in ("from_beginning", "since", "offset") if start[name] is not None and start[name] is not False
    ]
    if len(given) > 1:
        raise click.UsageError(f"use only one of {', '.join('--' + name.replace('_', '-') for name in given)}")
    if group is not None and any(start[name] is not None for name in ("since", "offset", "partition")):
        raise click.UsageError("--group cannot be combined with --since, --offset or --partition")
    if start["offset"] is not None and start["partition"] is None:
        raise click.UsageError("--offset needs --partition, since each partition has its own offsets")


def _read(
    broker: Broker,
    topics: tuple[str, ...],
    *,
    follow: bool,
    from_beginning: bool,
    since: int | None,
    partition: int | None,
    offset: int | None,
) -> Rounds:
    partitions = topic_partitions(broker, topics, partition)
    if offset is not None:
        starts = [checked_offset(broker, topic_partition, offset) for topic_partition in partitions]
        positions = {topic_partition: start for each in starts for topic_partition, start in each.items()}
    elif since is not None:
        positions = offsets_for_time(broker, partitions, since)
    elif follow and not from_beginning:
        positions = end_offsets(broker, partitions)
    else:
        positions = beginning_offsets(broker, partitions)
    return read_rounds(broker, positions, follow=follow, grow=partition is None)


def _print(record_rounds: Rounds, to_line: Print, limit: int | None) -> None:
    out = sys.stdout.buffer
    left = limit
    for records in record_rounds:
        printed = 0
        for record in islice(records, left):
            out.write(to_line(record))
            printed += 1
            if printed % _FLUSH_EVERY == 0:
                out.flush()
        out.flush()
        left = None if left is None else left - printed
        if left == 0:
            return
