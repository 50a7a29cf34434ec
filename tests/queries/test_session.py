"""Statements of a session: INSERT VALUES, SHOW, DESCRIBE, PRINT, EXPLAIN, and what is refused."""

import pytest
from tests.queries.running import bound

from millstream.broker import Output, TopicConfig
from millstream.errors import SqlError
from millstream.foundation.blocks import block_of
from millstream.queries import printing
from millstream.queries.answers import rows_of


def test_inserted_rows_are_records_of_the_topic() -> None:
    with bound() as taxi:
        assert taxi.message("INSERT INTO rides (id, km, zone, ROWTIME) VALUES (4, 1 + 1.5, 'Mitte', 77);") == (
            "1 record inserted into rides"
        )
        [record] = taxi.driver.topic("rides").read()
        assert (record.key, record.value, record.timestamp) == (4, {"ZONE": "Mitte", "KM": 2.5}, 77)


def test_a_topic_is_created_for_the_first_inserted_row() -> None:
    with bound() as taxi:
        taxi.message(
            "CREATE STREAM calls (id INT KEY, n INT) WITH (KAFKA_TOPIC='calls', VALUE_FORMAT='JSON', PARTITIONS=5);"
            "INSERT INTO calls VALUES (1, 2);"
        )
        assert taxi.driver.broker.topic("calls").partitions == 5


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO rides VALUES (1, 'x');", "2 values are given for 3 columns"),
        ("INSERT INTO rides (idd) VALUES (1);", "has no column IDD"),
        ("INSERT INTO rides (id) VALUES (km);", "line 1, column 32"),
        ("INSERT INTO seconds VALUES ('a', 1);", "is windowed"),
        ("CREATE TABLE t AS SELECT * FROM zones;", "millstream run FILE.sql"),
        ("INSERT INTO rides SELECT * FROM rides;", "millstream run FILE.sql"),
        ("PAUSE ALL;", "needs an app"),
        ("PAUSE zones,;", "the name of a query"),
        ("SHOW STREAM;", "did you mean STREAMS?"),
        ("DESCRIBE zone;", "did you mean ZONES?"),
        ("DESCRIBE FUNCTION ucas;", "did you mean UCASE?"),
        ("EXPLAIN nothing;", "queries: ZONES, SECONDS, BY_BOTH"),
        ("EXPLAIN DROP STREAM rides;", "query"),
        ("EXPLAIN CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON');", "only queries"),
        ("PRINT rides INTERVAL 0;", "prints nothing"),
        ("PRINT 7;", "expected a topic"),
        ("INSERT INTO rides VALUES ('no', 'x', 1);", "'no' is not a valid INTEGER"),
        (
            "CREATE STREAM p (d DECIMAL(4, 2)) WITH (KAFKA_TOPIC='p', FORMAT='JSON'); INSERT INTO p VALUES (999);",
            "does not fit",
        ),
        ("SELECT * FROM (SELECT zone FROM rides) x;", "a query in FROM is for queries of an app"),
    ],
)
def test_a_statement_is_refused_with_what_to_do(statement: str, message: str) -> None:
    with bound() as taxi, pytest.raises(SqlError) as caught:
        list(taxi.session.execute(statement))
    assert message in str(caught.value)
    assert caught.value.facts["line"] == 1


def test_show_lists_what_the_app_and_the_session_define() -> None:
    with bound() as taxi:
        assert [row[0] for row in taxi.rows("SHOW STREAMS;")] == ["RIDES"]
        assert [row[0] for row in taxi.rows("LIST TABLES EXTENDED;")] == ["BY_BOTH", "DRIVERS", "SECONDS", "ZONES"]
        taxi.ride("Mitte")
        assert ["rides", 3, 1] in taxi.rows("SHOW TOPICS;")
        assert [row[:2] for row in taxi.rows("SHOW QUERIES;")] == [[n, n] for n in ("ZONES", "SECONDS", "BY_BOTH")]
        functions = taxi.rows("SHOW FUNCTIONS;")
        assert {("UCASE", "scalar"), ("COUNT", "aggregate"), ("EXPLODE", "table")} <= {(n, k) for n, k in functions}
        assert taxi.rows("SET 'a.b' = 'c'; SHOW PROPERTIES;")[-1] == ["a.b", "c"]
        assert taxi.rows("CREATE TYPE p AS STRUCT<x INT>; SHOW TYPES;") == [["P", "STRUCT<`X` INTEGER>"]]
        assert taxi.rows("DEFINE z = 'Mitte'; SHOW VARIABLES;") == [["Z", "Mitte"]]
        assert taxi.rows("SELECT zone FROM rides WHERE zone = '${z}';") == [["Mitte"]]


def test_describe_shows_columns_and_with_extended_where_they_come_from() -> None:
    with bound() as taxi:
        assert taxi.rows("DESCRIBE rides;") == [["ID", "INTEGER", "KEY"], ["ZONE", "STRING", ""], ["KM", "DOUBLE", ""]]
        note = taxi.result("DESCRIBE zones EXTENDED;").note
        assert "topic: ZONES" in note
        assert "stored table: ZONES" in note
        assert "statement: CREATE TABLE zones AS SELECT" in note
        assert taxi.rows("DESCRIBE FUNCTION ucase;") == [["UCASE(STRING)", "STRING"]]


def test_explain_shows_the_steps_of_a_query() -> None:
    with bound() as taxi:
        assert "aggregate" in str(taxi.rows("EXPLAIN SELECT zone, COUNT(*) FROM rides GROUP BY zone EMIT CHANGES;"))
        assert "topic ZONES" in str(taxi.rows("EXPLAIN zones;"))
        assert "windowed_aggregate" in str(taxi.rows("EXPLAIN SECONDS;"))
        assert "topic OTHER" in str(taxi.rows("EXPLAIN CREATE STREAM other AS SELECT * FROM rides;"))
        assert "OTHER" not in taxi.session.catalog.relations


def test_print_shows_records_of_a_topic_decoded_by_its_declaration() -> None:
    with bound(partitions=1) as taxi:
        for number in range(4):
            taxi.ride("Mitte", float(number), key=number, timestamp=number)
        printed = list(rows_of(taxi.changes("PRINT rides FROM BEGINNING INTERVAL 2 LIMIT 2;"), 0.01))
        assert [change.values for change in printed] == [
            [0, 0, {"ZONE": "Mitte", "KM": 0.0}, 0, 0],
            [2, 2, {"ZONE": "Mitte", "KM": 2.0}, 0, 2],
        ]
        later = taxi.changes("PRINT 'rides';")
        assert later.take(0.01) == []
        taxi.ride("Tegel", key=9)
        taken = later.take(0.01)
        assert taken is not None
        assert [change.values[1] for change in taken] == [9]


def test_print_shows_records_that_do_not_fit_the_declaration_as_they_are() -> None:
    with bound(partitions=1) as taxi:
        taxi.driver.broker.create_topic("odd", TopicConfig())
        taxi.driver.broker.append([Output("odd", 0, block_of([b"k"], [b"two words"], [7]))])
        declared = "CREATE STREAM odd (id INT KEY, n INT) WITH (KAFKA_TOPIC = 'odd', VALUE_FORMAT = 'JSON');"
        printed = list(rows_of(taxi.changes(f"{declared} PRINT odd FROM BEGINNING LIMIT 1;"), 0.01))
        assert [change.values for change in printed] == [[7, "k", "two words", 0, 0]]


def test_print_of_large_records_reads_a_bounded_number_of_bytes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "_MOST_BYTES", 3_000)
    with bound() as taxi:
        for number in range(10):
            taxi.ride("x" * 1_000, key=number)
        changes = taxi.changes("PRINT 'rides' FROM BEGINNING LIMIT 10;")
        taken = [len(changes.take(0.01) or []) for _ in range(10)]
        assert (sum(taken), max(taken)) == (10, 3)


def test_records_without_a_partner_are_not_reported_as_unreadable() -> None:
    with bound() as app:
        app.ride("Mitte")
        app.message("INSERT INTO drivers VALUES ('ann', 'Tegel');")
        result = app.result("SELECT r.id, d.zone FROM rides r JOIN drivers d ON r.zone = d.name;")
        assert (result.rows, result.note) == ([], "")


def test_rows_of_a_declared_table_are_in_the_order_of_its_keys() -> None:
    with bound() as app:
        for name in ("cem", "ann", "bob"):
            app.message(f"INSERT INTO drivers VALUES ('{name}', 'Tegel');")
        assert app.rows("SELECT name FROM drivers LIMIT 2;") == [["ann"], ["bob"]]


def test_limits_are_shown_as_numbers_that_can_be_read() -> None:
    with bound() as app:
        assert dict(app.rows("SHOW PROPERTIES;"))["limit.read"] == "10,000,000"
