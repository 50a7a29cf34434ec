"""Deliveries of to_spark: all rows, the same rows for the same id, errors with the name of the step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.spark.conftest import Feed

from millstream import App, Config
from millstream.errors import DefinitionError, ProcessingError
from millstream.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

Batches = list[tuple[int, list[int]]]


class Lake:
    """Collects rows; if ``is_failing``, it raises after that."""

    def __init__(self) -> None:
        self.batches: Batches = []
        self.is_failing = False

    def __call__(self, frame: Any, batch: int) -> None:
        self.batches.append((batch, sorted(row.n for row in frame.collect())))
        if self.is_failing:
            raise RuntimeError("the lake is dry")


@pytest.fixture
def lake() -> Lake:
    return Lake()


def app_to(lake: Lake, directory: Path, **settings: Any) -> App:
    app = App("lake-app", data_dir=directory, config=Config(partitions=2, **settings))
    app.stream("numbers", value=int).map_values(lambda n: {"n": n}).to_spark(lake, name="lake", schema="n INT")
    return app


def test_every_row_arrives_once_and_ids_grow(tmp_path: Path, feed: Feed, lake: Lake) -> None:
    app = app_to(lake, tmp_path, max_batch_records=7)
    feed(app, "numbers", [b"%d" % n for n in range(20)])
    app.run("caught-up")
    feed(app, "numbers", [b"%d" % n for n in range(20, 25)])
    app.run("caught-up")
    assert sorted(n for _, rows in lake.batches for n in rows) == list(range(25))
    assert [batch for batch, _ in lake.batches] == list(range(1, len(lake.batches) + 1))


def test_after_a_failure_the_same_id_has_the_same_rows(tmp_path: Path, feed: Feed, lake: Lake) -> None:
    feed(app := app_to(lake, tmp_path), "numbers", [b"%d" % n for n in range(5)])
    lake.is_failing = True
    with pytest.raises(ProcessingError, match="to_spark step 'lake' failed on batch 1: RuntimeError: the lake is dry"):
        app.run("caught-up")
    feed(app, "numbers", [b"9"])
    lake.is_failing = False
    app.run("caught-up")
    assert lake.batches == [(1, [0, 1, 2, 3, 4]), (1, [0, 1, 2, 3, 4]), (2, [9])]


def test_rows_are_delivered_while_the_app_runs_and_an_error_stops_it(tmp_path: Path, feed: Feed, lake: Lake) -> None:
    feed(app := app_to(lake, tmp_path), "numbers", [b"1"])
    lake.is_failing = True
    with pytest.raises(ProcessingError, match="the lake is dry"):
        app.start().wait(60)
    assert lake.batches == [(1, [1])]


def test_stop_ends_deliveries_and_loses_nothing(tmp_path: Path, feed: Feed, lake: Lake) -> None:
    feed(app := app_to(lake, tmp_path), "numbers", [b"%d" % n for n in range(10)])
    run = app.start()
    run.stop()
    assert run.wait(60)
    app.run("caught-up")
    assert sorted(n for _, rows in lake.batches for n in rows) == list(range(10))


def test_describe_shows_the_guarantee_and_names_are_unique(tmp_path: Path, lake: Lake) -> None:
    app = app_to(lake, tmp_path)
    assert "→ topic lake-app.to-spark.lake (the same rows for the same batch id, at least once)" in app.describe()
    with pytest.raises(DefinitionError, match="two to_spark steps are named 'lake'"):
        app.stream("numbers", value=int).to_spark(lake, name="lake")


def test_the_test_driver_shows_the_records_for_spark(tmp_path: Path, lake: Lake) -> None:
    with TestDriver(app_to(lake, tmp_path)) as driver:
        driver.topic("numbers").pipe(1, 2)
        assert driver.topic("lake-app.to-spark.lake").read_values() == [{"n": 1}, {"n": 2}]
