"""``millstream datagen``: write generated records to a topic."""

from __future__ import annotations

import contextlib
import time
from itertools import islice

import click

from millstream.broker import Broker, TopicConfig
from millstream.cli.command import Command
from millstream.cli.connection import connected
from millstream.cli.output import show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.errors import TopicExistsError
from millstream.foundation.text import format_count
from millstream.producer import Delivery, Producer
from millstream.testing.datagen import KINDS, encode_value, generate

_TICK_SECONDS = 0.05


@click.command(
    cls=Command,
    examples=["millstream datagen rides --rate 500", "millstream datagen trades --topic market --max 10000 --seed 7"],
)
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.option("--topic", help="Topic to write to, created if missing.  [default: KIND]")
@click.option("--rate", type=click.IntRange(1), default=100, show_default=True, help="Records per second.")
@click.option("--max", "limit", type=click.IntRange(1), help="Stop after this many records; otherwise with Ctrl-C.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed generates the same records.")
@click.option("--partitions", type=click.IntRange(1), default=4, show_default=True, help="Partitions of a new topic.")
@pass_settings
def datagen(
    settings: CommonOptions, kind: str, topic: str | None, rate: int, limit: int | None, seed: int, partitions: int
) -> None:
    """Write generated records of a kind to a topic, as JSON, at a steady rate.

    One record in twenty has a timestamp of up to 15 seconds before it is sent, so that records arrive out of order.
    """
    target = topic or kind
    with connected(settings, create=True) as broker:
        with contextlib.suppress(TopicExistsError):
            broker.create_topic(target, TopicConfig(partitions=partitions))
        counter = SentCounter()
        try:
            _send(broker, kind, target, rate, limit, seed, counter)
        finally:
            show_message(f"wrote {format_count(counter.stored, 'record')} to {target}")


class SentCounter:
    """The number of records that were sent and stored; it is available after Ctrl-C and after an error too."""

    sent = stored = 0

    def on_delivery(self, delivery: Delivery) -> None:
        """Count a record that is stored."""
        self.stored += delivery.error is None


def _send(broker: Broker, kind: str, topic: str, rate: int, limit: int | None, seed: int, counter: SentCounter) -> None:
    started = time.monotonic()
    with Producer(broker, key=bytes, value=bytes) as producer:
        for record in islice(generate(kind, seed), limit):
            now = int(time.time() * 1000)
            producer.send(
                topic,
                encode_value(record),
                key=record.key.encode(),
                timestamp=now - record.delay,
                on_delivery=counter.on_delivery,
            )
            counter.sent += 1
            ahead = started + counter.sent / rate - time.monotonic()
            if ahead > _TICK_SECONDS:
                time.sleep(ahead)
