"""Batch meets stream: one table fed by history and by what happens now, read by Spark SQL, and a Spark sink.

python -m examples.batch_meets_stream    fills in last year from a DataFrame, runs, and asks in SQL
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from examples.playing import Sent, feed, playground, where
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


def to_lake(frame: Any, batch_id: int) -> None:
    """Write a batch as Parquet; writing the same batch again has no effect."""
    frame.write.mode("overwrite").parquet(str(app.data_dir / "lake" / f"batch={batch_id}"))


orders.to_spark(to_lake, name="lake", schema="product STRING, cents BIGINT")


def data(seed: int = 7, orders: int = 400) -> Iterator[Sent]:
    """Yield the orders of today; one in ten comes five minutes late."""
    pick = random.Random(seed)
    for number in range(orders):
        product, late = pick.choice(list(_PRODUCTS)), 300_000 if pick.random() < 0.1 else 0
        yield Sent("orders", product, Order(product, pick.randrange(500, 9_900)), _NOW + number * 1_000 - late)


def last_year(seed: int = 6, orders: int = 300) -> list[tuple[str, int, int]]:
    """Return orders of last year, as a warehouse would have them: product, cents, milliseconds; in no order."""
    pick = random.Random(seed)
    begin = _NOW - 365 * 86_400_000
    found = [(pick.choice(list(_PRODUCTS)), pick.randrange(500, 9_900), begin + n * 60_000) for n in range(orders)]
    pick.shuffle(found)
    return found


def show(app: App) -> None:
    """Join the table with names from a DataFrame, query the topic, both in SQL, and count what lies in the lake."""
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
        print(f"  {row['year']}  {row['orders']:>4} orders, the largest of {row['largest']:.2f}")
    lake = spark.read.parquet(str(app.data_dir / "lake" / "*"))
    print(f"\n{lake.count():,} orders lie in the lake as Parquet")


def fill_in_the_past(app: App) -> int:
    """Write last year's orders to the topic, out of a DataFrame; return how many."""
    past = app.spark.createDataFrame(last_year(), "product STRING, cents BIGINT, at BIGINT")
    app.backfill(past, topic="orders", key="product", timestamp="at")
    return int(past.count())


def main() -> None:
    """Feed the present, fill in the past, run to the end and ask."""
    with playground(app):
        print(f"batch-meets-stream: {feed(app, data()):,} orders of today are in {where(app)}")
        print(
            f"{fill_in_the_past(app):,} orders of last year were filled in from a DataFrame; processing all on Spark …"
        )
        app.run("caught-up")
        show(app)


if __name__ == "__main__":
    main()
