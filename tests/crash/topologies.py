"""The topologies of crash trials, one of each kind; ``oracle.py`` has the results that each must have.

Caching is off, so that every update is visible: a lost record is a gap, a duplicate is a repetition. ``chance`` is not
deterministic: running its functions again gives other results.
"""

from __future__ import annotations

import json
import os
import random

from tests.crash import failpoints
from tests.crash.events import KEYS, Event

from millstream import App, Config, join_window, tumbling

failpoints.install()

DATA_DIR = os.environ.get("MILLSTREAM_CRASH_DIR", "crash-data")
MASTER = os.environ.get("MILLSTREAM_CRASH_MASTER", "local[2]")
CONFIG = Config(
    partitions=2,
    caching=False,
    max_batch_records=300,
    small_batch_records=100,
    master=MASTER,
    stuck_after=os.environ.get("MILLSTREAM_CRASH_STUCK") or None,
    guarantee="at_least_once" if os.environ.get("MILLSTREAM_CRASH_REPEATS") else "exactly_once",
    spark=json.loads(os.environ.get("MILLSTREAM_CRASH_SPARK", "{}")),
)
NEAR_MS = 15

stateless = App("stateless", data_dir=DATA_DIR, config=CONFIG)
_complete = stateless.stream("events", value=Event).filter(lambda event: event.is_whole)
_complete.to("stateless-out")
_complete.to("stateless-copy")  # a task with two outputs can die between them

two_levels = App("two_levels", data_dir=DATA_DIR, config=CONFIG)
(
    two_levels.stream("events", value=Event)
    .group_by(lambda event: event.value % 13)
    .count(name="thirteenths")
    .to_stream()
    .to("two_levels-out")
)

three_levels = App("three_levels", data_dir=DATA_DIR, config=CONFIG)
(
    three_levels.stream("events", value=Event)
    .group_by(lambda event: event.value % 13)
    .count(name="first")
    .to_stream()
    .group_by(lambda _, count: count, name="by_count")
    .count(name="reached")
    .to_stream()
    .to("three_levels-out")
)

windowed = App("windowed", data_dir=DATA_DIR, config=CONFIG)
(
    windowed.stream("events", value=Event)
    .group_by_key()
    .windowed_by(tumbling("200 ms", grace="1 d"))
    .count(name="per_window")
    .to_stream(lambda window, _: f"{window.key}/{window.start}")
    .to("windowed-out")
)

pairs = App("pairs", data_dir=DATA_DIR, config=CONFIG)
(
    pairs.stream("events", value=Event)
    .join(
        pairs.stream("sides", value=Event),
        lambda event, side: [event.number, side.number],
        within=join_window(f"{NEAR_MS} ms", grace="1 d"),
        name="near",
    )
    .to("pairs-out")
)

tables = App("tables", data_dir=DATA_DIR, config=CONFIG)
(
    tables.table("events", value=Event)
    .join(tables.table("sides", value=Event), lambda event, side: [event.number, side.number], name="joined")
    .to_stream()
    .to("tables-out")
)

foreign = App("foreign", data_dir=DATA_DIR, config=CONFIG)
(
    foreign.table("events", value=Event)
    .join(
        foreign.table("sides", value=Event),
        lambda event, side: [event.number, side.number],
        on=lambda event: f"k{event.value % KEYS}",
        name="looked_up",
    )
    .to_stream()
    .to_table(name="found")
    .to_stream()
    .to("foreign-out")
)

chance = App("chance", data_dir=DATA_DIR, config=CONFIG)
(
    chance.stream("events", value=Event)
    .group_by(lambda _: random.randrange(7))
    .count(name="groups")
    .to_stream()
    .to("chance-out")
)

APPS = (stateless, two_levels, three_levels, windowed, pairs, tables, foreign, chance)
CHOSEN = tuple(app for app in APPS if app.id in os.environ.get("MILLSTREAM_CRASH_APPS", app.id).split(","))
