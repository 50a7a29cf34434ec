"""What the examples share: run one by itself, on data that it makes up, and show what came out.

The log is embedded, in a temporary directory. With ``MILLSTREAM_BROKER=kafka://HOST:PORT`` it is that cluster instead:
``App`` reads the variable, so that no example has to.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from millstream import App, MillstreamError
from millstream.broker import TopicConfig
from millstream.foundation.names import producer_prefix
from millstream.serdes import RAW

PARTITIONS = 2


class Sent(NamedTuple):
    """A record to feed an example with."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    """Event time, in milliseconds."""


def play(app: App, records: Iterable[Sent], show: Callable[[App], None], *beside: App) -> None:
    """Feed the app, run it until all is processed, and show the result; with arguments offer the app's commands."""
    if len(sys.argv) > 1:
        app.main()
        return
    with playground(app, *beside):
        count = feed(app, records)
        print(f"{app.id}: {count:,} records are in {where(app)}; processing them on Spark …")
        app.run("caught-up")
        show(app)


@contextmanager
def playground(*apps: App) -> Iterator[None]:
    """Let apps keep their state, and the log unless it is elsewhere, in a directory that goes away."""
    with tempfile.TemporaryDirectory(prefix="millstream-example-") as place:
        for app in apps:
            app.data_dir = Path(place)
        try:
            with left_as_found(*apps):
                yield
        except MillstreamError as error:
            sys.exit(f"error: {error}")


@contextmanager
def left_as_found(*apps: App) -> Iterator[None]:
    """Take away what apps leave on a cluster, where it would outlive the state; what was there before stays."""
    broker_url = apps[0].broker_url
    if broker_url is None or not broker_url.startswith("kafka:"):
        yield
        return
    broker = apps[0].broker
    before = {*broker.topic_names(), *broker.group_names()}
    try:
        yield
    finally:
        for app in apps:
            topics = {*app.plan.source_topics, *app.plan.sink_topics, f"{app.id}.dead-letters"}
            written = {f"{app.config.output_prefix}{topic}" for topic in app.plan.sink_topics}
            for topic in ((topics | written) - before).intersection(broker.topic_names()):
                broker.delete_topic(topic)
            broker.forget_producers([producer_prefix(app.id, stage.name) for stage in app.plan.stages])
            for group in set(broker.group_names()) - before:
                if group == app.id or group.startswith(f"{app.id}."):  # the app's own, and those of its Spark sinks
                    broker.delete_group(group)


def where(app: App) -> str:
    """Say in words where the topics of an app are."""
    return "the log" if app.broker_url is None else app.broker_url


def feed(app: App, records: Iterable[Sent]) -> int:
    """Write records to the app's topics, in the form in which it reads them; return how many."""
    broker, sources = app.broker, {topic: source for source in app.plan.sources for topic in source.topics}
    for topic in sources:
        broker.create_topic(topic, TopicConfig(partitions=PARTITIONS))
    count = itertools.count()
    with app.producer(key=RAW, value=RAW) as producer:
        for sent in records:
            source = sources[sent.topic]
            key = None if sent.key is None else source.key.encode(sent.key)
            value = None if sent.value is None else source.value.encode(sent.value)
            producer.send(sent.topic, value, key=key, timestamp=sent.timestamp)
            next(count)
    broker.close()
    return next(count)
