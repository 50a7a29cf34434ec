"""Joins, by the records that they write."""

from typing import Any

from tests.sql.running import rows, run

CLICKS = "CREATE STREAM c (id INT KEY, page STRING) WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON');"
VIEWS = "CREATE STREAM v (id INT KEY, ad STRING) WITH (KAFKA_TOPIC='v', VALUE_FORMAT='JSON');"
USERS = "CREATE TABLE u (id INT PRIMARY KEY, name STRING, boss INT) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');"
CITIES = "CREATE TABLE t (id INT PRIMARY KEY, city STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"


def click(key: int | None, page: str, time: int = 0) -> tuple[Any, ...]:
    return ("c", key, {"PAGE": page}, time)


def view(key: int, ad: str, time: int = 0) -> tuple[Any, ...]:
    return ("v", key, {"AD": ad}, time)


def test_streams_are_joined_within_a_window() -> None:
    text = CLICKS + VIEWS + "CREATE STREAM o AS SELECT c.id, page, ad FROM c JOIN v WITHIN 1 SECOND ON c.id = v.id;"
    inputs = [click(1, "p"), view(1, "a", 900), view(1, "late", 5_000)]
    assert rows(text, "O", inputs) == [(1, {"PAGE": "p", "AD": "a"})]


def test_a_left_join_without_grace_is_eager_and_with_grace_it_waits() -> None:
    text = (
        CLICKS
        + VIEWS
        + "CREATE STREAM o AS SELECT c.id, page, ad FROM c LEFT JOIN v WITHIN 1 SECOND %s ON c.id = v.id;"
    )
    inputs = [click(1, "p"), view(1, "a", 900), click(2, "q", 9_000)]
    eager = [({"PAGE": "p", "AD": None}), {"PAGE": "p", "AD": "a"}, {"PAGE": "q", "AD": None}]
    assert [value for _, value in rows(text % "", "O", inputs)] == eager
    waiting = rows(text % "GRACE PERIOD 0 SECONDS", "O", inputs)
    assert [value for _, value in waiting] == [{"PAGE": "p", "AD": "a"}]


def test_a_full_join_has_its_key_as_rowkey() -> None:
    text = (
        CLICKS + VIEWS + "CREATE STREAM o AS SELECT ROWKEY, page, ad FROM c FULL JOIN v WITHIN 1 SECOND ON c.id = v.id;"
    )
    assert rows(text, "O", [view(1, "a"), click(1, "p", 10)]) == [
        (1, {"PAGE": None, "AD": "a"}),
        (1, {"PAGE": "p", "AD": "a"}),
    ]


def test_a_right_join_keeps_the_rows_of_the_right_side() -> None:
    text = (
        CLICKS + VIEWS + "CREATE STREAM o AS SELECT v.id, page, ad FROM c RIGHT JOIN v WITHIN 1 SECOND ON c.id = v.id;"
    )
    assert rows(text, "O", [click(2, "x"), view(1, "a")]) == [(1, {"PAGE": None, "AD": "a"})]


def test_a_stream_is_joined_with_a_table_by_an_expression() -> None:
    text = CLICKS + USERS + "CREATE STREAM o AS SELECT u.id, page, name FROM c JOIN u ON c.id + 1 = u.id;"
    inputs = [click(1, "early"), ("u", 2, {"NAME": "ann", "BOSS": None}, 1), click(1, "p", 2)]
    assert rows(text, "O", inputs) == [(2, {"PAGE": "p", "NAME": "ann"})]


def test_star_prefixes_columns_with_their_source() -> None:
    text = CLICKS + USERS + "CREATE STREAM o AS SELECT * FROM c AS click LEFT JOIN u ON click.id = u.id;"
    expected = {"CLICK_PAGE": "p", "U_ID": None, "U_NAME": None, "U_BOSS": None}
    assert rows(text, "O", [click(1, "p")]) == [(1, expected)]


def test_tables_are_joined_by_key() -> None:
    text = USERS + CITIES + "CREATE TABLE o AS SELECT u.id, name, city FROM u LEFT JOIN t ON u.id = t.id;"
    inputs = [("u", 1, {"NAME": "ann", "BOSS": None}), ("t", 1, {"CITY": "x"}), ("u", 1, None)]
    assert rows(text, "O", inputs) == [(1, {"NAME": "ann", "CITY": None}), (1, {"NAME": "ann", "CITY": "x"}), (1, None)]


def test_tables_are_joined_by_a_foreign_key() -> None:
    text = USERS + CITIES + "CREATE TABLE o AS SELECT u.id, name, city FROM u JOIN t ON u.boss = t.id;"
    inputs = [("t", 9, {"CITY": "x"}), ("u", 1, {"NAME": "ann", "BOSS": 9}), ("t", 9, {"CITY": "y"})]
    assert rows(text, "O", inputs) == [(1, {"NAME": "ann", "CITY": "x"}), (1, {"NAME": "ann", "CITY": "y"})]


def test_joins_can_be_chained() -> None:
    text = (
        CLICKS
        + USERS
        + CITIES
        + ("CREATE STREAM o AS SELECT c.id, page, name, city FROM c JOIN u ON c.id = u.id LEFT JOIN t ON c.id = t.id;")
    )
    inputs = [("u", 1, {"NAME": "ann", "BOSS": None}), click(1, "p", 1)]
    assert rows(text, "O", inputs) == [(1, {"PAGE": "p", "NAME": "ann", "CITY": None})]


def test_a_stream_can_be_joined_with_itself() -> None:
    text = CLICKS + "CREATE STREAM o AS SELECT a.id, a.page, b.page FROM c a JOIN c b WITHIN 1 SECOND ON a.id = b.id;"
    pairs = [(value["A_PAGE"], value["B_PAGE"]) for _, value in rows(text, "O", [click(1, "x"), click(1, "y", 5)])]
    assert sorted(pairs) == [("x", "x"), ("x", "y"), ("y", "x"), ("y", "y")]


def test_a_join_can_be_grouped() -> None:
    text = CLICKS + USERS + "CREATE TABLE o AS SELECT name, COUNT(*) AS n FROM c JOIN u ON c.id = u.id GROUP BY name;"
    inputs = [("u", 1, {"NAME": "ann", "BOSS": None}), click(1, "p", 1), click(1, "q", 2)]
    assert rows(text, "O", inputs) == [("ann", {"N": 1}), ("ann", {"N": 2})]


def test_the_timestamp_of_a_pair_is_the_later_one() -> None:
    text = CLICKS + VIEWS + "CREATE STREAM o AS SELECT c.id, page, ad FROM c JOIN v WITHIN 1 SECOND ON c.id = v.id;"
    assert [record.timestamp for record in run(text, "O", [click(1, "p", 5), view(1, "a", 7)])] == [7]
