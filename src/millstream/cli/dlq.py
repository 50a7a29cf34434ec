"""``millstream dlq``: show dead letters, and replay them once their cause is fixed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import click

from millstream.admin.dead_letter_replay import Replay, remaining_offsets, replay_remaining, replay_selected
from millstream.batch.journal import Journal
from millstream.cli.command import CommandGroup
from millstream.cli.connection import connected
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.paths import journal_dir
from millstream.foundation.text import bytes_to_text, decode_text, format_count, json_line, parse_json, printable
from millstream.foundation.times import format_timestamp
from millstream.views.dead_letters import DeadLetter, read_dead_letter, read_dead_letters
from millstream.views.status import check_has_run

app_option = click.option("--app", "app_id", metavar="APP", help="The app; optional if only one has run.")
topic_option = click.option("--topic", "topic", metavar="TOPIC", help="The topic of dead letters, as of a share group.")


@click.group(cls=CommandGroup)
def dlq() -> None:
    """Show the records that could not be processed, and replay them.

    A dead letter is identified by its POSITION in the dead letter topic: PARTITION@OFFSET, for example 0@17.
    """


@dlq.command("list", examples=["millstream dlq list", "millstream dlq list --app orders --limit 5 --json"])
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of dead letters to list."
)
@app_option
@topic_option
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per dead letter.")
@pass_settings
def list_(settings: CommonOptions, limit: int, app_id: str | None, topic: str | None, as_json: bool) -> None:
    """List the newest dead letters of an app with time, origin, node and error."""
    topic = topic or _topic(settings, app_id)
    with connected(settings) as broker:
        exists = topic in broker.topic_names()
        letters = deque(read_dead_letters(broker, topic, newest=limit), limit) if exists else deque()
        waiting = sum(end - start for start, end in remaining_offsets(broker, topic).values()) if exists else 0
    if as_json:
        for letter in letters:
            click.echo(json_line(_fields(letter)))
        return
    if not letters:
        show_message(f"there are no dead letters in {topic}")
        return
    rows = [
        [letter.position, format_timestamp(letter.timestamp), letter.origin, letter.node, _short(_error(letter))]
        for letter in letters
    ]
    show_table(["position", "time", "origin", "node", "error"], rows)
    not_replayed = format_count(waiting, "dead letter")
    show_message(f"{not_replayed} in {topic} not replayed yet; to replay them: millstream dlq replay")


@dlq.command(examples=["millstream dlq show 0@17", "millstream dlq show 0@17 --app orders --json"])
@click.argument("position")
@app_option
@topic_option
@json_option
@pass_settings
def show(settings: CommonOptions, position: str, app_id: str | None, topic: str | None, as_json: bool) -> None:
    """Show a dead letter: key, value, headers, the error and its stack trace."""
    with connected(settings) as broker:
        letter = read_dead_letter(broker, topic or _topic(settings, app_id), position)
    if as_json:
        show_json({**_fields(letter), "stacktrace": letter.stacktrace})
        return
    record = letter.record
    click.echo(f"position  {letter.position}, {format_timestamp(letter.timestamp)}")
    click.echo(f"origin    {printable(letter.origin)}, stage {printable(letter.stage)}, node {printable(letter.node)}")
    click.echo(f"error     {printable(_error(letter))}")
    click.echo(f"key       {bytes_to_text(record.key)}")
    click.echo(f"value     {bytes_to_text(record.value)}")
    for name, value in record.headers:
        click.echo(f"header    {printable(name)}={bytes_to_text(value)}")
    for line in letter.stacktrace.splitlines():
        click.echo(f"  {printable(line)}")


@dlq.command(
    examples=[
        "millstream dlq replay",
        "millstream dlq replay 0@17 0@18 --app orders",
        "millstream dlq replay --topic mailers.dead-letters",
    ]
)
@click.argument("positions", metavar="[POSITION]...", nargs=-1)
@app_option
@topic_option
@click.option("--dry-run", is_flag=True, help="Only show what would be replayed.")
@pass_settings
def replay(
    settings: CommonOptions, positions: tuple[str, ...], app_id: str | None, topic: str | None, dry_run: bool
) -> None:
    """Send dead letters back to the topic and partition they came from, unchanged.

    Without a POSITION, all dead letters that were not replayed yet are sent, each exactly once, even if this command is
    killed and started again. A given POSITION is always sent. A record that fails again becomes a new dead letter.
    """
    topic = topic or _topic(settings, app_id)
    with connected(settings) as broker:
        if topic not in broker.topic_names():
            show_message(f"there are no dead letters in {topic}")
            return
        letters = [read_dead_letter(broker, topic, position) for position in positions]
        if dry_run:
            count = len(letters) or sum(end - start for start, end in remaining_offsets(broker, topic).values())
            show_message(f"would replay {format_count(count, 'dead letter')} of {topic}")
            return
        result = replay_selected(broker, letters) if positions else _last(replay_remaining(broker, topic))
    for name, count in result.sent.items():
        click.echo(f"sent {format_count(count, 'dead letter')} to {name}")
    for name, count in result.kept.items():
        not_sent = f"{format_count(count, 'dead letter')} not sent"
        show_message(f"{not_sent}: topic {name!r} does not exist, or has fewer partitions now")
    if not result.sent and not result.kept:
        show_message("all dead letters were already replayed")


def _last(steps: Iterator[Replay]) -> Replay:
    """Run all steps of a replay and return the last one, which has the totals."""
    return next(iter(deque(steps, 1)), Replay(sent={}, kept={}))


def _topic(settings: CommonOptions, app_id: str | None) -> str:
    """Return the dead letter topic that an app used when it was last started."""
    app = settings.app_id(app_id)
    check_has_run(settings.data_dir, app)
    catalog = Journal(journal_dir(settings.data_dir, app), readonly=True).catalog()
    return str(catalog.get("dead_letter_topic") or f"{app}.dead-letters")


def _error(letter: DeadLetter) -> str:
    return f"{letter.error.rpartition('.')[2]}: {letter.message}"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


def _fields(letter: DeadLetter) -> dict[str, object]:
    record = letter.record
    return {
        "position": letter.position,
        "time": letter.timestamp,
        "origin": letter.origin,
        "stage": letter.stage,
        "node": letter.node,
        "error": letter.error,
        "message": letter.message,
        "key": decode_text(record.key),
        "value": parse_json(record.value),
        "headers": [[name, decode_text(value)] for name, value in record.headers],
    }
