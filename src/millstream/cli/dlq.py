"""``millstream dlq``: look at dead letters, and send them back once what made them is mended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import click

from millstream.admin.dead_letter_replay import Replay, replay_rest, replay_some, unreplayed
from millstream.batch.journal import Journal
from millstream.cli.command import Group
from millstream.cli.connection import connected
from millstream.cli.output import say, show_json, show_table
from millstream.cli.settings import Settings, pass_settings
from millstream.foundation.paths import journal_dir
from millstream.foundation.text import bytes_to_text, decode_text, format_count, json_line, parse_json, printable
from millstream.foundation.times import format_timestamp
from millstream.views.dead_letters import DeadLetter, letter_at, letters_in
from millstream.views.status import check_has_run

app_option = click.option("--app", "app_id", metavar="APP", help="The app; not needed if only one has run.")


@click.group(cls=Group)
def dlq() -> None:
    """See which records could not be processed and why, and send them back.

    A letter is named by its place in the dead letter topic: PARTITION@OFFSET, such as 0@17.
    """


@dlq.command("list", examples=["millstream dlq list", "millstream dlq list --app orders --limit 5 --json"])
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="So many of the newest.")
@app_option
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per letter, for programs.")
@pass_settings
def list_(settings: Settings, limit: int, app_id: str | None, as_json: bool) -> None:
    """List the newest dead letters of an app: place, time, where each came from, node and error."""
    topic = _topic(settings, app_id)
    with connected(settings) as broker:
        is_there = topic in broker.topic_names()
        letters = deque(letters_in(broker, topic, newest=limit), limit) if is_there else deque()
        waiting = sum(end - start for start, end in unreplayed(broker, topic).values()) if is_there else 0
    if as_json:
        for letter in letters:
            click.echo(json_line(_facts(letter)))
        return
    if not letters:
        say(f"there are no dead letters in {topic}")
        return
    rows = [
        [one.place, format_timestamp(one.timestamp), one.origin, one.node, _short(f"{_class(one)}: {one.message}")]
        for one in letters
    ]
    show_table(["letter", "time", "from", "node", "error"], rows)
    say(f"{format_count(waiting, 'letter')} in {topic} not sent back yet; to send them: millstream dlq replay")


@dlq.command(examples=["millstream dlq show 0@17", "millstream dlq show 0@17 --app orders --json"])
@click.argument("place")
@app_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@pass_settings
def show(settings: Settings, place: str, app_id: str | None, as_json: bool) -> None:
    """Show one dead letter whole: key, value, headers, the error and its stack."""
    with connected(settings) as broker:
        letter = letter_at(broker, _topic(settings, app_id), place)
    if as_json:
        show_json({**_facts(letter), "stacktrace": letter.stacktrace})
        return
    record = letter.record
    click.echo(f"letter  {letter.place}, {format_timestamp(letter.timestamp)}")
    click.echo(f"from    {printable(letter.origin)}, stage {printable(letter.stage)}, node {printable(letter.node)}")
    click.echo(f"error   {printable(_class(letter))}: {printable(letter.message)}")
    click.echo(f"key     {bytes_to_text(record.key)}")
    click.echo(f"value   {bytes_to_text(record.value)}")
    for name, value in record.headers:
        click.echo(f"header  {printable(name)}={bytes_to_text(value)}")
    for line in letter.stacktrace.splitlines():
        click.echo(f"  {printable(line)}")


@dlq.command(examples=["millstream dlq replay", "millstream dlq replay 0@17 0@18 --app orders"])
@click.argument("places", metavar="[PLACE]...", nargs=-1)
@app_option
@click.option("--dry-run", is_flag=True, help="Say what would be sent, and send nothing.")
@pass_settings
def replay(settings: Settings, places: tuple[str, ...], app_id: str | None, dry_run: bool) -> None:
    """Send dead letters back to the topic and partition they came from, as they were.

    Without a PLACE all letters that were not sent back yet are sent, each once, even if this command is killed and
    started again. A PLACE is sent whenever it is asked for. What fails again becomes a new dead letter.
    """
    topic = _topic(settings, app_id)
    with connected(settings) as broker:
        if topic not in broker.topic_names():
            say(f"there are no dead letters in {topic}")
            return
        chosen = [letter_at(broker, topic, place) for place in places]
        if dry_run:
            count = len(chosen) or sum(end - start for start, end in unreplayed(broker, topic).values())
            say(f"would send {format_count(count, 'letter')} of {topic} back")
            return
        done = replay_some(broker, chosen) if places else _replayed(replay_rest(broker, topic))
    for name, count in done.sent.items():
        click.echo(f"sent {format_count(count, 'letter')} to {name}")
    for name, count in done.kept.items():
        letters = format_count(count, "letter")
        say(f"kept {letters} from {name or 'nowhere'}: it is no topic, or has fewer partitions now")
    if not done.sent and not done.kept:
        say("all letters were sent back before")


def _replayed(steps: Iterator[Replay]) -> Replay:
    """Go through all steps of a replay and return the last one."""
    return next(iter(deque(steps, 1)), Replay(sent={}, kept={}))


def _topic(settings: Settings, app_id: str | None) -> str:
    """Return the dead letter topic that an app used when it was last started."""
    app = settings.app_id(app_id)
    check_has_run(settings.data_dir, app)
    catalog = Journal(journal_dir(settings.data_dir, app), readonly=True).catalog()
    return str(catalog.get("dead_letter_topic") or f"{app}.dead-letters")


def _class(letter: DeadLetter) -> str:
    return letter.error.rpartition(".")[2]


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


def _facts(letter: DeadLetter) -> dict[str, object]:
    record = letter.record
    return {
        "letter": letter.place,
        "time": letter.timestamp,
        "from": letter.origin,
        "stage": letter.stage,
        "node": letter.node,
        "error": letter.error,
        "message": letter.message,
        "key": decode_text(record.key),
        "value": parse_json(record.value),
        "headers": [[name, decode_text(value)] for name, value in record.headers],
    }
