"""What each query must give: the same events as tables of DuckDB, computed in one batch.

An append-only query gives rows, each as often as it is there. Any other gives a table by its key columns, of which the
last update of each row counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import duckdb
import msgspec
import pyarrow as pa
from benchmarks.nexmark.model import SIDE_ROWS, Auction, Bid, Event, Person, side_rows

Row = Mapping[str, Any]


class Reference(NamedTuple):
    """The SQL of a query, and the columns that identify a row of its result; none if it only appends."""

    sql: str
    key: tuple[str, ...] = ()
    total: str | None = None
    """The results of q12 depend on when it runs: this column of theirs is added up per key."""


_VALID = """(SELECT a.id, a.item, a.seller, a.category, b.bidder, b.price, b.time
    FROM auction a JOIN bid b ON a.id = b.auction AND b.time BETWEEN a.time AND a.expires)"""
_DAY = "strftime(make_timestamp(time * 1000), '%Y-%m-%d')"
_CLASSES = {"low": "price < 10000", "middle": "price >= 10000 AND price < 1000000", "high": "price >= 1000000"}
_PRICES = ", ".join(["count(*) AS bids", *(f"count(*) FILTER ({p}) AS bids_{name}" for name, p in _CLASSES.items())])
_DISTINCT = ", ".join(
    part
    for field in ("bidder", "auction")
    for part in (
        f"count(DISTINCT {field}) AS {field}s",
        *(f"count(DISTINCT {field}) FILTER ({p}) AS {field}s_{name}" for name, p in _CLASSES.items()),
    )
)

REFERENCES = {
    "q0": Reference("SELECT auction, bidder, price, channel, url, time, extra FROM bid"),
    "q1": Reference("SELECT auction, bidder, 0.908 * price::DOUBLE AS price, time FROM bid"),
    "q2": Reference("SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    "q3": Reference("""SELECT p.name, p.city, p.state, a.id AS auction FROM auction a JOIN person p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')"""),
    "q4": Reference(
        f"""SELECT category, avg(price) AS average
        FROM (SELECT id, category, max(price) AS price FROM {_VALID} GROUP BY ALL) GROUP BY category""",
        ("category",),
    ),
    "q5": Reference(
        """WITH counts AS (
            SELECT auction, time // 2000 * 2000 - hop * 2000 AS start, count(*) AS n FROM bid, range(5) hops(hop)
            GROUP BY ALL)
        SELECT start, n AS number, list_sort(list(auction)) AS names FROM counts
        WHERE n = (SELECT max(n) FROM counts c WHERE c.start = counts.start) GROUP BY start, n""",
        ("start",),
    ),
    "q6": Reference(
        f"""SELECT seller, avg(price) AS average FROM (
            SELECT seller, price, row_number() OVER (PARTITION BY seller ORDER BY id DESC) AS age
            FROM (SELECT id, seller, max(price) AS price FROM {_VALID} GROUP BY ALL)
        ) WHERE age <= 10 GROUP BY seller""",
        ("seller",),
    ),
    "q7": Reference(
        """WITH highest AS (SELECT time // 10000 * 10000 AS start, max(price) AS price FROM bid GROUP BY ALL)
        SELECT start, h.price AS number, list_sort(list([auction, bidder, time])) AS names
        FROM highest h JOIN bid b ON time // 10000 * 10000 = start AND b.price = h.price GROUP BY ALL""",
        ("start",),
    ),
    "q8": Reference(
        """SELECT DISTINCT p.id, p.time // 10000 * 10000 AS start, p.name FROM person p
        JOIN auction a ON a.seller = p.id AND a.time // 10000 = p.time // 10000""",
        ("id", "start"),
    ),
    "q9": Reference(
        f"""SELECT id, item, seller, category, bidder, price, time FROM {_VALID}
        QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, time) = 1""",
        ("id",),
    ),
    "q10": Reference(
        f"""SELECT auction, bidder, price, channel, url, time, extra, {_DAY} AS day,
            strftime(make_timestamp(time * 1000), '%H:%M') AS minute FROM bid"""
    ),
    "q11": Reference(
        """SELECT bidder AS id, min(time) AS start, count(*) AS count FROM (
            SELECT bidder, time, count(*) FILTER (new) OVER (PARTITION BY bidder ORDER BY time) AS session FROM (
                SELECT bidder, time, time - lag(time) OVER (PARTITION BY bidder ORDER BY time) > 10000 AS new FROM bid))
        GROUP BY bidder, session""",
        ("id", "start"),
    ),
    "q12": Reference("SELECT bidder AS id, count(*) AS count FROM bid GROUP BY bidder", ("id", "start"), total="count"),
    "q13": Reference(f"SELECT auction, price, value FROM bid JOIN side ON key = auction % {SIDE_ROWS}"),
    "q14": Reference("""SELECT auction, 0.908 * price::DOUBLE AS price,
            CASE WHEN time // 3600000 % 24 BETWEEN 8 AND 18 THEN 'dayTime'
                 WHEN time // 3600000 % 24 BETWEEN 7 AND 19 THEN 'otherTime' ELSE 'nightTime' END AS time,
            length(extra) - length(replace(extra, 'c', '')) AS c
        FROM bid WHERE 0.908 * price::DOUBLE > 1000000 AND 0.908 * price::DOUBLE < 50000000"""),
    "q15": Reference(f"SELECT {_DAY} AS day, {_PRICES}, {_DISTINCT} FROM bid GROUP BY ALL", ("day",)),
    "q16": Reference(
        f"""SELECT channel, {_DAY} AS day, max(time // 60000) AS minute, {_PRICES}, {_DISTINCT} FROM bid
        GROUP BY channel, day""",
        ("channel", "day"),
    ),
    "q17": Reference(
        f"""SELECT auction, {_DAY} AS day, {_PRICES}, min(price) AS low, max(price) AS high, avg(price) AS average,
            sum(price)::BIGINT AS total FROM bid GROUP BY auction, day""",
        ("auction", "day"),
    ),
    "q18": Reference(
        """SELECT auction, bidder, price, channel, url, time, extra FROM bid
        QUALIFY row_number() OVER (PARTITION BY auction, bidder ORDER BY time DESC) = 1""",
        ("auction", "bidder"),
    ),
    "q19": Reference("SELECT auction, max(price, 10) AS prices FROM bid GROUP BY auction", ("auction",)),
    "q20": Reference("""SELECT a.id, a.item, a.seller, a.category, b.bidder, b.price, b.time
        FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10"""),
    "q21": Reference("""SELECT auction, bidder, channel, CASE lower(channel)
            WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
            ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END AS channel_id
        FROM bid WHERE channel_id IS NOT NULL"""),
    "q22": Reference("""SELECT auction, bidder, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
        split_part(url, '/', 6) AS dir3 FROM bid"""),
}


def database(events: Iterable[Event]) -> duckdb.DuckDBPyConnection:
    """Return a database with the events as tables."""
    connection = duckdb.connect()
    fill(connection, events)
    return connection


def fill(connection: duckdb.DuckDBPyConnection, events: Iterable[Event]) -> None:
    """Write the events to tables."""
    rows: dict[type, list[Any]] = {Person: [], Auction: [], Bid: []}
    for event in events:
        rows[type(event)].append(event)
    for kind, name in ((Person, "person"), (Auction, "auction"), (Bid, "bid")):
        table = pa.Table.from_pylist(msgspec.to_builtins(rows[kind]))
        connection.register("events", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM events")
    connection.register("events", pa.Table.from_pylist([{"key": key, **row} for key, row in side_rows()]))
    connection.execute("CREATE TABLE side AS SELECT * FROM events")
    connection.unregister("events")


def difference(connection: duckdb.DuckDBPyConnection, query: str, results: Iterable[Row]) -> str | None:
    """Compare the results of a query, in order, with the reference; return what differs, None if nothing does."""
    reference = REFERENCES[query]
    table = connection.sql(reference.sql).to_arrow_table()
    columns = table.column_names
    expected = Counter(_identity(row, columns) for row in table.to_pylist())
    actual = Counter(_identity(row, columns) for row in _final(reference, results))
    missing, extra = expected - actual, actual - expected
    if not missing and not extra:
        return None
    examples = f"for example {next(iter(missing), None)} is missing and {next(iter(extra), None)} is wrong"
    return f"{query}: {missing.total()} of {expected.total()} rows are missing, {extra.total()} are wrong; {examples}"


def _final(reference: Reference, results: Iterable[Row]) -> Iterable[Row]:
    if not reference.key:
        return results
    rows = {tuple(row[name] for name in reference.key): row for row in results}
    if reference.total is None:
        return [row for row in rows.values() if None not in row.values()]  # a null is a row that was removed
    totals: Counter[Any] = Counter()
    for key, row in rows.items():
        totals[key[0]] += row[reference.total]
    return [{reference.key[0]: key, reference.total: total} for key, total in totals.items()]


def _identity(row: Row, columns: Iterable[str]) -> tuple[Any, ...]:
    """Return the values of a row in a form that can be compared: the last digits of sums depend on their order."""
    return tuple(_comparable(row[name]) for name in columns)


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return tuple(map(_comparable, value)) if isinstance(value, list) else value
