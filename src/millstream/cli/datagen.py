"""``millstream datagen``: feed a topic with made-up records."""

from __future__ import annotations

import contextlib
import time
from itertools import islice

import click

from millstream.broker import Broker, TopicConfig
from millstream.cli.command import Command
from millstream.cli.connection import connected
from millstream.cli.output import say
from millstream.cli.settings import Settings, pass_settings
from millstream.errors import TopicExistsError
from millstream.foundation.text import format_count
from millstream.producer import Producer
from millstream.testing.datagen import KINDS, as_json, made_up

_TICK_SECONDS = 0.05


@click.command(
    cls=Command,
    examples=["millstream datagen rides --rate 500", "millstream datagen trades --topic market --max 10000 --seed 7"],
)
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.option("--topic", help="Where the records go, made if missing; by default it is called as the kind.")
@click.option("--rate", type=click.IntRange(1), default=100, show_default=True, help="Records per second.")
@click.option("--max", "most", type=click.IntRange(1), help="End after so many records; otherwise Ctrl-C ends.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed makes up the same records.")
@click.option("--partitions", type=click.IntRange(1), default=4, show_default=True, help="Of a topic that is made.")
@pass_settings
def datagen(
    settings: Settings, kind: str, topic: str | None, rate: int, most: int | None, seed: int, partitions: int
) -> None:
    """Feed a topic with made-up records of a kind, as JSON, at a steady rate.

    One record in twenty happened up to 15 seconds before it is sent, so that windows have something to wait for.
    """
    target = topic or kind
    with connected(settings, create=True) as broker:
        with contextlib.suppress(TopicExistsError):
            broker.create_topic(target, TopicConfig(partitions=partitions))
        tally = Tally()
        try:
            _feed(broker, kind, target, rate, most, seed, tally)
        finally:
            say(f"wrote {format_count(tally.sent, 'record')} to {target}")


class Tally:
    """How many records were sent, known also if Ctrl-C ends it."""

    sent = 0


def _feed(broker: Broker, kind: str, topic: str, rate: int, most: int | None, seed: int, tally: Tally) -> None:
    begun = time.monotonic()
    with Producer(broker, key=bytes, value=bytes) as producer:
        for made in islice(made_up(kind, seed), most):
            now = int(time.time() * 1000)
            producer.send(topic, as_json(made), key=made.key.encode(), timestamp=now - made.late)
            tally.sent += 1
            ahead = begun + tally.sent / rate - time.monotonic()
            if ahead > _TICK_SECONDS:
                time.sleep(ahead)
