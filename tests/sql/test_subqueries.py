"""Queries in FROM and WITH, and the names of queries that insert."""

import pytest
from tests.sql.running import rows

from millstream import App
from millstream.errors import SqlError

RIDES = "CREATE STREAM rides (id INT KEY, zone STRING, km DOUBLE) WITH (KAFKA_TOPIC='rides', VALUE_FORMAT='JSON');"
ZONES = "CREATE TABLE zones (zone STRING PRIMARY KEY, city STRING) WITH (KAFKA_TOPIC='zones', VALUE_FORMAT='JSON');"
INPUT = [
    ("rides", 1, {"ZONE": "a", "KM": 2.0}),
    ("rides", 2, {"ZONE": "b", "KM": 0.5}),
    ("rides", 3, {"ZONE": "a", "KM": 3.0}),
]


def test_a_query_in_from_is_a_source() -> None:
    query = (
        "SELECT zone, COUNT(*) AS n FROM (SELECT id, UCASE(zone) AS zone FROM rides WHERE km > 1.0) long GROUP BY zone"
    )
    assert rows(f"{RIDES} CREATE TABLE o AS {query};", "O", INPUT) == [("A", {"N": 1}), ("A", {"N": 2})]


def test_with_names_queries_that_can_use_each_other() -> None:
    query = """
        WITH long AS (SELECT id, zone, km FROM rides WHERE km > 1.0),
             meters AS (SELECT id, zone, km * 1000 AS m FROM long)
        SELECT id, m.zone AS zone, m.m AS m FROM meters m
    """
    assert rows(f"{RIDES} CREATE STREAM o AS {query};", "O", INPUT) == [
        (1, {"ZONE": "a", "M": 2000.0}),
        (3, {"ZONE": "a", "M": 3000.0}),
    ]


def test_results_of_queries_can_be_joined() -> None:
    query = """
        SELECT r.zone AS zone, r.km AS km, c.total AS total FROM rides r
        JOIN (SELECT zone, SUM(km) AS total FROM rides GROUP BY zone) c ON r.zone = c.zone
    """
    result = rows(f"{RIDES} CREATE STREAM o AS {query};", "O", INPUT)
    assert [value for key, value in result if key == "a"][-1] == {"KM": 3.0, "TOTAL": 5.0}


def test_a_query_in_from_needs_an_alias() -> None:
    with pytest.raises(SqlError, match="expected an alias for the query in parentheses"):
        App("bad").sql(RIDES + "CREATE STREAM o AS SELECT * FROM (SELECT * FROM rides);")


def test_state_of_a_query_in_from_is_named_by_its_alias() -> None:
    app = App("names")
    app.sql(
        RIDES
        + "CREATE TABLE o AS SELECT zone, n + 1 AS m FROM (SELECT zone, COUNT(*) AS n FROM rides GROUP BY zone) c;"
    )
    assert "O.C" in {node.name for node in app.plan.nodes}


def test_queries_that_insert_are_named_by_their_sources_not_by_their_order() -> None:
    text = RIDES + ZONES + "CREATE STREAM o (id INT KEY, city STRING) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON');"
    plain = "INSERT INTO o SELECT id, zone AS city FROM rides;"
    rekeyed = "SELECT zone, id FROM rides PARTITION BY zone"
    joined = f"INSERT INTO o SELECT id, city FROM ({rekeyed}) r JOIN zones z ON r.zone = z.zone PARTITION BY id;"
    names = []
    for inserts in (plain + joined, joined + plain):
        app = App("inserts")
        app.sql(text + inserts)
        names.append({node.name for node in app.plan.nodes if node.name is not None and "join" in node.name})
    assert names[0] == names[1]
    assert any("O-from-R-ZONES" in name for name in names[0])
