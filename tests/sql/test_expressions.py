"""Operators: types, null rules, overflow, and conversions."""

from decimal import Decimal
from typing import Any

import pytest
from tests.sql.running import type_of, value_of

from millstream.sql.problems import Problem


@pytest.mark.parametrize(
    ("expression", "value", "type"),
    [
        ("1 + 2", 3, "INTEGER"),
        ("2147483647 + 1", -2147483648, "INTEGER"),
        ("9223372036854775807 + 1", -(2**63), "BIGINT"),
        ("7 / 2", 3, "INTEGER"),
        ("-7 / 2", -3, "INTEGER"),
        ("-7 % 3", -1, "INTEGER"),
        ("1e0 / 0", float("inf"), "DOUBLE"),
        ("1.5 + 2", Decimal("3.5"), "DECIMAL(12, 1)"),
        ("1.5 * 1.25", Decimal("1.875"), "DECIMAL(6, 3)"),
        ("1.0 / 3", Decimal("0.333333333333"), "DECIMAL(13, 12)"),
        ("1.5 + 1e0", 2.5, "DOUBLE"),
        ("1 + CAST(NULL AS INT)", None, "INTEGER"),
        ("'a' + 'b'", "ab", "STRING"),
        ("'a' || 'b' || 'c'", "abc", "STRING"),
        ("NOT (1 > 2)", True, "BOOLEAN"),
        ("1 < 2 AND 2.5 < 3e0 OR FALSE", True, "BOOLEAN"),
        ("CAST(NULL AS INT) = 1", False, "BOOLEAN"),
        ("CAST(NULL AS INT) <> 1", False, "BOOLEAN"),
        ("CAST(NULL AS INT) IS NULL", True, "BOOLEAN"),
        ("CAST(NULL AS INT) IS DISTINCT FROM 1", True, "BOOLEAN"),
        ("1 IS NOT DISTINCT FROM 1", True, "BOOLEAN"),
        ("1 IS DISTINCT FROM NULL", True, "BOOLEAN"),
        ("NULL IS NOT DISTINCT FROM 'a'", False, "BOOLEAN"),
        ("5 BETWEEN 1 AND 9", True, "BOOLEAN"),
        ("5 NOT BETWEEN 1 AND 9", False, "BOOLEAN"),
        ("2 IN (1, '2', 3)", True, "BOOLEAN"),
        ("2 NOT IN (1, 3)", True, "BOOLEAN"),
        ("'barber' LIKE 'bar%'", True, "BOOLEAN"),
        ("'b%r' LIKE 'b!%_' ESCAPE '!'", True, "BOOLEAN"),
        ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "b", "STRING"),
        ("CASE WHEN FALSE THEN 1 ELSE 2.5 END", Decimal("2.5"), "DECIMAL(11, 1)"),
        ("CASE WHEN FALSE THEN 1 END", None, "INTEGER"),
        ("ARRAY[1, NULL, '3']", [1, None, 3], "ARRAY<INTEGER>"),
        ("ARRAY[1, 2, 3][-1]", 3, "INTEGER"),
        ("ARRAY[1][5]", None, "INTEGER"),
        ("MAP('a' := 1, 'b' := 2)['b']", 2, "INTEGER"),
        ("STRUCT(a := 1, b := STRUCT(c := 'x'))->b->c", "x", "STRING"),
        ("DATE_ADDED < '2020-01-02'", True, "BOOLEAN"),
    ],
)
def test_operators_compute(expression: str, value: Any, type: str) -> None:
    expression = expression.replace("DATE_ADDED", "CAST('2020-01-01' AS DATE)")
    assert value_of(expression) == value
    assert type_of(expression) == type


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CAST(3000000000 AS INT)", -1294967296),
        ("CAST(1e20 AS BIGINT)", 2**63 - 1),
        ("CAST(-2.7 AS INT)", -2),
        ("CAST('12' AS BIGINT)", 12),
        ("CAST('1.255' AS DECIMAL(4, 2))", Decimal("1.26")),
        ("CAST('yes' AS BOOLEAN)", True),
        ("CAST(1e10 AS STRING)", "1.0E10"),
        ("CAST(0.00001e0 AS STRING)", "1.0E-5"),
        ("CAST(100.0e0 AS STRING)", "100.0"),
        ("CAST(TRUE AS STRING)", "true"),
        ("CAST(CAST('2020-02-29T01:02:03.004' AS TIMESTAMP) AS STRING)", "2020-02-29T01:02:03.004"),
        ("CAST(CAST('2020-02-29T23:02:03+01:00' AS TIMESTAMP) AS DATE)", None),
        ("CAST(ARRAY['1', '2'] AS ARRAY<INT>)", [1, 2]),
        ("CAST(STRUCT(a := 1) AS STRUCT<a DOUBLE, b INT>)", {"A": 1.0, "B": None}),
        ("CAST(ARRAY[1, 2] AS STRING)", "[1, 2]"),
    ],
)
def test_cast_converts(expression: str, value: Any) -> None:
    if value is None:
        assert str(value_of(expression)) == "2020-02-29"
    else:
        assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("1 + TRUE", "not possible"),
        ("1 = 'x'", "cannot be compared"),
        ("ARRAY[1] < ARRAY[2]", "has no order"),
        ("NULL = 1", "use IS NULL"),
        ("CAST('x' AS ARRAY<INT>)", "cannot be cast"),
        ("CAST(1 AS BOOLEAN)", "cannot be cast"),
        ("ARRAY[]", "empty ARRAY"),
        ("ARRAY[NULL]", "all elements"),
        ("MAP('a' := 1, 'b' := 'x')", "not a valid INTEGER"),
        ("STRUCT(a := 1, a := 2)", "same name"),
        ("CASE WHEN TRUE THEN NULL END", "all branches"),
        ("CASE WHEN 1 THEN 2 END", "must be BOOLEAN"),
        ("UCASE(5)", "UCASE does not take (INTEGER); it takes (STRING)"),
        ("UPER('a')", "did you mean UPPER?"),
        ("STRUCT(name := 1)->nam", "did you mean NAME?"),
        ("TRANSFORM(ARRAY[1], (a, b) => a)", "it must take 1"),
        ("99999999999999999999", "out of the range"),
        ("5 LIKE 'a'", "LIKE needs STRING"),
    ],
)
def test_what_has_no_meaning_is_refused(expression: str, words: str) -> None:
    with pytest.raises(Problem) as problem:
        type_of(expression)
    assert words in f"{problem.value.message}; {problem.value.hint}"
