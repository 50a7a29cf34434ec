"""The alerts and silences of apps, read from their topics and written to them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

import msgspec

from millstream.alerts.events import AlertEvent, alerts_topic, silences_topic
from millstream.alerts.silences import Silence
from millstream.batch.topics import create_missing_topics
from millstream.broker import Broker, Output, TopicConfig
from millstream.errors import DefinitionError, UnknownTableError
from millstream.foundation.blocks import block_of, rows_of
from millstream.foundation.partitioning import partition_of
from millstream.foundation.typed_decoding import decode_json

COMPACTED = TopicConfig(partitions=1, compact=True)
_MAX_EVENTS = 500
_KEEP_MS = 5 * 86_400_000
"""How long silences are kept after their end, as in Alertmanager."""
_FIRST_STEP, _MAX_STEP = 16, 1024
_SUFFIX = alerts_topic("")
Row = tuple[bytes | None, bytes | None, int]


class ReadBudget:
    """How much a request may read from the topics of alerts, which any producer can fill."""

    def __init__(self, *, size: int, seconds: float) -> None:
        self._left = size
        self._until = time.monotonic() + seconds
        self.is_spent = False
        """Whether something was not read."""

    def allows(self, size: int) -> bool:
        """Whether a chunk may still be used."""
        self._left -= size
        self.is_spent = self.is_spent or self._left < 0 or time.monotonic() > self._until
        return not self.is_spent


def alert_apps(broker: Broker) -> list[str]:
    """Return the apps that have a topic of alerts."""
    return sorted(topic.removesuffix(_SUFFIX) for topic in broker.topic_names() if topic.endswith(_SUFFIX))


def recent_events(
    broker: Broker, app: str, limit: int = _MAX_EVENTS, budget: ReadBudget | None = None
) -> list[AlertEvent]:
    """Return the newest events of an app, newest first, as far as compaction has kept them and the budget allows."""
    events = [
        (timestamp, event)
        for _, value, timestamp in _newest(broker, alerts_topic(app), limit, budget)
        if (event := _event(value)) is not None
    ]
    return [event for _, event in sorted(events, key=lambda item: item[0], reverse=True)][:limit]


def current_alerts(broker: Broker, app: str, budget: ReadBudget | None = None) -> list[AlertEvent]:
    """Return the last event of each alert of an app, by their keys; those that did not last are left out.

    With a budget, alerts whose last event is too far in the past may be missing; see ``ReadBudget.is_spent``.
    """
    latest: dict[bytes | None, AlertEvent | None] = {}
    for key, value, _ in _newest(broker, alerts_topic(app), None, budget):
        if key not in latest:
            latest[key] = _event(value)
    return sorted((event for event in latest.values() if event is not None), key=lambda event: event.id)


def silences_of(broker: Broker, app: str) -> list[Silence]:
    """Return the silences of an app, the expired ones too, by their ends."""
    latest: dict[bytes | None, Silence | None] = {}
    for key, value, _ in _newest(broker, silences_topic(app), None, None):
        if key not in latest:
            latest[key] = _silence(value)
    return sorted((silence for silence in latest.values() if silence is not None), key=lambda silence: silence.ends)


def add_silence(
    broker: Broker, app: str, matchers: Sequence[str], milliseconds: int, *, author: str = "", comment: str = ""
) -> Silence:
    """Silence the alerts of an app that match, from now on."""
    now = time.time_ns() // 1_000_000
    silence = Silence(
        id=uuid.uuid4().hex[:12],
        matchers=tuple(matchers),
        starts=now,
        ends=now + milliseconds,
        author=author,
        comment=comment,
    )
    _write(broker, app, silence)
    _delete_old(broker, app, now)
    return silence


def expire_silence(broker: Broker, app: str, id: str) -> Silence:
    """End a silence now."""
    silence = next((silence for silence in silences_of(broker, app) if silence.id == id), None)
    if silence is None:
        raise UnknownTableError(f"app {app!r} has no silence {id!r:.80}", hint="see: millstream alerts silences")
    expired = msgspec.structs.replace(silence, ends=min(silence.ends, time.time_ns() // 1_000_000))
    _write(broker, app, expired)
    return expired


def _delete_old(broker: Broker, app: str, now: int) -> None:
    """Delete silences that ended long ago: every notification reads all of them."""
    for silence in silences_of(broker, app):
        if silence.ends < now - _KEEP_MS:
            _append(broker, app, silence.id, None, now)


def _write(broker: Broker, app: str, silence: Silence) -> None:
    _append(broker, app, silence.id, msgspec.json.encode(silence), silence.starts)


def _append(broker: Broker, app: str, id: str, value: bytes | None, timestamp: int) -> None:
    topic, key = silences_topic(app), id.encode()
    create_missing_topics(broker, {topic: COMPACTED})
    partition = partition_of(key, broker.topic(topic).partitions)
    broker.append([Output(topic, partition, block_of([key], [value], [timestamp]))])


def _newest(broker: Broker, topic: str, limit: int | None, budget: ReadBudget | None) -> Iterator[Row]:
    """Yield keys, values and times of each partition, newest first; at most ``limit`` records of each."""
    if topic not in broker.topic_names():
        return
    for partition, bounds in enumerate(broker.offsets(topic)):
        first = bounds.begin if limit is None else max(bounds.begin, bounds.end - limit)
        end, step = bounds.end, _FIRST_STEP
        while end > first:
            start = max(first, end - step)
            rows: list[Row] = []
            for chunk in broker.read(topic, partition, start, end):
                if budget is not None and not budget.allows(chunk.block.nbytes):
                    return
                keys, values, timestamps, _ = rows_of(chunk.block)
                rows += zip(keys, values, timestamps, strict=True)
            yield from reversed(rows)
            end, step = start, min(2 * step, _MAX_STEP)


def _event(value: bytes | None) -> AlertEvent | None:
    """Return an event; what another program has written to the topic is left out."""
    try:
        return None if value is None else decode_json(value, AlertEvent)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _silence(value: bytes | None) -> Silence | None:
    """Return a silence; what another program has written to the topic is left out."""
    try:
        return None if value is None else decode_json(value, Silence)
    except (msgspec.MsgspecError, RecursionError, DefinitionError):
        return None
