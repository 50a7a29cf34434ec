"""An app with a source and a sink on Spark: what the source reads is counted, and the counts are in a table."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from millstream import App, Config
from millstream.batch.connector_status import connector_statuses
from millstream.connectors.sql_tables import SqliteTable
from millstream.testing.connectors import MemorySource

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def test_a_source_a_table_and_a_sink_run_together(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    orders = MemorySource("shop.orders", partitions=2, patience=0.01)
    app = App("shop", data_dir=tmp_path / "data", config=Config(partitions=2, durability="os"))
    shop = app.source(orders, name="orders")
    counts = shop.stream("orders", value=dict).group_by(lambda order: order["city"]).count(name="per_city")
    counts.sink(SqliteTable(path, "cities", key="city"), name="cities")

    for number in range(30):
        orders.put("shop.orders", f"k{number}", {"city": f"c{number % 3}"})
    app.run("caught-up")
    assert _rows(path) == [("c0", 10), ("c1", 10), ("c2", 10)]
    orders.put("shop.orders", "k30", {"city": "c1"})
    app.run("caught-up")
    assert _rows(path) == [("c0", 10), ("c1", 11), ("c2", 10)]
    source, sink = sorted(connector_statuses(tmp_path / "data", "shop"), key=lambda status: status.direction)[::-1]
    assert (source.name, source.state, source.records) == ("orders", "stopped", 1)
    assert (sink.name, sink.guarantee, sink.records, sink.waiting) == ("cities", "exactly once", 1, 0)


def _rows(path: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT city, value FROM cities ORDER BY city").fetchall()
