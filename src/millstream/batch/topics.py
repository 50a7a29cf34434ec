"""The topics that an app reads: those that it names, and those that match its patterns as they are created."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from millstream.batch.app_spec import AppSpec
from millstream.batch.pausing import PausedInputs
from millstream.broker import Broker, TopicConfig
from millstream.errors import DefinitionError, TopicExistsError, UnknownTopicError
from millstream.foundation.names import is_own_topic, is_valid_name
from millstream.plan.layout import Layout
from millstream.plan.topology import Plan
from millstream.task.policy import Policies

_log = logging.getLogger(__name__)
Timestamps = Literal["create", "append"]
REFRESH_SECONDS = 1.0


def matching_topics(plan: Plan, broker: Broker, *, app: str, exclude: str) -> dict[str, int]:
    """Return the topics that match a pattern of the plan, with their partitions.

    Topic ``exclude``, and the journal and changelogs of ``app`` itself, are left out.
    """
    patterns = [source for source in plan.sources if source.pattern is not None]
    matching: dict[str, int] = {}
    for topic in broker.topic_names() if patterns else ():
        if topic == exclude or is_own_topic(app, topic) or not is_valid_name(topic):
            continue
        if any(source.reads(topic) for source in patterns):
            try:
                matching[topic] = broker.topic(topic).partitions
            except UnknownTopicError:
                continue  # deleted since it was listed
    return matching


def read_topics(app: AppSpec, broker: Broker) -> list[str]:
    """Return the topics that an app reads: those it names, and those that currently match its patterns."""
    dead_letter_topic = Policies.of(app.id, app.config).dead_letter_topic
    return [*app.plan.source_topics, *matching_topics(app.plan, broker, app=app.id, exclude=dead_letter_topic)]


def create_topics(app: AppSpec, broker: Broker) -> list[str]:
    """Create the topics that an app reads or writes and that do not exist, and return their names."""
    of_sources: dict[str, TopicConfig] = {}
    for source in app.sources.values():
        of_sources.update(source.topics())
    compacted = {f"{app.config.output_prefix}{topic}" for topic in app.plan.compacted_topics}
    declared = {
        topic: TopicConfig(partitions=app.config.partitions, timestamps=timestamps, compact=topic in compacted)
        for topic, timestamps in _declared_topics(app).items()
    }
    return create_missing_topics(broker, {**declared, **of_sources})


def create_missing_topics(broker: Broker, topics: Mapping[str, TopicConfig]) -> list[str]:
    """Create those of the topics that do not exist, and return their names."""
    created: list[str] = []
    existing = set(broker.topic_names())
    for topic, config in topics.items():
        if topic not in existing:
            with contextlib.suppress(TopicExistsError):  # another process has just created it
                broker.create_topic(topic, config)
                created.append(topic)
    return created


def lay_out(app: AppSpec, broker: Broker, before: Mapping[str, int]) -> Layout:
    """Create missing topics if that is allowed, and lay the plan out over the topics of the broker.

    ``before`` has the number of tasks that each stage had when the app last ran.
    """
    plan, config = app.plan, app.config
    if config.create_topics:
        create_topics(app, broker)
    topics: dict[str, int] = {}
    for topic, timestamps in _declared_topics(app).items():
        existing = broker.topic(topic)
        topics[topic] = existing.partitions
        if timestamps == "append" and existing.config.timestamps != "append":
            raise DefinitionError(
                f'topic {topic!r} keeps the times of its producers, but timestamp="append" asks for the log\'s',
                hint="create the topic with append timestamps, or leave timestamp= out",
                topic=topic,
            )
    matching = matching_topics(plan, broker, app=app.id, exclude=Policies.of(app.id, config).dead_letter_topic)
    return Layout.of(plan, {**topics, **matching}, otherwise=config.partitions, before=before)


def _declared_topics(app: AppSpec) -> dict[str, Timestamps]:
    """Return the topics that an app names, and which timestamps each of them stores."""
    plan = app.plan
    written = (f"{app.config.output_prefix}{topic}" for topic in plan.sink_topics)
    return {topic: "append" if topic in plan.stamped_topics else "create" for topic in (*plan.source_topics, *written)}


class SourceTopics:
    """All topics that an app currently reads; iterating over them looks for new ones at intervals.

    Topics that are paused are left out.
    The next batch reads a topic that was created while the app runs, if its partitions fit the running tasks.
    Otherwise a warning is logged, and the topic is not read until the app is restarted.
    """

    def __init__(
        self,
        layout: Layout,
        broker: Broker,
        *,
        dead_letters: str,
        app: str = "",
        refresh_seconds: float = REFRESH_SECONDS,
        paused: PausedInputs | None = None,
    ) -> None:
        self._app = app
        self._paused = paused
        self._layout = layout
        self._broker = broker
        self._dead_letters = dead_letters
        self._refresh_seconds = refresh_seconds
        self._matching: dict[str, int] = {}
        self._refused: set[str] = set()
        self._next_refresh = 0.0
        self._can_grow = any(source.pattern is not None for source in layout.plan.sources)

    def __iter__(self) -> Iterator[str]:
        if self._can_grow and time.monotonic() >= self._next_refresh:
            self._refresh()
            self._next_refresh = time.monotonic() + self._refresh_seconds
        topics: Collection[str] = (*self._layout.plan.source_topics, *self._matching)
        return iter(topics if self._paused is None else self._paused.without_paused(topics))

    def _refresh(self) -> None:
        named = {topic: self._broker.topic(topic).partitions for topic in self._layout.plan.source_topics}
        existing = matching_topics(self._layout.plan, self._broker, app=self._app, exclude=self._dead_letters)
        self._matching = {topic: count for topic, count in self._matching.items() if topic in existing}
        for topic, count in existing.items():
            if topic in self._matching or topic in self._refused:
                continue
            if self._fits_tasks({**named, **self._matching, topic: count}):
                self._matching[topic] = count
            else:
                self._refused.add(topic)
                _log.warning(
                    "topic %r matches a pattern, but its %d partitions do not fit the running tasks; "
                    "it is read after the next start",
                    topic,
                    count,
                )

    def _fits_tasks(self, topics: Mapping[str, int]) -> bool:
        try:
            wider = Layout.of(self._layout.plan, topics, before=self._layout.partitions_by_stage).partitions
        except DefinitionError:
            return False
        return all(count <= tasks for count, tasks in zip(wider, self._layout.partitions, strict=True))
