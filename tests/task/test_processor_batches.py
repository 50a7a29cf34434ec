"""The boundaries of batches do not change what a processor does on stream time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import App, Processor, Record, key_value_store, punctuate, session_store, window_store
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies
from millstream.task.runner import run_task
from millstream.task.task_input import Range, TaskInput


class Busy(Processor):
    """Uses every kind of store, a declared timer, and one that records switch on and off."""

    stores = {
        "sums": key_value_store(),
        "window": window_store(retention="20 ms"),
        "sessions": session_store(retention="20 ms"),
    }

    def process(self, record: Record) -> None:
        context, n = self.context, record.value
        sums, window, sessions = (context.store(name) for name in self.stores)
        sums.put(record.key, sums.get(record.key, 0) + n)
        window.put(record.key, n, record.timestamp)
        sessions.put(record.key, record.timestamp, record.timestamp + n, n)
        if n == 0:
            context.schedule(self.extra, every="7 ms")
        if n == 1:
            context.cancel(self.extra)
        by_session = [(each.start, value) for each, value in sessions.find(record.key)]
        context.forward(record, value=[sums[record.key], window.between(record.key), by_session, context.stream_time])

    @punctuate(every="5 ms")
    def report(self, now: int) -> None:
        for key, total in self.context.store("sums").items():
            self.context.forward(key=key, value=total)

    def extra(self, now: int) -> None:
        self.context.forward(key="extra", value=list(self.context.store("window").items()))
        self.context.store("sums").put("extra", now)


app = App("test")
app.stream("n", value=int).process(Busy, name="busy").to("out")

RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 60)), min_size=1, max_size=25)


@contextmanager
def make_env(records: list[tuple[str, int, int]]) -> Iterator[TaskEnvironment]:
    with TemporaryDirectory() as directory, EmbeddedLog(Path(directory), durability="os") as log:
        for topic in ("n", "out"):
            log.create_topic(topic, TopicConfig(partitions=1))
        keys, values = [key.encode() for key, _, _ in records], [b"%d" % value for _, value, _ in records]
        log.append([Output("n", 0, block_of(keys, values, [time for _, _, time in records]))])
        layout = Layout.of(app.plan, {"n": 1})
        policies = Policies.of(app.id, app.config)
        yield TaskEnvironment("test", layout, log, Path(directory) / "state", policies, caching=False, durable=False)
        close_environments(Path(directory))


def outcome(records: list[tuple[str, int, int]], cuts: list[int]) -> list[Any]:
    with make_env(records) as env:
        version = StateVersion()
        for batch, (start, stop) in enumerate(itertools.pairwise([0, *cuts, len(records)]), 1):
            report, _ = run_task(env, TaskInput(0, batch, 0, version, (Range("n", 0, start, stop),)))
            version = StateVersion(batch, report.commit)
        (offsets,) = env.broker.offsets("out")
        chunks = list(env.broker.read("out", 0, 0, offsets.end))
        return [row for chunk in chunks for row in chunk.block.to_pylist()]


@given(RECORDS, st.data())
@settings(max_examples=25, deadline=None)
def test_batches_do_not_change_what_a_processor_forwards(records: list[tuple[str, int, int]], data: Any) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(records) - 1)), max_size=len(records) - 1)))
    cuts = [cut for cut in cuts if cut < len(records)]
    expected = outcome(records, [])
    assert len(expected) >= len(records)
    assert outcome(records, cuts) == expected
