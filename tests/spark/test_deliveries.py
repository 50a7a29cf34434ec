"""Deliveries of to_spark: all rows, the same rows for the same id, errors with the name of the step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.errors import AnalysisException, PySparkException
from tests.spark.conftest import Feed

from millstream import App, Config
from millstream.admin.reset import execute_reset, planned_reset
from millstream.admin.savepoints import create_savepoint, restore_savepoint
from millstream.batch.connector_status import ConnectorStatus
from millstream.errors import DefinitionError, DeliveryError, DeliveryFunctionError
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.metrics.prometheus import metrics_text
from millstream.spark.deliveries import _delivery_error
from millstream.testing import TestDriver
from millstream.views.status import status_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

Batches = list[tuple[int, list[int]]]


class Lake:
    """Collects rows; if ``is_failing``, it raises after that."""

    def __init__(self) -> None:
        self.batches: Batches = []
        self.is_failing = False
        self.called = threading.Event()

    def __call__(self, frame: Any, batch: int) -> None:
        self.batches.append((batch, sorted(row.n for row in frame.collect())))
        self.called.set()
        if self.is_failing:
            raise RuntimeError("the lake is dry")


@pytest.fixture
def lake() -> Lake:
    return Lake()


def app_to(lake: Callable[..., None], directory: Path, **settings: Any) -> App:
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
    with pytest.raises(DeliveryError, match="to_spark step 'lake' failed on batch 1: RuntimeError: the lake is dry"):
        app.run("caught-up")
    feed(app, "numbers", [b"9"])
    lake.is_failing = False
    app.run("caught-up")
    assert lake.batches == [(1, [0, 1, 2, 3, 4])] * 4 + [(2, [9])]  # three attempts, then the next run


def test_an_outage_of_the_target_does_not_stop_the_app(tmp_path: Path, feed: Feed, lake: Lake) -> None:
    """The app goes on, the lag of the delivery is visible, and everything is delivered after the outage."""
    processed = threading.Semaphore(0)
    feed(app := app_to(lake, tmp_path), "numbers", [b"1"])
    lake.is_failing = True
    run = app.start(on_batch=lambda report: processed.release())
    assert processed.acquire(timeout=100)
    assert lake.called.wait(100)
    feed(app, "numbers", [b"2", b"3"])
    assert processed.acquire(timeout=100)  # the app has processed what arrived during the outage
    failing = _delivery_when(app, lambda delivery: delivery.failure is not None and delivery.waiting == 3)
    assert failing.failure is not None
    assert "the lake is dry" in failing.failure.message
    attempt = f"attempt {failing.failure.attempts} failed (user code)"
    assert str(failing).startswith(f"lake: 3 waiting; {attempt}: to_spark step 'lake'")
    metrics = metrics_text(tmp_path)
    assert 'millstream_connector_waiting{app="lake-app",connector="lake"} 3' in metrics
    assert 'millstream_connector_failing{app="lake-app",connector="lake"} 1' in metrics
    lake.is_failing = False
    delivered = _delivery_when(app, lambda delivery: delivery.failure is None and delivery.waiting == 0)
    assert delivered.batch == 2
    run.stop()
    assert run.wait(100)
    assert dict(lake.batches) == {1: [1], 2: [2, 3]}


@pytest.mark.parametrize(
    ("error", "is_mistake"),
    [(ConnectionRefusedError("down"), False), (TimeoutError("slow"), False), (PySparkException("executor lost"), False),
     (KeyError("amount"), True), (AnalysisException("no such column"), True), (FileNotFoundError("/lake"), True)],
)  # fmt: skip
def test_an_outage_is_distinguished_from_a_mistake_in_the_function(error: Exception, is_mistake: bool) -> None:
    assert isinstance(_delivery_error("lake", 1, error), DeliveryFunctionError) is is_mistake


def test_a_mistake_names_the_line_of_the_function() -> None:
    row: dict[str, int] = {}
    try:
        row["amount"]
    except KeyError as error:
        problem = _delivery_error("lake", 1, error)
    assert "KeyError: 'amount' (" in problem.message
    assert "test_deliveries.py:" in problem.facts["line"]


def _delivery_when(app: App, condition: Callable[[ConnectorStatus], bool]) -> ConnectorStatus:
    """Wait until the status that any process can read meets a condition."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        for delivery in status_of(app.data_dir, app.id).connectors:
            if condition(delivery):
                return delivery
        threading.Event().wait(0.05)
    raise AssertionError(f"not within 100 s: {status_of(app.data_dir, app.id).connectors}")


class DeltaLake:
    """A Delta table that skips transactions it has seen, as Spark's Delta does with txnAppId and txnVersion."""

    def __init__(self, path: Path, *, with_lineage: bool) -> None:
        self._path = str(path)
        self._with_lineage = with_lineage

    def __call__(self, frame: Any, batch: int, lineage: str) -> None:
        transaction = f"lake-app {lineage}" if self._with_lineage else "lake-app"
        is_new = not DeltaTable.is_deltatable(self._path)
        seen = None if is_new else DeltaTable(self._path).transaction_version(transaction)
        if seen is None or batch > seen:
            properties = CommitProperties(app_transactions=[Transaction(app_id=transaction, version=batch)])
            rows = pyarrow.table({"n": [row.n for row in frame.collect()]})
            write_deltalake(self._path, rows, mode="append", commit_properties=properties)

    @property
    def rows(self) -> list[int]:
        values: list[int] = pyarrow.table(DeltaTable(self._path).to_pyarrow_table())["n"].to_pylist()
        return sorted(values)


@pytest.mark.parametrize("with_lineage", [True, False])
def test_a_target_that_remembers_ids_gets_the_rows_of_a_new_lineage(
    tmp_path: Path, feed: Feed, with_lineage: bool
) -> None:
    """Without the lineage the rows after a reset are dropped, which is why the function gets it."""
    lake = DeltaLake(tmp_path / "lake", with_lineage=with_lineage)
    feed(app := app_to(lake, tmp_path / "data"), "numbers", [b"1", b"2"])
    app.run("caught-up")
    assert lake.rows == [1, 2]
    with EmbeddedLog(app.data_dir) as log:
        execute_reset(log, app.data_dir, planned_reset(log, app.data_dir, app.id, "latest"))
        for partition, offsets in enumerate(log.offsets("lake-app.to-spark.lake")):
            log.delete_before("lake-app.to-spark.lake", partition, offsets.end)
    close_environments(app.data_dir)
    feed(app, "numbers", [b"3"])
    app.run("caught-up")
    assert lake.rows == ([1, 2, 3] if with_lineage else [1, 2])


def test_a_restored_savepoint_starts_a_new_lineage(tmp_path: Path, feed: Feed) -> None:
    lineages: list[tuple[int, str]] = []
    app = app_to(lambda frame, batch, lineage: lineages.append((batch, lineage)), tmp_path)
    feed(app, "numbers", [b"1"])
    app.run("caught-up")
    create_savepoint(tmp_path, app.id, "before", tmp_path / "savepoints")
    feed(app, "numbers", [b"2"])
    app.run("caught-up")
    restore_savepoint(tmp_path, app.id, "before", tmp_path / "savepoints")
    app.run("caught-up")
    assert [batch for batch, _ in lineages] == [1, 2, 1]
    assert lineages[0][1] == lineages[1][1] != lineages[2][1]


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
    with pytest.raises(DefinitionError, match="two sources or sinks are named 'lake'"):
        app.stream("numbers", value=int).to_spark(lake, name="lake")


def test_the_test_driver_shows_the_records_for_spark(tmp_path: Path, lake: Lake) -> None:
    with TestDriver(app_to(lake, tmp_path)) as driver:
        driver.topic("numbers").pipe(1, 2)
        assert driver.topic("lake-app.to-spark.lake").read_values() == [{"n": 1}, {"n": 2}]
