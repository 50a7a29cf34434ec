"""Partitions added under a running app: adopted where no state is kept by partition, else the app stops in time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.spark.apps import keyed, words
from tests.spark.conftest import Feed

from millstream import App
from millstream.batch.journal import Journal
from millstream.batch.report import BatchReport
from millstream.broker import Output
from millstream.errors import PartitionsAddedError
from millstream.foundation.blocks import block_of
from millstream.foundation.paths import journal_dir
from millstream.log import EmbeddedLog

pytestmark = pytest.mark.spark


def grow(app: App, topic: str) -> None:
    with EmbeddedLog(app.data_dir) as log:
        log.alter_topic(topic, partitions=4)
        log.append([Output(topic, partition, block_of([b"k"], [b"new"], [99])) for partition in range(4)])


@pytest.mark.parametrize("trigger", ["auto", "realtime"])
def test_new_partitions_are_read_where_only_later_stages_have_state(tmp_path: Path, feed: Feed, trigger: str) -> None:
    words.data_dir = tmp_path
    feed(words, "lines", [b"a b a", b"c"])
    counted = threading.Event()

    def on_batch(report: BatchReport) -> None:
        if "lines/3" in Journal(journal_dir(tmp_path, "words"), readonly=True).read()[0].positions:
            counted.set()

    run = words.start(trigger=trigger, on_batch=on_batch)  # type: ignore[arg-type]
    try:
        grow(words, "lines")
        assert counted.wait(60)
    finally:
        run.stop()
        run.wait(60)
    assert dict(words.tables["words"].items()) == {"a": 2, "b": 1, "c": 1, "new": 4}


def test_an_app_with_state_by_partition_stops_and_skips_nothing(tmp_path: Path, feed: Feed) -> None:
    keyed.data_dir = tmp_path
    feed(keyed, "numbers", [b"1", b"2"])
    counted = threading.Event()
    run = keyed.start(on_batch=lambda _report: counted.set())
    assert counted.wait(60)
    grow(keyed, "numbers")
    message = "'numbers' has 4 partitions, but the app started when it had 2, and its state is kept by partition"
    with pytest.raises(PartitionsAddedError, match=message):
        run.wait(60)
    progress, _ = Journal(journal_dir(tmp_path, "keyed"), readonly=True).read()
    assert sorted(progress.positions) == ["numbers/0", "numbers/1"]
