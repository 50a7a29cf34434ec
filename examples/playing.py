"""What the examples share: run one by itself, on data that it makes up, and show what came out."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from millstream import App
from millstream.broker import TopicConfig
from millstream.serdes import RAW

PARTITIONS = 2


class Sent(NamedTuple):
    """A record to feed an example with."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    """Event time, in milliseconds."""


def play(app: App, records: Iterable[Sent], show: Callable[[App], None]) -> None:
    """Feed the app, run it until all is processed, and show the result; with arguments offer the app's commands."""
    if len(sys.argv) > 1:
        app.main()
        return
    with tempfile.TemporaryDirectory(prefix="millstream-example-") as place, left_as_found(app):
        app.data_dir = Path(place)
        count = feed(app, records)
        print(f"{app.id}: {count:,} records are in the log; processing them on Spark …")
        app.run("caught-up")
        show(app)


@contextmanager
def left_as_found(app: App) -> Iterator[None]:
    """Take away what the app leaves on a cluster, where it would outlive the state; what was there before stays."""
    if app.broker_url is None or not app.broker_url.startswith("kafka:"):
        yield
        return
    before = {*app.broker.topic_names(), *app.broker.group_names()}
    try:
        yield
    finally:
        topics = {*app.plan.source_topics, *app.plan.sink_topics, f"{app.id}.dead-letters"} - before
        for topic in topics.intersection(app.broker.topic_names()):
            app.broker.delete_topic(topic)
        for group in set(app.broker.group_names()) - before:
            if group == app.id or group.startswith(f"{app.id}."):
                app.broker.delete_group(group)


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
