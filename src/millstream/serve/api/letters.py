"""Dead letters and late records: what could not be processed and why; send letters back."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from millstream.admin.dead_letter_replay import Replay, replay_rest, replay_some, unreplayed
from millstream.serve.api.apps import AppParams
from millstream.serve.api.params import Limit, Name
from millstream.serve.api.records import ShownRecord, shown
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.views.dead_letters import DeadLetter, letter_at, letters_in


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A record that could not be processed; ``place`` names it, ``origin`` is where it came from."""

    place: str
    origin: str
    topic: str
    timestamp: int
    stage: str
    node: str
    error: str
    message: str
    stacktrace: str
    record: ShownRecord


class Letters(msgspec.Struct, frozen=True, kw_only=True):
    """The newest letters of an app, newest first; ``waiting`` counts those that were not sent back yet."""

    app: str
    topic: str
    letters: list[Letter]
    waiting: int
    late: dict[str, int]
    dropped: dict[str, int]
    late_topics: list[str]


class LetterParams(msgspec.Struct, frozen=True, kw_only=True):
    app: Name
    limit: Limit = 50


class ReplayWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which letters to send back: those at these places, or with ``all`` every one that was not sent yet."""

    places: Annotated[list[Annotated[str, Meta(max_length=40)]], Meta(max_length=500)] = []
    all: bool = False


def list_letters(site: Site, params: LetterParams) -> Letters:
    """Return the newest dead letters of an app, and what it has dropped."""
    broker, journal = site.place.broker, site.place.journal(params.app)
    topic = letter_topic(site, params.app)
    is_there = topic in broker.topic_names()
    newest = deque(letters_in(broker, topic, newest=params.limit), params.limit) if is_there else deque[DeadLetter]()
    waiting = sum(end - start for start, end in unreplayed(broker, topic).values()) if is_there else 0
    dropped = journal.history.totals().dropped
    return Letters(
        app=params.app,
        topic=topic,
        letters=[_letter(one) for one in reversed(newest)],
        waiting=waiting,
        late={name: count for name, count in dropped.items() if name.endswith(": late")},
        dropped={name: count for name, count in dropped.items() if not name.endswith(": late")},
        late_topics=_late_topics(journal.catalog().get("plan", {})),
    )


def replay_letters(site: Site, params: AppParams, body: ReplayWish) -> Replay:
    """Send letters back to where they came from."""
    broker = site.place.broker
    topic = letter_topic(site, params.app)
    if not body.all:
        return replay_some(broker, [letter_at(broker, topic, place) for place in body.places])
    done = Replay(sent={}, kept={})
    if topic in broker.topic_names():
        for done in replay_rest(broker, topic):  # noqa: B007  the last one has the sums
            pass
    return done


def letter_topic(site: Site, app: str) -> str:
    """Return the topic that holds an app's dead letters."""
    return str(site.place.journal(app).catalog().get("dead_letter_topic") or f"{app}.dead-letters")


def _late_topics(plan: dict[str, Any]) -> list[str]:
    """Return the topics that late records are sent to, as the plan names them."""
    named = (node.get("late_to") for node in plan.get("nodes", []))
    return sorted({topic for topic in named if isinstance(topic, str)})


def _letter(one: DeadLetter) -> Letter:
    return Letter(
        place=one.place,
        origin=one.origin,
        topic=one.topic,
        timestamp=one.timestamp,
        stage=one.stage,
        node=one.node,
        error=one.error,
        message=one.message[:4000],
        stacktrace=one.stacktrace[:20_000],
        record=shown(one.record),
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/apps/{app}/letters",
        summary="List the newest dead letters of an app",
        handler=list_letters,
        params=LetterParams,
        answer=Letters,
    ),
    Operation(
        method="POST",
        path="/api/apps/{app}/letters/replay",
        summary="Send dead letters back to where they came from",
        handler=replay_letters,
        params=AppParams,
        body=ReplayWish,
        answer=Replay,
    ),
)
