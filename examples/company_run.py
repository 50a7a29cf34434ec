"""Start the servers of the company, place orders, and show what arrived where. Used by shop_company."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import psycopg
import redis
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from tests.servers.debian import NoServerError
from tests.servers.opensearch import OpenSearchServer
from tests.servers.postgres import Postgres
from tests.servers.receiver import Receiver, receiver
from tests.servers.redis import RedisServer

from millstream import App
from millstream.connectors.http_requests import send
from millstream.testing.kafka.node import free_port

PEOPLE = (("ann", "Ann", "Bern"), ("bob", "Bob", "Basel"), ("cleo", "Cleo", "Bern"), ("dan", "Dan", "Zug"))
PRODUCTS = (("lamp", 39.0), ("chair", 120.0), ("desk", 480.0), ("sofa", 1_250.0))
CATCH_UP_SECONDS = 90.0
SEED = 4


class Mailbox:
    """Keeps the mails that it receives."""

    def __init__(self) -> None:
        self.mails: list[Message] = []

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content))
        return "250 ok"


class Company:
    """The servers of the company, all on this machine."""

    def __init__(self, postgres: Postgres, cache: RedisServer, search: OpenSearchServer, chat: Receiver) -> None:
        self.postgres, self.cache, self.search, self.chat = postgres, cache, search, chat
        self.mailbox = Mailbox()
        self.mail_port = free_port()

    def addresses(self) -> dict[str, str]:
        """Return the variables that the app reads."""
        return {
            "SHOP_DATABASE": self.postgres.url("shop"),
            "SHOP_WAREHOUSE": self.postgres.url("warehouse"),
            "SHOP_CACHE": self.cache.url,
            "SHOP_SEARCH": self.search.url,
            "SHOP_MAIL": f"smtp://127.0.0.1:{self.mail_port}",
            "SHOP_CHAT": self.chat.url,
        }

    def prepare(self) -> None:
        """Create the databases, their tables and the customers."""
        for database in ("shop", "warehouse"):
            self.postgres.execute(f"CREATE DATABASE {database}")
        columns = "id text PRIMARY KEY, name text, email text, city text"
        self.sql("shop", f"CREATE TABLE customers ({columns})")
        self.sql("shop", "CREATE TABLE orders (id serial PRIMARY KEY, customer text, product text, total float)")
        for number, name, city in PEOPLE:
            row = (number, name, f"{number}@example.org", city)
            self.sql("shop", "INSERT INTO customers VALUES (%s, %s, %s, %s)", *row)

    def sql(self, database: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement in one of the databases, and return its rows."""
        with psycopg.connect(self.postgres.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def revenue(self) -> dict[str, float]:
        """Return the table of the warehouse."""
        try:
            return dict(self.sql("warehouse", "SELECT city, value FROM revenue"))
        except psycopg.errors.UndefinedTable:
            return {}

    def spent(self) -> dict[str, float]:
        """Return what the cache says of customers."""
        with redis.Redis.from_url(self.cache.url, decode_responses=True) as client:
            keys = sorted(client.scan_iter("spent:*"))
            return {str(key)[6:]: float(client.get(key) or 0) for key in keys}

    def count_sales(self, words: str) -> int:
        """Return how many sales the search finds."""
        query = json.dumps({"query": {"query_string": {"query": words}}}).encode()
        headers = {"content-type": "application/json"}
        send("search", f"{self.search.url}/sales/_refresh", b"", headers)
        answer = send("search", f"{self.search.url}/sales/_count", query, headers)
        return int(json.loads(answer.body)["count"]) if answer.is_success else 0  # without an index there are none


@contextmanager
def running(directory: Path) -> Iterator[Company]:
    """Start all servers, and stop them."""
    with ExitStack() as stack:
        postgres = Postgres()
        stack.callback(postgres.remove)
        postgres.create().start()
        print("  Postgres   ", postgres.url())
        cache = RedisServer(directory / "redis")
        cache.start()
        stack.callback(cache.stop)
        print("  Redis      ", cache.url)
        search = OpenSearchServer(directory / "search")
        search.start()
        stack.callback(search.stop)
        print("  OpenSearch ", search.url)
        company = Company(postgres, cache, search, stack.enter_context(receiver()))
        mail = Controller(company.mailbox, hostname="127.0.0.1", port=company.mail_port)
        mail.start()
        stack.callback(mail.stop)
        print("  mail, chat ", f"smtp://127.0.0.1:{company.mail_port}", company.chat.url)
        yield company


def place_orders(company: Company, seconds: float) -> list[tuple[str, str, float]]:
    """Place orders at random times, and let a customer move in between; return the orders."""
    choice = random.Random(SEED)
    placed: list[tuple[str, str, float]] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        customer, _, _ = choice.choice(PEOPLE)
        product, total = PRODUCTS[min(choice.randrange(5), len(PRODUCTS) - 1)]
        company.sql(
            "shop", "INSERT INTO orders (customer, product, total) VALUES (%s, %s, %s)", customer, product, total
        )
        placed.append((customer, product, total))
        if len(placed) == 5:
            company.sql("shop", "UPDATE customers SET city = 'Zug' WHERE id = 'ann'")
            print("  Ann moves from Bern to Zug")
        time.sleep(choice.uniform(0.1, 0.5))
    return placed


def expected(placed: list[tuple[str, str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the revenue of each city and what each customer has spent."""
    cities = {number: city for number, _, city in PEOPLE} | ({"ann": "Zug"} if len(placed) >= 5 else {})
    by_city: dict[str, float] = {}
    by_customer: dict[str, float] = {}
    for customer, _, total in placed:
        by_city[cities[customer]] = by_city.get(cities[customer], 0.0) + total
        by_customer[customer] = by_customer.get(customer, 0.0) + total
    return by_city, by_customer


def has_arrived(company: Company, placed: list[tuple[str, str, float]]) -> bool:
    """Return whether all systems have what they should have."""
    by_city, by_customer = expected(placed)
    revenue = {city: total for city, total in company.revenue().items() if total}
    is_announced = not any(total > 900 for _, _, total in placed) or bool(company.chat.received)
    return (
        revenue == by_city
        and company.spent() == by_customer
        and company.count_sales("*") == len(placed)
        and len(company.mailbox.mails) >= len(placed)
        and is_announced
    )


def show(company: Company, placed: list[tuple[str, str, float]]) -> None:
    """Print what each system has."""
    print(f"\n{len(placed)} orders, {sum(total for _, _, total in placed):,.2f} EUR")
    print("warehouse (Postgres):", {city: total for city, total in sorted(company.revenue().items()) if total})
    rates = company.sql("warehouse", "SELECT window_start, value FROM order_rate ORDER BY 1")
    print("orders per 10 s (Postgres):", [count for _, count in rates])
    print("spent (Redis):", company.spent())
    print(f"search (OpenSearch): {company.count_sales('*')} sales, {company.count_sales('product:sofa')} of them sofas")
    print(f"mails: {len(company.mailbox.mails)}, the last: {company.mailbox.mails[-1]['Subject']!r}")
    for message in company.chat.received[:3]:
        print("chat:", json.loads(message.body)["text"].replace("\n", " | ")[:140])


def main() -> None:
    """Run the company for some seconds; the exit code says whether everything has arrived."""
    parser = argparse.ArgumentParser(prog="./dev example shop_company")
    parser.add_argument("--seconds", type=float, default=20.0, help="for how long orders are placed")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="millstream-company-") as scratch:
        print("starting the servers of the company; the first time, their packages are downloaded")
        try:
            with running(Path(scratch)) as company:
                sys.exit(run(company, Path(scratch), seconds))
        except NoServerError as reason:
            sys.exit(f"error: a server cannot be started: {reason}")


def run(company: Company, scratch: Path, seconds: float) -> int:
    """Start the app, place orders, wait until all systems have them, and show them."""
    company.prepare()
    os.environ.update(company.addresses())
    app: App = importlib.import_module("examples.shop_company").app
    app.data_dir = scratch / "data"
    print("starting the app on Spark")
    app.start()
    try:
        print(f"placing orders for {seconds:g} s")
        placed = place_orders(company, seconds)
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while not (is_complete := has_arrived(company, placed)) and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        app.stop()
    show(company, placed)
    print("everything has arrived, each order once" if is_complete else f"not complete: expected {expected(placed)}")
    return 0 if is_complete else 1
