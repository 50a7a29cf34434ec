"""A small company: orders in Postgres, and everything that has to happen when one is placed.

./dev example shop_company --seconds 20     starts its servers, places orders, and shows what arrived where

The addresses of the systems are environment variables, so that the same file runs with your own servers.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from millstream import App, Config, tumbling
from millstream.connectors.email import Email
from millstream.connectors.opensearch import OpenSearch
from millstream.connectors.postgres_cdc import PostgresCdc
from millstream.connectors.redis import Redis
from millstream.connectors.slack import Slack
from millstream.connectors.sql_tables import PostgresTable

LARGE = 900.0


class Customer(msgspec.Struct):
    """A row of the table customers; the key is its id."""

    id: str
    name: str
    email: str
    city: str


class Order(msgspec.Struct):
    """A row of the table orders; the key is its id."""

    id: int
    customer: str
    product: str
    total: float


class Sale(msgspec.Struct):
    """An order together with its customer."""

    customer: str
    name: str
    email: str
    city: str
    product: str
    total: float


def sale(order: Order, customer: Customer) -> Sale:
    """Join an order and its customer."""
    return Sale(customer.id, customer.name, customer.email, customer.city, order.product, order.total)


def address(name: str, default: str) -> str:
    """Return the address of a system of the company."""
    return os.environ.get(f"SHOP_{name}", default)


app = App("shop-company", config=Config(partitions=2))

# orders and customers, as they are in the database of the shop
database = address("DATABASE", "postgresql://postgres@127.0.0.1/shop")
changes = PostgresCdc(database, tables=["customers", "orders"], topic="shop.{table}", partitions=2)
shop = app.source(changes, name="shop")
customers = shop.table("customers", key=str, value=Customer)
orders = shop.table("orders", key=int, value=Order)
sales = orders.join(customers, sale, on=lambda order: order.customer)

# the revenue of each city, in a table of the warehouse; it follows a customer who moves
warehouse = address("WAREHOUSE", "postgresql://postgres@127.0.0.1/warehouse")
revenue = sales.group_by(lambda sale: sale.city).sum("total", name="revenue")
revenue.sink(PostgresTable(warehouse, "revenue", key="city"), name="warehouse")

# orders in each ten seconds, beside it
per_window = orders.to_stream().group_by(lambda _order: "all").windowed_by(tumbling("10 s")).count(name="rate")
per_window.to_stream(lambda window, _count: str(window.start)).sink(
    PostgresTable(warehouse, "order_rate", key="window_start"), name="rate-sink"
)

# what each customer has spent, in the cache that the web site asks
spent = sales.group_by(lambda sale: sale.customer).sum("total", name="spent")
spent.sink(Redis(address("CACHE", "redis://127.0.0.1:6379/0"), key="spent:{key}"), name="cache")

# every sale, for the search of the support team
sales.sink(OpenSearch(address("SEARCH", "http://127.0.0.1:9200"), index="sales"), name="search")


def receipt(order: Order, customer: Customer) -> dict[str, Any]:
    """Return what the mail to the customer says."""
    return {"to": customer.email, "name": customer.name, "product": order.product, "total": f"{order.total:.2f}"}


# a receipt as soon as an order is there
receipts = orders.to_stream().map(lambda _number, order: (order.customer, order)).join(customers, receipt)
receipts.sink(
    Email(
        address("MAIL", "smtp://127.0.0.1:25"),
        sender="Shop <shop@example.org>",
        to="{value[to]}",
        subject="Your order: {value[product]}",
        text="Dear {value[name]},\n\nthank you for {value[total]} EUR.\n",
    ),
    name="receipts",
)

# the sales team hears of large orders
large = sales.to_stream().alert(
    "large-order",
    when=lambda sale: sale.total > LARGE,
    summary="{value.name} ordered {value.product} for {value.total}",
)
large.notify(
    Slack(address("CHAT", "http://127.0.0.1:8065/hooks/sales"), text="{value}"),
    name="team",
    group_by=["alertname"],
    group_wait="1 s",
    group_interval="2 s",
)

if __name__ == "__main__":
    from examples.company_run import main

    main()
