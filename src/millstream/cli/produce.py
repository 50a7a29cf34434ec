"""``millstream produce``: write lines to a topic."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import click

from millstream.broker import Broker
from millstream.cli.command import Command
from millstream.cli.connection import complete_topic, connected
from millstream.cli.lines import LineForm, Pair
from millstream.cli.output import say
from millstream.cli.settings import Settings, pass_settings
from millstream.errors import SerdeError
from millstream.foundation.text import format_count
from millstream.producer import Delivery, Producer

Block: TypeAlias = tuple[list[Pair], SerdeError | None]
_BLOCK_BYTES = 1 << 20


class ValueForm(click.Choice[str]):
    """What values look like; who gives a value itself is told where it goes."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            self.fail(
                f"it says what lines look like, {' or '.join(self.choices)}; a value itself is read from "
                f"standard input: echo {shlex.quote(value)} | millstream produce TOPIC",
                param,
                ctx,
            )
        return value


@click.command(
    cls=Command,
    examples=[
        'echo "all streams lead to kafka" | millstream produce lines',
        """echo 'u17:{"name": "Ada"}' | millstream produce profiles --key-separator : --value json""",
        "echo u17: | millstream produce profiles --key-separator : --null-marker ''",
    ],
)
@click.argument("topic", shell_complete=complete_topic)
@click.option("--key", help="The key of all records.")
@click.option("--key-separator", metavar="TEXT", help="What stands before it in a line is the key, the rest the value.")
@click.option("--null-marker", metavar="TEXT", help="A value that is this is null, which deletes a row of a table.")
@click.option(
    "--value",
    type=ValueForm(["text", "json"]),
    default="text",
    show_default=True,
    help="Take lines as they are, or refuse those that are not JSON.",
)
@pass_settings
def produce(
    settings: Settings,
    topic: str,
    key: str | None,
    key_separator: str | None,
    null_marker: str | None,
    value: Literal["text", "json"],
) -> None:
    """Write lines from standard input to a topic, a record each, as they come.

    The bytes of a line are the value, without quotes or any other change. A record without key goes to any
    partition. A line that cannot be taken ends the command; those before it are written.
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("use only one of --key, --key-separator")
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    form = LineForm.of(key, key_separator, null_marker, is_json=value == "json")
    with connected(settings) as broker:
        broker.topic(topic)  # whether it is there is told before the first line is typed
        if sys.stdin.isatty():
            say("type a record per line; Ctrl-D ends")
        tally: Counter[bool] = Counter()
        try:
            _send(broker, topic, _blocks(form), tally)
        finally:
            say(f"wrote {format_count(tally[True], 'record')} to {topic}")


def _send(broker: Broker, topic: str, blocks: Iterable[Block], tally: Counter[bool]) -> None:
    """Send records and count in ``tally`` those that arrived, and those that did not."""

    def note(delivery: Delivery) -> None:
        tally[delivery.error is None] += 1

    with Producer(broker, key=bytes, value=bytes) as producer:
        for pairs, problem in blocks:
            for key, value in pairs:
                producer.send(topic, value, key=key, on_delivery=note)
            producer.flush()
            if problem is not None:
                raise problem


def _blocks(form: LineForm) -> Iterator[Block]:
    """Yield records as they come, many at once if they come quickly, up to the first line that cannot be taken."""
    stream: Any = sys.stdin.buffer  # its type does not promise read1
    number, rest = 1, b""
    while data := stream.read1(_BLOCK_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        yield form.take(number, lines)
        number += len(lines)
    if rest:
        yield form.take(number, [rest])
