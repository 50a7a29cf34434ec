"""Statements that define, change and remove: each does what it says, and says what it refuses."""

from typing import Any

import pytest
from tests.sql.running import rows, run, value_of

from millstream import App
from millstream.errors import SqlError
from millstream.testing import TestDriver

S = "CREATE STREAM s (id INT KEY, a STRING, n INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
RECORD: list[tuple[Any, ...]] = [("s", 1, {"A": "x", "N": 5})]


def columns(app: App, name: str) -> list[str]:
    relation = next(each.relation for each in app.published_sql.relations if each.relation.name == name)
    return [*relation.keys, *relation.values]


def test_or_replace_redeclares_a_source() -> None:
    text = (
        S
        + """CREATE OR REPLACE STREAM s (id INT KEY, a STRING, n INT, extra INT)
        WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON'); CREATE STREAM o AS SELECT id, extra FROM s;"""
    )
    assert rows(text, "O", [("s", 1, {"A": "x", "N": 5, "EXTRA": 7})]) == [(1, {"EXTRA": 7})]


def test_if_not_exists_keeps_what_there_is() -> None:
    text = (
        S
        + """CREATE STREAM IF NOT EXISTS s (other INT KEY) WITH (KAFKA_TOPIC='other', VALUE_FORMAT='JSON');
        CREATE STREAM o AS SELECT id, n FROM s;
        CREATE STREAM IF NOT EXISTS o AS SELECT id, a FROM s;"""
    )
    assert rows(text, "O", RECORD) == [(1, {"N": 5})]


def test_a_second_definition_without_or_replace_is_refused() -> None:
    with pytest.raises(SqlError, match="exists"):
        App("twice").sql(S + S)


def test_alter_adds_columns() -> None:
    text = S + "ALTER STREAM s ADD COLUMN c INT, ADD d DOUBLE; CREATE STREAM o AS SELECT id, c, d FROM s;"
    assert rows(text, "O", [("s", 1, {"C": 1, "D": 2.5})]) == [(1, {"C": 1, "D": 2.5})]


def test_alter_does_not_add_a_column_twice() -> None:
    with pytest.raises(SqlError, match="A"):
        App("twice").sql(S + "ALTER STREAM s ADD COLUMN a INT;")


def test_drop_removes_a_query_and_its_name() -> None:
    text = S + "CREATE STREAM o AS SELECT id, a FROM s; DROP STREAM o; CREATE STREAM o AS SELECT id, n FROM s;"
    assert rows(text, "O", RECORD) == [(1, {"N": 5})]


def test_drop_if_exists_accepts_what_is_not_there() -> None:
    assert rows("DROP TABLE IF EXISTS nothing;" + S + "CREATE STREAM o AS SELECT id, n FROM s;", "O", RECORD)
    with pytest.raises(SqlError, match="NOTHING"):
        App("missing").sql("DROP TABLE nothing;")


def test_drop_with_delete_topic_is_refused_for_a_read_only_source() -> None:
    source = "CREATE SOURCE STREAM r (id INT KEY, n INT) WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON');"
    with pytest.raises(SqlError, match="R"):
        App("kept").sql(source + "DROP STREAM r DELETE TOPIC;")
    with pytest.raises(SqlError, match="R"):
        App("kept").sql(source + "INSERT INTO r VALUES (1, 2);")


def test_types_are_created_used_and_dropped() -> None:
    text = """CREATE TYPE place AS STRUCT<lat DOUBLE, lon DOUBLE>;
        CREATE TYPE IF NOT EXISTS place AS STRUCT<other INT>;
        CREATE STREAM t (id INT KEY, p place) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
        CREATE STREAM o AS SELECT id, p->lat AS lat FROM t;
        DROP TYPE place;"""
    assert rows(text, "O", [("t", 1, {"P": {"LAT": 1.5, "LON": 2.0}})]) == [(1, {"LAT": 1.5})]
    App("dropped").sql("DROP TYPE IF EXISTS place;")
    with pytest.raises(SqlError, match="PLACE"):
        App("dropped").sql("DROP TYPE place;")


def test_functions_are_kept_by_if_not_exists() -> None:
    text = (
        S
        + """CREATE FUNCTION size_of(text STRING) RETURNS INT AS 'builtins:len';
        CREATE FUNCTION IF NOT EXISTS size_of(text STRING) RETURNS STRING AS 'builtins:repr';
        CREATE STREAM o AS SELECT id, SIZE_OF(a) AS size FROM s;
        DROP FUNCTION size_of; DROP FUNCTION IF EXISTS size_of;"""
    )
    assert rows(text, "O", RECORD) == [(1, {"SIZE": 1})]


def test_a_query_can_have_a_name() -> None:
    text = (
        S
        + """CREATE STREAM o (id INT KEY, n BIGINT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON');
        INSERT INTO o WITH (QUERY_ID = 'doubled') SELECT id, CAST(n * 2 AS BIGINT) AS n FROM s;"""
    )
    app = App("named")
    app.sql(text)
    with TestDriver(app) as driver:
        driver.topic("s").pipe({"A": "x", "N": 5}, key=1)
        assert driver.topic("o").read_key_values() == [(1, {"N": 10})]
    assert [query.name for query in app.published_sql.queries] == ["doubled"]


def test_unset_and_undefine_forget() -> None:
    text = S + "CREATE STREAM o AS SELECT id, a FROM s;"
    delimited = "SET 'ksql.persistence.default.format.value' = 'DELIMITED';"
    plain = "CREATE STREAM p (id INT KEY, a STRING) WITH (KAFKA_TOPIC='p');"
    app = App("settings")
    app.sql(delimited + plain + text)
    with pytest.raises(SqlError):
        App("unset").sql(delimited + "UNSET 'ksql.persistence.default.format.value';" + plain)
    variable = "DEFINE topic = 's'; UNDEFINE topic; CREATE STREAM ${topic} (id INT KEY) WITH (KAFKA_TOPIC='s');"
    with pytest.raises(SqlError, match="the variable topic is not defined"):
        App("undefined").sql(variable)


def test_all_headers_are_an_array() -> None:
    app = App("headers")
    app.sql("""CREATE STREAM h (id INT KEY, n INT, hs ARRAY<STRUCT<key STRING, value BYTES>> HEADERS)
        WITH (KAFKA_TOPIC='h', VALUE_FORMAT='JSON');
        CREATE STREAM o AS SELECT id, hs[1]->key AS first, ARRAY_LENGTH(hs) AS count FROM h;""")
    with TestDriver(app) as driver:
        driver.topic("h").pipe_raw(b'{"N": 1}', key=b"\0\0\0\1", headers=(("trace", b"7"), ("user", b"ann")))
        assert driver.topic("O").read_values() == [{"FIRST": "trace", "COUNT": 2}]


def test_hopping_windows_overlap_and_have_a_grace_period() -> None:
    text = (
        S
        + """CREATE TABLE o AS SELECT a, COUNT(*) AS n FROM s
        WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY a;"""
    )
    inputs = [("s", 1, {"A": "x"}, 7_000), ("s", 1, {"A": "x"}, 16_500), ("s", 1, {"A": "x"}, 7_000)]
    written = [(record.key.start, record.value["N"]) for record in run(text, "O", inputs)]
    assert written == [(0, 1), (5_000, 1), (10_000, 1), (15_000, 1)]  # the last record is late for both of its windows


def test_a_join_with_a_grace_period_waits_for_partners() -> None:
    text = """CREATE STREAM l (k INT KEY, a INT) WITH (KAFKA_TOPIC='l', VALUE_FORMAT='JSON');
        CREATE STREAM r (k INT KEY, b INT) WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON');
        CREATE STREAM o AS SELECT l.k, a, b FROM l
            LEFT JOIN r WITHIN (1 SECOND, 2 SECONDS) GRACE PERIOD 1 SECOND ON l.k = r.k;"""
    inputs = [
        ("l", 1, {"A": 1}, 10_000),
        ("r", 1, {"B": 1}, 8_500),  # more than a second before
        ("r", 1, {"B": 2}, 9_500),
        ("r", 1, {"B": 3}, 12_000),
        ("l", 2, {"A": 2}, 20_000),
        ("l", 3, {"A": 3}, 40_000),
    ]
    assert rows(text, "O", inputs) == [(1, {"A": 1, "B": 2}), (1, {"A": 1, "B": 3}), (2, {"A": 2, "B": None})]


def test_a_stream_meets_the_row_of_its_time() -> None:
    text = """CREATE STREAM orders (item STRING KEY, n INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
        CREATE TABLE prices (item STRING PRIMARY KEY, cents INT)
            WITH (KAFKA_TOPIC='prices', VALUE_FORMAT='JSON', HISTORY='1 DAY');
        CREATE STREAM o AS SELECT orders.item, n * cents AS cents FROM orders
            JOIN prices AS OF orders.ROWTIME ON orders.item = prices.item;"""
    prices = [("prices", "tea", {"CENTS": 200}, 0), ("prices", "tea", {"CENTS": 250}, 60_000)]
    assert rows(text, "O", [*prices, ("orders", "tea", {"N": 1}, 30_000)]) == [("tea", {"CENTS": 200})]


@pytest.mark.parametrize(
    ("expression", "value"), [("'abc' NOT LIKE 'a%'", False), (r"'50%' LIKE '%\%' ESCAPE '\'", True)]
)
def test_like_can_be_negated_and_escaped(expression: str, value: bool) -> None:
    assert value_of(expression) is value
