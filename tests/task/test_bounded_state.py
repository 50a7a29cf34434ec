"""State is bounded by retention: operators run over 100 times their retention without growing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import (
    App,
    Processor,
    Record,
    collect_of,
    count_of,
    hopping,
    join_window,
    quantile_of,
    session,
    sliding,
    tumbling,
    until_time_limit,
    until_window_closes,
    window_store,
)
from millstream.batch.batch import Batch, Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.broker import Output
from millstream.dsl.grouped import GroupedStream
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.task.environment import TaskEnvironment
from millstream.task.task_input import Range

MINUTE = 60_000
RETENTION = 10 * MINUTE
BATCHES = 50
PER_BATCH = 2 * RETENTION  # of event time: 100 retentions in all
KEYS = 4
STEP = MINUTE  # the interval between two records of a key


def grouped(app: App) -> GroupedStream:
    return app.stream("in", value=int).group_by_key()


def streams(app: App) -> tuple[Stream, Stream]:
    return app.stream("in", value=int), app.stream("other", value=int)


def tables(app: App) -> tuple[Stream, Table]:
    return app.stream("in", value=int), app.table("other", value=int, history="10 min", name="rows")


def waiting(stream: Stream, table: Table) -> None:
    stream.join(table, lambda a, b: a + b, grace="5 min").to("out")


class Dedupe(Processor):
    stores = {"seen": window_store(retention="10 min")}  # as in user code

    def process(self, record: Record) -> None:
        self.context.store("seen").put(record.key, record.value, record.timestamp)
        self.context.forward(record)


WITHIN = join_window("4 min", grace="2 min")
OPERATORS: dict[str, Callable[[App], Any]] = {
    "tumbling": lambda app: grouped(app).windowed_by(tumbling("8 min", grace="2 min")).count(),
    "hopping": lambda app: grouped(app).windowed_by(hopping("8 min", every="2 min", grace="2 min")).count(),
    "sliding": lambda app: grouped(app).windowed_by(sliding("4 min", grace="2 min")).count(),
    "session": lambda app: grouped(app).windowed_by(session(gap="30 s", grace="9 min")).count(),
    "tumbling final": lambda app: (
        grouped(app).windowed_by(tumbling("8 min", grace="2 min")).emit("final").agg(n=count_of(), all=collect_of())
    ),
    "session final": lambda app: grouped(app).windowed_by(session(gap="30 s", grace="9 min")).emit("final").count(),
    "ready": lambda app: (
        grouped(app).windowed_by(tumbling("8 min", grace="2 min")).agg(all=collect_of(), median=quantile_of(0.5))
    ),
    "cogroup": lambda app: (
        grouped(app)
        .cogroup(lambda n, value: n + value)
        .cogroup(app.stream("other", value=int).group_by_key(), lambda n, value: n - value)
        .windowed_by(tumbling("8 min", grace="2 min"))
        .aggregate(lambda: 0)
    ),
    "join": lambda app: streams(app)[0].join(streams(app)[1], lambda a, b: a + b, within=WITHIN).to("out"),
    "left join": lambda app: streams(app)[0].left_join(streams(app)[1], lambda a, b: [a, b], within=WITHIN).to("out"),
    "outer join": lambda app: streams(app)[0].outer_join(streams(app)[1], lambda a, b: [a, b], within=WITHIN).to("out"),
    "suppress until windows close": lambda app: (
        grouped(app)
        .windowed_by(tumbling("8 min", grace="2 min"))
        .count()
        .suppress(until_window_closes())
        .to_stream()
        .to("out")
    ),
    "suppress until a time limit": lambda app: (
        grouped(app)
        .windowed_by(tumbling("8 min", grace="2 min"))
        .count()
        .suppress(until_time_limit("5 min"))
        .to_stream()
        .to("out")
    ),
    "table with history": lambda app: tables(app),
    "join with history, waiting": lambda app: waiting(*tables(app)),
    "window store of a processor": lambda app: app.stream("in", value=int).process(Dedupe).to("out"),
}


@pytest.mark.parametrize("caching", [True, False], ids=["caching", "every update"])
@pytest.mark.parametrize("name", OPERATORS)
def test_state_does_not_grow_with_the_number_of_records(
    name: str, caching: bool, make_env: Callable[..., TaskEnvironment], log: EmbeddedLog
) -> None:
    app = App("bounded")
    OPERATORS[name](app)
    sizes = sizes_of(make_env(app, caching=caching), log)
    steady = max(sizes[2:6])  # after a few retentions the state has its full size
    assert 0 < steady < KEYS * PER_BATCH / STEP * 8  # less than all windows of two batches
    assert max(sizes[6:]) <= steady * 1.25, sizes


def sizes_of(env: TaskEnvironment, log: EmbeddedLog) -> list[int]:
    """Run over 100 retentions of input and return how many entries all stores have after each batch."""
    topics, names, progress = env.layout.plan.source_topics, task_names(env.layout), Progress()
    sizes: list[int] = []
    for number in range(BATCHES):
        times = [time for time in range(number * PER_BATCH, (number + 1) * PER_BATCH, STEP) for _ in range(KEYS)]
        keys = [b"k%d" % (row % KEYS) for row in range(len(times))]
        ranges = []
        for topic in topics:
            log.append([Output(topic, 0, block_of(keys, [b"%d" % (time % 7) for time in times], times))])
            ranges.append(Range(topic, 0, number * len(times), (number + 1) * len(times)))
        plan = Batch(number=number + 1, wall_time=0, ranges=tuple(ranges))
        reports = run_batch(env, plan, progress.versions)
        progress = progress_after(progress, plan, names, reports)
        sizes.append(sum(count for report in reports for count in report.rows.values()))
    return sizes
