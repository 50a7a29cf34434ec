"""Edges of functions, where Java and Python differ, and results that no format can represent."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from tests.sql.running import rows, value_of

from millstream import App
from millstream.errors import ProcessingError
from millstream.testing import TestDriver

S = "CREATE STREAM s (id INT KEY, a STRING, n INT, d DOUBLE) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
T = "CREATE TABLE t (k INT PRIMARY KEY, g STRING, n INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"
NEW_YEAR = "FROM_UNIXTIME(1609372800000)"  # Thursday, 2020-12-31


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ABS(CAST(-2147483648 AS INT))", -(2**31)),  # as Java's int
        ("ABS(CAST(-9223372036854775808 AS BIGINT))", -(2**63)),
        ("CEIL(1e0 / 0)", float("inf")),
        ("FLOOR(-1e0 / 0)", float("-inf")),
        ("CBRT(-27)", -3.0),
        ("CAST(ROUND(-0.4) AS STRING)", "0"),
        ("CAST(CAST(-0.4 AS DECIMAL(1, 0)) AS STRING)", "0"),
        ("IS_JSON_STRING('NaN')", False),
        ("IS_JSON_STRING(REPEAT('[', 100000))", False),
        ("JSON_ARRAY_CONTAINS(REPEAT('[', 100000), 1)", False),
        ("REGEXP_EXTRACT_ALL('\\w+', 'aé b')", ["a", "b"]),  # \w is ASCII in Java
        ("REGEXP_EXTRACT('\\p{Upper}\\p{Lower}+', 'the Mill')", "Mill"),
        ("REGEXP_EXTRACT('[\\p{Digit}.]+', 'v1.2')", "1.2"),
        ("REGEXP_EXTRACT('\\p{L}+', '1é2')", "é"),
        ("REGEXP_REPLACE('1.5', '\\Q.\\E', ',')", "1,5"),
        ("REGEXP_REPLACE('a1', '(?<n>\\d)', '<${n}\\$>')", "a<1$>"),
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'VV', 'Europe/Paris')", "Europe/Paris"),
        (f"FORMAT_TIMESTAMP({NEW_YEAR}, 'YYYY-w e QQQ A')", "2021-1 5 Q4 0"),
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'O', 'Asia/Kolkata')", "GMT+5:30"),
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'O')", "GMT"),
        ("PARSE_DATE('2021-02-30', 'yyyy-MM-dd')", dt.date(2021, 2, 28)),  # Java's smart resolver
        ("MASK_LEFT('Ab', CAST(NULL AS INT))", None),
        ("MASK_KEEP_RIGHT('Ab', CAST(NULL AS INT))", None),
    ],
)
def test_the_function_does_what_java_does(expression: str, value: Any) -> None:
    result = value_of(expression)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("CHR(55296)", "half of a character"),
        ("MASK_KEEP_LEFT('AbCd', -1)", "-1 characters"),
        ("MASK_RIGHT('AbCd', -1)", "-1 characters"),
        ("CAST(SQRT(-1) AS DECIMAL(4, 2))", "is not a DECIMAL"),
        ("GEO_DISTANCE(0, 0, 1, 1, 'LEAGUE')", "unit 'LEAGUE' is unknown"),
        ("FORMAT_DATE(FROM_DAYS(0), 'HH')", "does not have all that the pattern"),
        ("REGEXP_REPLACE('a', 'a', '$1')", "no group 1"),
        ("REGEXP_EXTRACT('\\p{Greek}', 'a')", "is not supported"),
        ("REPLACE(REPEAT('a', 100000), 'a', REPEAT('b', 1000))", "more than 10,000,000"),
        ("REGEXP_REPLACE(REPEAT('a', 100000), 'a', REPEAT('b', 1000))", "more than 10,000,000"),
        ("REGEXP_EXTRACT(REPEAT('a', 20000), 'a')", "at most 10,000 characters"),
        ("CUBE_EXPLODE(GENERATE_SERIES(1, 40))", "at most 16 elements"),
    ],
)
def test_the_error_says_what_is_wrong(expression: str, message: str) -> None:
    with pytest.raises((ValueError, ArithmeticError), match=message):
        value_of(expression)


def test_no_value_breaks_the_format_of_the_result() -> None:
    text = S + (
        "CREATE STREAM o AS SELECT id, CHR(n) AS c, SQRT(-d) AS nan, CAST(SQRT(-d) AS DECIMAL(4, 2)) AS f, "
        "d / 0 AS inf, CAST(d / 0 AS BIGINT) AS big FROM s;"
    )
    [(_, value)] = rows(text, "O", [("s", 1, {"A": "x", "N": 0xD800, "D": 1.5})])
    assert str(value.pop("NAN")) == "nan"
    assert value == {"C": None, "F": None, "INF": float("inf"), "BIG": 2**63 - 1}


def test_the_mean_of_a_group_without_rows_is_0() -> None:
    text = T + "CREATE TABLE o AS SELECT g, AVG(n) AS a, COUNT(*) AS c FROM t GROUP BY g;"
    inputs = [("t", 1, {"G": "a", "N": 4}), ("t", 1, {"G": "b", "N": 4}), ("t", 1, None)]
    expected = [("a", 4.0, 1), ("a", 0.0, 0), ("b", 4.0, 1), ("b", 0.0, 0)]
    assert [(key, value["A"], value["C"]) for key, value in rows(text, "O", inputs)] == expected


def test_a_process_without_memory_fails_instead_of_writing_null() -> None:
    app = App("memory")

    @app.function
    def greedy(n: int) -> int:
        raise MemoryError(n)

    app.sql(S + "CREATE STREAM o AS SELECT id, GREEDY(n) AS m FROM s;")
    with TestDriver(app) as driver, pytest.raises((MemoryError, ProcessingError)):
        driver.topic("s").pipe({"A": "x", "N": 1, "D": 1.0}, key=1)


def test_decimals_of_topics_have_no_negative_zero() -> None:
    text = (
        "CREATE STREAM m (id INT KEY, p DECIMAL(4, 2)) WITH (KAFKA_TOPIC='m', VALUE_FORMAT='JSON');"
        "CREATE STREAM o WITH (VALUE_FORMAT='DELIMITED') AS SELECT id, p * 0.4 AS p FROM m;"
    )
    app = App("zero")
    app.sql(text)
    with TestDriver(app) as driver:
        driver.topic("m").pipe_raw(b'{"P": -0.00}', key=b"\0\0\0\1")
        assert [record.value for record in driver.topic("O").read_raw()] == [b"0.000"]
    assert Decimal("-0.000") == 0  # which Python would write as -0.000


def test_not_of_a_condition_with_null_is_true_however_it_is_written() -> None:
    conditions = ["n IN (1, 2)", "n BETWEEN 1 AND 2", "a LIKE 'x%'", "n > 5"]
    negated = ["n NOT IN (1, 2)", "n NOT BETWEEN 1 AND 2", "a NOT LIKE 'x%'"]
    columns = [*conditions, *(f"NOT ({each})" for each in conditions), *negated]
    items = ", ".join(f"{each} AS c{number}" for number, each in enumerate(columns))
    [(_, value)] = rows(f"{S} CREATE STREAM o AS SELECT id, {items} FROM s;", "O", [("s", 1, {"A": None, "N": None})])
    assert list(value.values()) == [False] * 4 + [True] * 7
