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
from millstream.cli.line_format import LineFormat, Pair
from millstream.cli.output import show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.errors import SerdeError
from millstream.foundation.text import format_count
from millstream.producer import Delivery, Producer

Block: TypeAlias = tuple[list[Pair], SerdeError | None]
_BLOCK_BYTES = 1 << 20


class ValueFormat(click.Choice[str]):
    """The format of values; if a value is passed instead, the error explains where it belongs."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            self.fail(
                f"the format of lines is {' or '.join(self.choices)}; to write a value, pass it on standard input: "
                f"echo {shlex.quote(value)} | millstream produce TOPIC",
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
@click.option("--key-separator", metavar="TEXT", help="Separates the key from the value in a line.")
@click.option("--null-marker", metavar="TEXT", help="A value equal to this is null, a tombstone in a table.")
@click.option(
    "--value",
    type=ValueFormat(["text", "json"]),
    default="text",
    show_default=True,
    help="Write lines unchanged, or reject lines that are not JSON.",
)
@pass_settings
def produce(
    settings: CommonOptions,
    topic: str,
    key: str | None,
    key_separator: str | None,
    null_marker: str | None,
    value: Literal["text", "json"],
) -> None:
    """Write lines from standard input to a topic as they arrive, one record per line.

    The value is the unchanged bytes of the line. A record without a key goes to any partition. An invalid line ends the
    command; the lines before it are written.
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("use only one of --key, --key-separator")
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    line_format = LineFormat.of(key, key_separator, null_marker, is_json=value == "json")
    with connected(settings) as broker:
        broker.topic(topic)  # fails for an unknown topic before the first line is typed
        if sys.stdin.isatty():
            show_message("type one record per line; end with Ctrl-D")
        deliveries: Counter[bool] = Counter()
        try:
            _send(broker, topic, _blocks(line_format), deliveries)
        finally:
            show_message(f"wrote {format_count(deliveries[True], 'record')} to {topic}")


def _send(broker: Broker, topic: str, blocks: Iterable[Block], deliveries: Counter[bool]) -> None:
    """Send records, and count successful and failed deliveries."""

    def count(delivery: Delivery) -> None:
        deliveries[delivery.error is None] += 1

    with Producer(broker, key=bytes, value=bytes) as producer:
        for pairs, error in blocks:
            for key, value in pairs:
                producer.send(topic, value, key=key, on_delivery=count)
            producer.flush()
            if error is not None:
                raise error


def _blocks(line_format: LineFormat) -> Iterator[Block]:
    """Yield the records of standard input in blocks as they arrive, up to the first invalid line."""
    stream: Any = sys.stdin.buffer  # its declared type lacks read1
    number, partial_line = 1, b""
    while data := stream.read1(_BLOCK_BYTES):
        *lines, partial_line = (partial_line + data).split(b"\n")
        yield line_format.parse(number, lines)
        number += len(lines)
    if partial_line:
        yield line_format.parse(number, [partial_line])
