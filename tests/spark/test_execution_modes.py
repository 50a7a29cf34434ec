"""The output is the same in every execution mode: a property, with random input and a random mode for each batch."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.spark.apps import levels, windows

from millstream import App, Config
from millstream.batch.trigger import TriggerMode
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.spark, pytest.mark.timeout(280)]

MODES: dict[str, tuple[TriggerMode, int]] = {
    "parallel": ("auto", 0),
    "single": ("auto", 10_000),
    "resident": ("realtime", 10_000),
}
WORDS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=4).map(" ".join)
LINE = st.tuples(st.integers(0, 1), st.integers(0, 200), WORDS)
"""Partition, timestamp, text."""
BATCHES = st.lists(
    st.tuples(st.sampled_from(sorted(MODES)), st.lists(LINE, min_size=1, max_size=30)), min_size=1, max_size=3
)
Output_ = dict[tuple[str, int, Any], list[Any]]


@given(BATCHES)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("app", [levels, windows], ids=lambda app: app.id)
def test_output_does_not_depend_on_the_execution_mode(
    app: App, batches: list[tuple[str, list[tuple[int, int, str]]]]
) -> None:
    expected = outcome(app, [("single", lines) for _, lines in batches])
    assert outcome(app, batches) == expected
    assert outcome(app, [("resident", lines) for _, lines in batches]) == expected


def outcome(
    app: App, batches: list[tuple[str, list[tuple[int, int, str]]]]
) -> tuple[Output_, dict[str, dict[Any, Any]]]:
    """Run each part of the input as one batch in its mode; return the outputs by key, in order, and the tables."""
    with temporary_directory() as directory, EmbeddedLog(directory) as log:
        app.data_dir = directory
        log.create_topic("lines", TopicConfig(partitions=2))
        for mode, lines in batches:
            trigger, small = MODES[mode]
            app.config = Config(partitions=2, caching=False, small_batch_records=small, durability="os")
            for partition in range(2):
                mine = [(time, text.encode()) for part, time, text in lines if part == partition]
                if mine:
                    times, values = [time for time, _ in mine], [text for _, text in mine]
                    log.append([Output("lines", partition, block_of([None] * len(mine), values, times))])
            app.run("caught-up", trigger=trigger)
        return outputs(app, log), {name: dict(table.items()) for name, table in app.tables.items()}


def outputs(app: App, log: EmbeddedLog) -> Output_:
    records: Output_ = defaultdict(list)
    for topic in app.plan.sink_topics:
        for partition, offsets in enumerate(log.offsets(topic)):
            for chunk in log.read(topic, partition, 0, offsets.end):
                for record in chunk.block.to_pylist():
                    records[topic, partition, record["key"]].append((record["value"], record["timestamp"]))
    return records


@contextmanager
def temporary_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        try:
            yield Path(name)
        finally:
            close_environments(Path(name))
