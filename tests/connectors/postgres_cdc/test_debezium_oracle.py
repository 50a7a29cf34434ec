"""The same statements, read by the real Debezium and by the format "debezium": the envelopes are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.connectors.change_data_reading import Reading
from tests.servers.debezium import Debezium, Event
from tests.servers.debian import NoServerError
from tests.servers.postgres import Postgres

Sql = Callable[[str], list[Any]]

_TABLES = ("kinds", "pairs", "full_rows", "emptied")
_SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE kinds (id int8 PRIMARY KEY, i2 int2, i4 int4, f4 float4, f8 float8, price numeric(10, 2), whole
    numeric(5), any_number numeric, b bool, t text, v varchar(20), c char(5), u uuid, m mood, day date, clock time,
    clock0 time(0), clock3 time(3), clockz timetz, at timestamp, at0 timestamp(0), at3 timestamp(3), atz
    timestamptz, raw bytea, j json, jb jsonb, x xml, addr inet, net cidr, mac macaddr, span interval, ints int[],
    texts text[], uuids uuid[], dates date[], numbers numeric(8, 2)[], bits bit(3), flag bit(1), o oid, money money,
    r int4range, cit varchar[], ten bit(10), varying_bits varbit(12));
CREATE TABLE pairs (shop text, id int, v text, PRIMARY KEY (shop, id));
CREATE TABLE full_rows (id int PRIMARY KEY, n int, body text);
ALTER TABLE full_rows REPLICA IDENTITY FULL;
ALTER TABLE full_rows ALTER body SET STORAGE EXTERNAL;
CREATE TABLE emptied (id int PRIMARY KEY);
"""
_LARGE = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)"
_VALUES = """
INSERT INTO kinds VALUES ({id}, -7, 70000, 1.25, -0.1, -12.80, 42, 1.50, true, 'a "b" \\ c', 'ü€', 'ab',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ok', '1969-12-31', '23:59:59.000001', '12:00:01', '00:00:01.002',
    '12:34:56.789+02', '1969-12-31 23:59:59.5', '2024-02-29 12:34:56', '2024-02-29 12:34:56.789',
    '2024-02-29 12:34:56.7+02', '\\x6869', '{{"a": [1, null]}}', '{{"b": 1.50}}', '<a/>', '192.168.0.1',
    '10.0.0.0/8', '08:00:2b:01:02:03', '1 mon 2 days 03:00:00', '{{1,NULL}}', '{{"x,y","q\\"r"}}',
    '{{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}}', '{{2024-02-29}}', '{{-1.28}}', '101', '1', 7, 12.34, '[1,5)',
    '{{a,b}}')
"""
_STATEMENTS = (
    _VALUES.format(id=2),
    "INSERT INTO kinds (id) VALUES (3)",
    "UPDATE kinds SET i4 = 1, price = 99.99 WHERE id = 2",
    "UPDATE kinds SET any_number = 1200, bits = '001', flag = '0', clockz = '00:30:00+01', ten = '1000000001'",
    "UPDATE kinds SET any_number = 0.00, f8 = 'NaN', varying_bits = '101', day = '0044-03-15', clockz = '23:30-08'",
    "UPDATE kinds SET any_number = -0.0100, price = 0, f4 = 'Infinity', varying_bits = '111100001111'",
    "DELETE FROM kinds WHERE id = 3",
    "BEGIN; INSERT INTO pairs VALUES ('b', 1, 'x'), ('b', 2, NULL); UPDATE pairs SET v = 'y' WHERE shop = 'b'; COMMIT",
    "UPDATE pairs SET id = 9 WHERE shop = 'a'",
    f"INSERT INTO full_rows VALUES (2, 0, {_LARGE})",
    "UPDATE full_rows SET n = n + 1",
    "UPDATE full_rows SET id = 5 WHERE id = 2",
    "DELETE FROM full_rows WHERE id = 5",
    "ALTER TABLE pairs ADD COLUMN extra int DEFAULT 4",
    "INSERT INTO pairs VALUES ('c', 1, 'z', 5)",
)
_OWN_HEADERS = "__debezium.context."
_DIFFERENT = ("after.span", "after.money")
"""Intervals are ISO 8601 texts, and money is as the server writes it."""
_SOURCE = ("connector", "name", "db", "schema", "table", "xmin", "origin", "origin_lsn")
_STREAM = ("txId", "lsn", "ts_ms", "ts_us", "ts_ns", "snapshot")


@pytest.fixture
def debezium(postgres: Postgres, database: str, sql: Sql) -> Iterator[Debezium]:
    sql(_SCHEMA)
    sql(_VALUES.format(id=1))
    sql(f"INSERT INTO pairs VALUES ('a', 1, 'x'); INSERT INTO full_rows VALUES (1, 0, {_LARGE})")
    sql("INSERT INTO emptied VALUES (1), (2)")
    try:
        engine = Debezium(postgres, database, [f"public.{table}" for table in _TABLES])
    except NoServerError as reason:
        pytest.skip(f"Debezium cannot run here: {reason}")
    yield engine
    engine.close()


def ours(shop: Reading, table: str) -> list[Event]:
    """Return the records of a table as Debezium's events."""
    decode = msgspec.json.decode
    records = zip(shop.records.get(table, []), shop.headers.get(table, []), strict=True)
    return [
        Event(
            table,
            decode(key or b"null"),
            None if value is None else decode(value),
            {name: decode(content or b"null") for name, content in headers},
        )
        for (key, value), headers in records
    ]


def facts(event: Event, *, has_before: bool) -> dict[str, Any]:
    """Return what must be equal; Debezium knows the row before a change only if the replica identity is full."""
    known = {"key": event.key}
    known |= {name: value for name, value in event.headers.items() if not name.startswith(_OWN_HEADERS)}
    if event.value is None:
        return known
    op, source = event.value["op"], event.value["source"]
    known |= {"op": op, "fields": list(event.value), "source": list(source), "transaction": event.value["transaction"]}
    known |= {f"source.{name}": source[name] for name in (_SOURCE if op == "r" else _SOURCE + _STREAM)}
    rows = ("before", "after") if has_before else ("after",)
    return known | {f"{row}.{name}": value for row in rows for name, value in (event.value[row] or {"": None}).items()}


def differences(mine: list[Event], theirs: list[Event], *, has_before: bool) -> list[str]:
    if len(mine) != len(theirs):
        return [f"{len(mine)} and {len(theirs)} events"]
    pairs = [
        (facts(own, has_before=has_before), facts(other, has_before=has_before))
        for own, other in zip(mine, theirs, strict=True)
    ]
    return [
        f"event {number} {name}: {own.get(name)!r}, Debezium {other.get(name)!r}"
        for number, (own, other) in enumerate(pairs)
        for name in sorted(own.keys() | other.keys())
        if own.get(name, "absent") != other.get(name, "absent") and name not in _DIFFERENT
    ]


@pytest.mark.server
@pytest.mark.timeout(180)
def test_envelopes_are_those_of_debezium(sql: Sql, reading: Callable[..., Reading], debezium: Debezium) -> None:
    debezium.wait_for(5)  # first: Postgres ends the connection of a reader that does not read for ten seconds
    shop = reading(*_TABLES, format="debezium")
    shop.until(lambda: sum(map(shop.count, _TABLES)) == 5)
    for statement in _STATEMENTS:
        sql(statement)
    sql("TRUNCATE emptied")
    sql("INSERT INTO emptied VALUES (99)")
    shop.until(lambda: shop.count("emptied") == 7)
    events: list[Event] = []
    while not events or events[-1].key != {"id": 99}:
        events = debezium.wait_for(len(events) + 1)
    different = []
    for table in ("kinds", "pairs", "full_rows"):
        theirs = [event for event in events if event.topic == f"shop.public.{table}"]
        different += [
            f"{table} {each}" for each in differences(ours(shop, table), theirs, has_before=table == "full_rows")
        ]
    assert not different, "\n".join(different)
    emptied = [event for event in events if event.topic == "shop.public.emptied"]
    assert [event.value["op"] for event in emptied] == ["r", "r", "t", "c"]  # ours: a delete and a tombstone per row
    assert [event.value and event.value["op"] for event in ours(shop, "emptied")] == [
        "r",
        "r",
        "d",
        None,
        "d",
        None,
        "c",
    ]
