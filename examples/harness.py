"""Shared by the examples: run one on its generated data and print the results.

The log is embedded, in a temporary directory. With ``MILLSTREAM_BROKER=kafka://HOST:PORT`` the examples use that
cluster instead: ``App`` reads the variable, so no example has to.
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
from millstream.foundation.names import is_own_topic, producer_prefix
from millstream.serdes import RAW

PARTITIONS = 2


class Input(NamedTuple):
    """An input record of an example."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    """Event time, in milliseconds."""


def run_example(app: App, records: Iterable[Input], show: Callable[[App], None], *other_apps: App) -> None:
    """Feed the app, run it until it has caught up, and print the results; with arguments, run the app's commands."""
    if len(sys.argv) > 1:
        app.main()
        return
    with temporary_data(app, *other_apps):
        count = feed(app, records)
        print(f"{app.id}: wrote {count:,} records to {location(app)}; processing them on Spark …")
        app.run("caught-up")
        show(app)


@contextmanager
def temporary_data(*apps: App) -> Iterator[None]:
    """Keep the apps' state, and the log unless it is on a cluster, in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="millstream-example-") as directory:
        for app in apps:
            app.data_dir = Path(directory)
        try:
            with cleaned_up_cluster(*apps):
                yield
        except MillstreamError as error:
            sys.exit(f"error: {error}")


@contextmanager
def cleaned_up_cluster(*apps: App) -> Iterator[None]:
    """Delete what the apps create on a cluster, where it would outlive their state; keep what existed before."""
    broker_url = apps[0].broker_url
    if broker_url is None or not broker_url.startswith("kafka:"):
        yield
        return
    broker = apps[0].broker
    existing = {*broker.topic_names(), *broker.group_names()}
    try:
        yield
    finally:
        for app in apps:
            topics = {*app.plan.source_topics, *app.plan.sink_topics, f"{app.id}.dead-letters"}
            topics |= {topic for topic in broker.topic_names() if is_own_topic(app.id, topic)}
            prefixed = {f"{app.config.output_prefix}{topic}" for topic in app.plan.sink_topics}
            for topic in ((topics | prefixed) - existing).intersection(broker.topic_names()):
                broker.delete_topic(topic)
            broker.forget_producers([producer_prefix(app.id, stage.name) for stage in app.plan.stages])
            for group in set(broker.group_names()) - existing:
                if group == app.id or group.startswith(f"{app.id}."):  # the app's own, and those of its Spark sinks
                    broker.delete_group(group)


def location(app: App) -> str:
    """Describe where the topics of an app are stored."""
    return "the log" if app.broker_url is None else app.broker_url


def feed(app: App, records: Iterable[Input]) -> int:
    """Write records to the app's input topics with the serdes that it declares; return their number."""
    broker, sources = app.broker, {topic: source for source in app.plan.sources for topic in source.topics}
    for topic in sources:
        broker.create_topic(topic, TopicConfig(partitions=PARTITIONS))
    count = itertools.count()
    with app.producer(key=RAW, value=RAW) as producer:
        for record in records:
            source = sources[record.topic]
            key = None if record.key is None else source.key.encode(record.key)
            value = None if record.value is None else source.value.encode(record.value)
            producer.send(record.topic, value, key=key, timestamp=record.timestamp)
            next(count)
    broker.close()
    return next(count)
