"""The topics that an app reads: those that it names, and those that match its patterns, as they come."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Literal

from millstream.batch.app_spec import AppSpec
from millstream.broker import Broker, TopicConfig
from millstream.errors import DefinitionError, UnknownTopicError
from millstream.plan.layout import Layout
from millstream.plan.topology import Plan
from millstream.task.policy import Policies

_log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0


def matching_topics(plan: Plan, broker: Broker, *, but: str) -> dict[str, int]:
    """Return the topics that match a pattern of the plan, with their partitions; ``but`` is never read."""
    patterns = [source for source in plan.sources if source.pattern is not None]
    found: dict[str, int] = {}
    for topic in broker.topic_names() if patterns else ():
        if topic != but and any(source.reads(topic) for source in patterns):
            try:
                found[topic] = broker.topic(topic).partitions
            except UnknownTopicError:
                continue  # deleted since it was listed
    return found


def read_topics(app: AppSpec, broker: Broker) -> list[str]:
    """Return the topics that an app reads: those it names, and those that match its patterns now."""
    but = Policies.of(app.id, app.config).dead_letter_topic
    return [*app.plan.source_topics, *matching_topics(app.plan, broker, but=but)]


def lay_out(app: AppSpec, broker: Broker, before: Mapping[str, int]) -> Layout:
    """Create missing topics if that is allowed, and lay the plan out over the topics of the broker.

    ``before`` has the number of tasks that each stage had when the app last ran.
    """
    plan, config = app.plan, app.config
    topics: dict[str, int] = {}
    written = (f"{config.output_prefix}{topic}" for topic in plan.sink_topics)
    for topic in dict.fromkeys((*plan.source_topics, *written)):
        timestamps: Literal["append", "create"] = "append" if topic in plan.stamped_topics else "create"
        try:
            existing = broker.topic(topic)
        except UnknownTopicError:
            if not config.create_topics:
                raise
            broker.create_topic(topic, TopicConfig(partitions=config.partitions, timestamps=timestamps))
            topics[topic] = config.partitions
            continue
        topics[topic] = existing.partitions
        if timestamps == "append" and existing.config.timestamps != "append":
            raise DefinitionError(
                f'topic {topic!r} keeps the times of its producers, but timestamp="append" asks for the log\'s',
                hint="create the topic with append timestamps, or leave timestamp= out",
                topic=topic,
            )
    matching = matching_topics(plan, broker, but=Policies.of(app.id, config).dead_letter_topic)
    return Layout.of(plan, {**topics, **matching}, otherwise=config.partitions, before=before)


class SourceTopics:
    """All topics that an app reads now; to go through them is to look for new ones, now and then.

    A topic that comes while the app runs joins it with the next batch, if its partitions fit the tasks there are. One
    that does not fit is left alone, with a word in the log, until the app is started again.
    """

    def __init__(
        self, layout: Layout, broker: Broker, *, dead_letters: str, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self._layout = layout
        self._broker = broker
        self._dead_letters = dead_letters
        self._look_seconds = look_seconds
        self._found: dict[str, int] = {}
        self._refused: set[str] = set()
        self._next_look = 0.0
        self._can_grow = any(source.pattern is not None for source in layout.plan.sources)

    def __iter__(self) -> Iterator[str]:
        if self._can_grow and time.monotonic() >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + self._look_seconds
        return iter((*self._layout.plan.source_topics, *self._found))

    def _look(self) -> None:
        named = {topic: self._broker.topic(topic).partitions for topic in self._layout.plan.source_topics}
        there = matching_topics(self._layout.plan, self._broker, but=self._dead_letters)
        self._found = {topic: count for topic, count in self._found.items() if topic in there}
        for topic, count in there.items():
            if topic in self._found or topic in self._refused:
                continue
            if self._fits({**named, **self._found, topic: count}):
                self._found[topic] = count
            else:
                self._refused.add(topic)
                _log.warning(
                    "topic %r matches a pattern, but its %d partitions do not fit the tasks that run; "
                    "it is read after the next start",
                    topic,
                    count,
                )

    def _fits(self, topics: Mapping[str, int]) -> bool:
        try:
            wider = Layout.of(self._layout.plan, topics, before=self._layout.partitions_by_stage).partitions
        except DefinitionError:
            return False
        return all(count <= tasks for count, tasks in zip(wider, self._layout.partitions, strict=True))
