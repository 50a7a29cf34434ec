"""SQL compared with the same Python programs: CPU time of the task runner alone, one partition, one core, no Spark.

The records and the harness are those of benchmarks/operators.py. Both programs of a pair run in turn, several rounds in
one process, so that other work on the machine affects both. The result is the CPU time per record of each, best of all
rounds, and the ratio of SQL to Python.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from benchmarks.operators import Trade, load, measure, scratch

from millstream import App, count_of, max_of, sum_of, tumbling
from millstream.log import EmbeddedLog

SOURCE = """CREATE STREAM trades (id STRING KEY, symbol STRING, price DOUBLE, shares INT, account INT)
    WITH (KAFKA_TOPIC = 'left', VALUE_FORMAT = 'JSON');
"""


class Total(msgspec.Struct):
    """The value of a trade."""

    symbol: str
    total: float


def project(app: App) -> None:
    """Filter and compute a column."""
    trades = app.stream("left", value=Trade).filter(lambda trade: trade.shares > 10)
    trades.map_values(lambda trade: Total(trade.symbol, trade.price * trade.shares)).to("out")


def counts(app: App) -> None:
    """Trades per symbol and minute."""
    trades = app.stream("left", value=Trade).filter(lambda trade: trade.price > 1.0)
    counted = trades.group_by(lambda trade: trade.symbol).windowed_by(tumbling("1 min", grace="1 min")).count()
    counted.to_stream().to("out")


def aggregates(app: App) -> None:
    """Several aggregates per account."""
    by_account = app.stream("left", value=Trade).group_by(lambda trade: trade.account)
    by_account.agg(n=count_of(), shares=sum_of("shares"), high=max_of("price"), name="accounts").to_stream().to("out")


PAIRS: dict[str, tuple[Callable[[App], None], str]] = {
    "filter and project": (
        project,
        """CREATE STREAM totals WITH (KAFKA_TOPIC = 'out') AS
            SELECT id, symbol, price * shares AS total FROM trades WHERE shares > 10;""",
    ),
    "count per minute": (
        counts,
        """CREATE TABLE counts WITH (KAFKA_TOPIC = 'out') AS SELECT symbol, COUNT(*) AS n FROM trades
            WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 MINUTE) WHERE price > 1.0 GROUP BY symbol;""",
    ),
    "three aggregates": (
        aggregates,
        """CREATE TABLE accounts WITH (KAFKA_TOPIC = 'out') AS SELECT account, COUNT(*) AS n,
            SUM(CAST(shares AS BIGINT)) AS shares, MAX(price) AS high FROM trades GROUP BY account;""",
    ),
}
"""The Python program and the SQL of each pair."""


def define_sql(text: str, app: App) -> None:
    """Define the program that is written in SQL."""
    app.sql(SOURCE + text)


def main() -> None:
    """Measure all pairs and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only pairs whose name contains this")
    parser.add_argument("--every-update", action="store_true", help="forward every update: disable caching")
    parser.add_argument("--profile", action="store_true", help="print a profile of each run")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    with scratch() as directory, EmbeddedLog(directory / "log", durability="os") as log:
        load(log, arguments.records)
        print(f"{'program':<24}{'Python µs':>12}{'SQL µs':>12}{'ratio':>8}")
        for name, (define, text) in PAIRS.items():
            if arguments.only not in name:
                continue
            sides: dict[str, Callable[[App], None]] = {"python": define, "sql": partial(define_sql, text)}
            rates: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(arguments.rounds):
                for side, program in sides.items():
                    rates[side].append(measure(log, program, arguments, directory / "state"))
            python, sql = (1e6 / max(rates[side]) for side in sides)
            results[name] = {"python": python, "sql": sql, "ratio": sql / python}
            print(f"{name:<24}{python:>12.2f}{sql:>12.2f}{sql / python:>8.2f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
