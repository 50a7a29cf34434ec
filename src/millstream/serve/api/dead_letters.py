"""Dead letters and late records: records that could not be processed, and why; replay dead letters."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from millstream.admin.dead_letter_replay import Replay, remaining_offsets, replay_remaining, replay_selected
from millstream.broker import Broker
from millstream.serve.api.apps import AppParams
from millstream.serve.api.params import Limit, Name
from millstream.serve.api.records import RecordView, record_view
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.dead_letters import DeadLetter, read_dead_letter, read_dead_letters


class DeadLetterDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A record that could not be processed; ``position`` identifies it, ``origin`` is its original position."""

    position: str
    origin: str
    topic: str
    timestamp: int
    stage: str
    node: str
    error: str
    message: str
    stacktrace: str
    record: RecordView


class DeadLetterOverview(msgspec.Struct, frozen=True, kw_only=True):
    """The newest dead letters of an app, newest first; ``waiting`` counts those that were not replayed yet."""

    app: str
    topic: str
    dead_letters: list[DeadLetterDetail]
    waiting: int
    late: dict[str, int]
    dropped: dict[str, int]
    late_topics: list[str]


class DeadLetterParams(msgspec.Struct, frozen=True, kw_only=True):
    app: Name
    limit: Limit = 50


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dead letters to replay: those at ``positions``, or with ``all`` every one that was not replayed yet."""

    positions: Annotated[list[Annotated[str, Meta(max_length=40)]], Meta(max_length=500)] = []
    all: bool = False


def list_dead_letters(site: Site, params: DeadLetterParams) -> DeadLetterOverview:
    """Return the newest dead letters of an app, and the records that it dropped."""
    journal = site.directory.journal(params.app)
    topic = dead_letter_topic(site, params.app)
    unknown: tuple[deque[DeadLetter], int] = (deque(), 0)
    newest, waiting = site.directory.query_broker(lambda broker: _newest(broker, topic, params.limit), unknown)
    dropped = journal.history.totals().dropped
    return DeadLetterOverview(
        app=params.app,
        topic=topic,
        dead_letters=[_detail(letter) for letter in reversed(newest)],
        waiting=waiting,
        late={name: count for name, count in dropped.items() if name.endswith(": late")},
        dropped={name: count for name, count in dropped.items() if not name.endswith(": late")},
        late_topics=_late_topics(journal.catalog().get("plan", {})),
    )


def _newest(broker: Broker, topic: str, limit: int) -> tuple[deque[DeadLetter], int]:
    """Return the newest dead letters, and how many were not replayed yet."""
    if topic not in broker.topic_names():
        return deque(), 0
    waiting = sum(end - start for start, end in remaining_offsets(broker, topic).values())
    return deque(read_dead_letters(broker, topic, newest=limit), limit), waiting


def replay_dead_letters(site: Site, params: AppParams, body: ReplayRequest) -> Replay:
    """Send dead letters back to the topics that they came from."""
    broker = site.directory.broker
    topic = dead_letter_topic(site, params.app)
    if not body.all:
        return replay_selected(broker, [read_dead_letter(broker, topic, position) for position in body.positions])
    replayed = Replay(sent={}, kept={})
    if topic in broker.topic_names():
        for replayed in replay_remaining(broker, topic):  # noqa: B007  the last result has the totals
            pass
    return replayed


def dead_letter_topic(site: Site, app: str) -> str:
    """Return the dead letter topic of an app."""
    return str(site.directory.journal(app).catalog().get("dead_letter_topic") or f"{app}.dead-letters")


def _late_topics(plan: dict[str, Any]) -> list[str]:
    """Return the topics of late records that the plan names."""
    topics = (node.get("late_to") for node in plan.get("nodes", []))
    return sorted({topic for topic in topics if isinstance(topic, str)})


def _detail(letter: DeadLetter) -> DeadLetterDetail:
    return DeadLetterDetail(
        position=letter.position,
        origin=letter.origin,
        topic=letter.topic,
        timestamp=letter.timestamp,
        stage=letter.stage,
        node=letter.node,
        error=letter.error,
        message=letter.message[:4000],
        stacktrace=letter.stacktrace[:20_000],
        record=record_view(letter.record),
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/apps/{app}/dead-letters",
        summary="List the newest dead letters of an app",
        handler=list_dead_letters,
        params=DeadLetterParams,
        result=DeadLetterOverview,
    ),
    Operation(
        method="POST",
        path="/api/apps/{app}/dead-letters/replay",
        summary="Send dead letters back to the topics that they came from",
        handler=replay_dead_letters,
        params=AppParams,
        body=ReplayRequest,
        result=Replay,
    ),
)
