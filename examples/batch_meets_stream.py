"""Batch meets stream: a table fed by historical and live data, queried with Spark SQL, and a Spark sink.

python -m examples.batch_meets_stream    backfills last year from a DataFrame, runs, and queries in SQL
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from examples.harness import Input, feed, location, temporary_data
from millstream import App

_PRODUCTS = {"p1": "Lamp", "p2": "Kettle", "p3": "Scarf", "p4": "Boots"}
_NOW = 1_772_000_000_000


class Order(msgspec.Struct):
    """An order; the key is the product."""

    product: str
    cents: int


app = App("batch-meets-stream")
orders = app.stream("orders", key=str, value=Order)
orders.group_by_key().sum("cents", name="revenue")


def to_lake(frame: Any, batch_id: int, lineage: str) -> None:
    """Write a batch as Parquet; writing the same batch again has no effect."""
    frame.write.mode("overwrite").parquet(str(app.data_dir / "lake" / f"lineage={lineage}" / f"batch={batch_id}"))


orders.to_spark(to_lake, name="lake", schema="product STRING, cents BIGINT")


def data(seed: int = 7, orders: int = 400) -> Iterator[Input]:
    """Yield today's orders; one in ten is five minutes late."""
    rng = random.Random(seed)
    for number in range(orders):
        product, delay = rng.choice(list(_PRODUCTS)), 300_000 if rng.random() < 0.1 else 0
        yield Input("orders", product, Order(product, rng.randrange(500, 9_900)), _NOW + number * 1_000 - delay)


def last_year(seed: int = 6, orders: int = 300) -> list[tuple[str, int, int]]:
    """Return last year's orders as stored in a warehouse: product, cents, milliseconds; unordered."""
    rng = random.Random(seed)
    start = _NOW - 365 * 86_400_000
    rows = [(rng.choice(list(_PRODUCTS)), rng.randrange(500, 9_900), start + n * 60_000) for n in range(orders)]
    rng.shuffle(rows)
    return rows


def show(app: App) -> None:
    """Join the table with a DataFrame and query the topic, both in SQL, and count the orders in the lake."""
    spark = app.spark
    app.frames().option("table", "revenue").load().createOrReplaceTempView("revenue")
    spark.createDataFrame(list(_PRODUCTS.items()), "id STRING, name STRING").createOrReplaceTempView("products")
    print("\nrevenue by product")
    for row in spark.sql(
        "SELECT name, value / 100 AS amount FROM revenue JOIN products ON id = key ORDER BY amount DESC"
    ).collect():
        print(f"  {row['name']:<8} {row['amount']:>10,.2f}")
    orders = app.frames().schema("product STRING, cents BIGINT, _timestamp TIMESTAMP").option("topic", "orders").load()
    orders.createOrReplaceTempView("orders")
    print("\norders by year, from the topic")
    for row in spark.sql(
        "SELECT year(_timestamp) AS year, count(*) AS orders, max(cents) / 100 AS largest "
        "FROM orders GROUP BY 1 ORDER BY 1"
    ).collect():
        print(f"  {row['year']}  {row['orders']:>4} orders, the largest {row['largest']:.2f}")
    lake = spark.read.parquet(str(app.data_dir / "lake" / "*"))
    print(f"\n{lake.count():,} orders are stored in the lake as Parquet")


def backfill_last_year(app: App) -> int:
    """Write last year's orders from a DataFrame to the topic; return their number."""
    past = app.spark.createDataFrame(last_year(), "product STRING, cents BIGINT, at BIGINT")
    app.backfill(past, topic="orders", key="product", timestamp="at")
    return int(past.count())


def main() -> None:
    """Write today's orders, backfill last year's, process all of them and query the results."""
    with temporary_data(app):
        print(f"batch-meets-stream: wrote {feed(app, data()):,} orders of today to {location(app)}")
        print(f"backfilled {backfill_last_year(app):,} orders of last year from a DataFrame; processing all on Spark …")
        app.run("caught-up")
        show(app)


if __name__ == "__main__":
    main()
