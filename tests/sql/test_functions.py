"""Every scalar function, by example; a function without one fails the last test."""

import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.sql.running import rows, value_of

from millstream.queries.listing import function_kinds
from millstream.sql.functions.registry import FUNCTIONS

EXAMPLES: list[tuple[str, Any]] = [
    ("ABS(-3)", 3), ("ABS(-1.5)", Decimal("1.5")), ("CEIL(1.2e0)", 2.0), ("CEIL(1.25)", Decimal("2.00")),
    ("CEILING(-1.2e0)", -1.0), ("FLOOR(-1.2e0)", -2.0), ("FLOOR(1.75)", Decimal("1.00")), ("ROUND(2.5e0)", 3),
    ("ROUND(-2.5e0)", -2), ("ROUND(2.345, 2)", Decimal("2.350")), ("ROUND(1234.5e0, -2)", 1200.0), ("ROUND(7)", 7),
    ("TRUNC(-2.7e0)", -2), ("TRUNC(2.987, 1)", Decimal("2.900")), ("SIGN(-5)", -1), ("SQRT(9e0)", 3.0), ("CBRT(8)", 2.0),
    ("ACOS(1)", 0.0), ("ASIN(0)", 0.0), ("ATAN(0)", 0.0), ("ATAN2(0, 1)", 0.0), ("COS(0)", 1.0), ("COSH(0)", 1.0),
    ("SIN(0)", 0.0), ("SINH(0)", 0.0), ("TAN(0)", 0.0), ("TANH(0)", 0.0), ("ROUND(COT(1), 3)", 0.642), ("EXP(0)", 1.0),
    ("DEGREES(PI())", 180.0), ("RADIANS(180) = PI()", True), ("LN(EXP(2))", 2.0), ("LOG(2, 8)", 3.0), ("LOG(1)", 0.0),
    ("POWER(2, 10)", 1024.0), ("POW(0, -1)", math.inf), ("GREATEST(1, 5, NULL)", 5), ("LEAST('b', 'a')", "a"),
    ("RANDOM() < 1e0", True), ("RAND() < 1e0", True), ("GENERATE_SERIES(1, 7, 3)", [1, 4, 7]),
    ("GENERATE_SERIES(3, 1)", [3, 2, 1]), ("ROUND(GEO_DISTANCE(48.8566, 2.3522, 51.5074, -0.1278), 0)", 344.0),
    ("UCASE('é')", "É"), ("UPPER('a')", "A"), ("LCASE('A')", "a"), ("LOWER('A')", "a"), ("TRIM(' a ')", "a"),
    ("LEN('abc')", 3), ("LENGTH('')", 0), ("CHAR_LENGTH('é')", 1), ("INITCAP('the qUICK fox')", "The Quick Fox"),
    ("REVERSE('ab')", "ba"), ("CONCAT('a', NULL, 'b')", "ab"), ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
    ("SUBSTRING('stream', 2, 3)", "tre"), ("SUBSTRING('stream', -3)", "eam"), ("SUBSTR('stream', 5)", "am"),
    ("LPAD('7', 3, '0')", "007"), ("RPAD('ab', 5, 'xy')", "abxyx"), ("REPEAT('ab', 2)", "abab"),
    ("REPLACE('a-b-c', '-', '+')", "a+b+c"), ("INSTR('corporate', 'or', 1, 2)", 5), ("INSTR('corporate', 'or', -1)", 5),
    ("INSTR('corporate', 'x')", 0), ("SPLIT('a,b,,c', ',')", ["a", "b", "", "c"]), ("SPLIT('ab', '')", ["a", "b"]),
    ("SPLIT_TO_MAP('a=1&b=2', '&', '=')", {"a": "1", "b": "2"}), ("CHR(75)", "K"), ("CHAR('\\u00e9')", "é"),
    ("ASCII('A')", 65), ("LEN(UUID())", 36), ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661"),
    ("LEN(SHA1('a'))", 40), ("LEN(SHA('a'))", 40), ("LEN(SHA256('a'))", 64), ("CRC32('a')", 3904355907),
    ("REGEXP_EXTRACT('(\\w+)@(\\w+)', 'ann@home', 2)", "home"), ("REGEXP_EXTRACT_ALL('\\d+', 'a1b22')", ["1", "22"]),
    ("REGEXP_REPLACE('a1b2', '(\\d)', '<$1>')", "a<1>b<2>"), ("REGEXP_SPLIT_TO_ARRAY('a1b22c', '\\d+')", ["a", "b", "c"]),
    ("MASK('Ab1-')", "Xxn-"), ("MASK_LEFT('Ab12', 2)", "Xx12"), ("MASK_RIGHT('Ab12', 2)", "Abnn"),
    ("MASK_KEEP_LEFT('Ab12', 1)", "Axnn"), ("MASK_KEEP_RIGHT('Ab12', 1)", "Xxn2"),
    ("AS_VALUE(1)", 1), ("COALESCE(NULL, 2, 3)", 2), ("IFNULL(NULL, 'x')", "x"), ("NVL(1, 2)", 1), ("NULLIF(1, 1)", None),
    ("ARRAY_LENGTH(ARRAY[1, 2])", 2), ("CARDINALITY(MAP('a' := 1))", 1), ("SIZE(ARRAY[1])", 1),
    ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", True), ("ARRAYCONTAINS(ARRAY[1], 2)", False), ("ARRAY_CONCAT(ARRAY[1], ARRAY[2])", [1, 2]),
    ("ARRAY_DISTINCT(ARRAY[1, 2, 1])", [1, 2]), ("ARRAY_EXCEPT(ARRAY[1, 2, 2], ARRAY[1])", [2]),
    ("ARRAY_INTERSECT(ARRAY[3, 1, 2], ARRAY[2, 3])", [3, 2]), ("ARRAY_UNION(ARRAY[1], ARRAY[1, 2])", [1, 2]),
    ("ARRAY_REMOVE(ARRAY[1, 2, 1], 1)", [2]), ("ARRAY_MAX(ARRAY[1, NULL, 3])", 3), ("ARRAY_MIN(ARRAY['b', 'a'])", "a"),
    ("ARRAY_SORT(ARRAY[2, NULL, 1])", [1, 2, None]), ("SORT_ARRAY(ARRAY[1, 2], 'DESC')", [2, 1]),
    ("ARRAY_JOIN(ARRAY[1, NULL], '|')", "1|null"), ("SLICE(ARRAY[1, 2, 3], 2, 3)", [2, 3]), ("ELT(2, 'a', 'b')", "b"),
    ("FIELD('b', 'a', 'b')", 2), ("TRANSFORM(ARRAY[1, 2], x => x * x)", [1, 4]),
    ("TRANSFORM(MAP('a' := 1), (k, v) => UCASE(k), (k, v) => v + 1)", {"A": 2}),
    ("FILTER(ARRAY[1, 2, 3], x => x > 1)", [2, 3]), ("FILTER(MAP('a' := 1, 'b' := 2), (k, v) => v > 1)", {"b": 2}),
    ("REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x)", 16), ("AGGREGATE(MAP('a' := 5), 0, (s, k, v) => s + v)", 5),
    ("MAP_KEYS(MAP('a' := 1))", ["a"]), ("MAP_VALUES(MAP('a' := 1))", [1]),
    ("MAP_UNION(MAP('a' := 1), MAP('a' := 2))", {"a": 2}), ("MAP_CONCAT(MAP('a' := 1), NULL)", {"a": 1}),
    ("AS_MAP(ARRAY['a'], ARRAY[1])", {"a": 1}), ("ENTRIES(MAP('b' := 2, 'a' := 1), TRUE)[1]->k", "a"),
    ("MAP_ENTRIES(MAP('a' := 1))", [{"K": "a", "V": 1}]),
    ("TO_BYTES('616263', 'hex')", b"abc"), ("FROM_BYTES(TO_BYTES('YWJj', 'base64'), 'utf8')", "abc"),
    ("ENCODE('abc', 'ascii', 'hex')", "616263"), ("INT_FROM_BYTES(TO_BYTES('00000102', 'hex'))", 258),
    ("BIGINT_FROM_BYTES(TO_BYTES('0200000000000000', 'hex'), 'LITTLE_ENDIAN')", 2),
    ("DOUBLE_FROM_BYTES(TO_BYTES('3FF8000000000000', 'hex'))", 1.5),
    ("URL_ENCODE_PARAM('a b&c')", "a+b%26c"), ("URL_DECODE_PARAM('a+b%26c')", "a b&c"),
    ("URL_EXTRACT_FRAGMENT('http://h/p#f')", "f"), ("URL_EXTRACT_HOST('http://u@h.org:80/p')", "h.org"),
    ("URL_EXTRACT_PORT('http://h:8080/')", 8080), ("URL_EXTRACT_PROTOCOL('https://h')", "https"),
    ("URL_EXTRACT_PATH('http://h/a/b?x')", "/a/b"), ("URL_EXTRACT_QUERY('http://h/?a=1&b')", "a=1&b"),
    ("URL_EXTRACT_PARAMETER('http://h/?a=1&b=2', 'b')", "2"),
    ("EXTRACTJSONFIELD('{\"a\": [1, {\"b\": 2.50}]}', '$.a[1].b')", "2.50"), ("GET_JSON_OBJECT('{}', '$.x')", None),
    ("IS_JSON_STRING('[1]')", True), ("IS_JSON_STRING('[')", False), ("JSON_ARRAY_LENGTH('[1, 2]')", 2),
    ("JSON_ARRAY_CONTAINS('[1, true]', 1)", True), ("JSON_ARRAY_CONTAINS('[true]', 1)", False),
    ("JSON_KEYS('{\"a\": 1}')", ["a"]), ("JSON_OBJECT_KEYS('{}')", []),
    ("JSON_RECORDS('{\"a\": [1], \"b\": \"x\"}')", {"a": "[1]", "b": "x"}), ("JSON_ITEMS('[1, {\"a\": 2}]')", ["1", '{"a":2}']),
    ("JSON_CONCAT('[1]', '2')", "[1,2]"), ("JSON_CONCAT('{\"a\":1}', '{\"b\":2}')", '{"a":1,"b":2}'),
    ("TO_JSON_STRING(STRUCT(a := 1.50, b := ARRAY['x', NULL]))", '{"A":1.50,"B":["x",null]}'), ("TO_JSON(TRUE)", "true"),
    ("UNIX_TIMESTAMP() > 0", True), ("UNIX_TIMESTAMP(FROM_UNIXTIME(5))", 5), ("UNIX_DATE() > 0", True),
    ("UNIX_DATE(FROM_DAYS(9))", 9), ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'yyyy-MM-dd HH:mm:ss.SSS')", "1970-01-01 00:00:00.000"),
    ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'HH:mm z', 'Europe/Paris')", "01:00 CET"),
    ("FORMAT_DATE(CAST('2021-03-04' AS DATE), 'EEE d MMM yy')", "Thu 4 Mar 21"),
    ("FORMAT_TIME(CAST('13:05' AS TIME), 'hh:mm a')", "01:05 PM"),
    ("UNIX_TIMESTAMP(PARSE_TIMESTAMP('1970-01-01 01:00', 'yyyy-MM-dd HH:mm', 'Europe/Paris'))", 0),
    ("UNIX_DATE(PARSE_DATE('02/Jan/1970', 'dd/MMM/yyyy'))", 1), ("CAST(PARSE_TIME('010203', 'HHmmss') AS STRING)", "01:02:03"),
    ("TIMESTAMPTOSTRING(0, 'yyyy')", "1970"), ("STRINGTOTIMESTAMP('1970-01-01T00:00:01Z', 'yyyy-MM-dd''T''HH:mm:ssX')", 1000),
    ("DATETOSTRING(31, 'yyyy-MM-dd')", "1970-02-01"), ("STRINGTODATE('1970-01-11', 'yyyy-MM-dd')", 10),
    ("CAST(CONVERT_TZ(FROM_UNIXTIME(0), 'UTC', 'Asia/Tokyo') AS STRING)", "1970-01-01T09:00:00.000"),
    ("CAST(CAST('2020-02-28T24:00' AS TIMESTAMP) AS STRING)", "2020-02-29T00:00:00.000"),
    ("CAST(TIMESTAMPADD(MONTHS, 1, CAST('2020-01-31' AS TIMESTAMP)) AS STRING)", "2020-02-29T00:00:00.000"),
    ("CAST(TIMESTAMPSUB(HOUR, 1, CAST('2020-01-01' AS TIMESTAMP)) AS STRING)", "2019-12-31T23:00:00.000"),
    ("CAST(DATEADD(DAYS, 1, CAST('2020-02-28' AS DATE)) AS STRING)", "2020-02-29"),
    ("CAST(DATESUB(YEARS, 1, CAST('2020-02-29' AS DATE)) AS STRING)", "2019-02-28"),
    ("CAST(TIMEADD(MINUTES, 90, CAST('23:00' AS TIME)) AS STRING)", "00:30"),
    ("CAST(TIMESUB(SECONDS, 1, CAST('00:00' AS TIME)) AS STRING)", "23:59:59"),
    ("EXPLODE(ARRAY[1, 2])", [1, 2]), ("CUBE_EXPLODE(ARRAY[1, 2])", [[None, None], [None, 2], [1, None], [1, 2]]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), EXAMPLES, ids=[expression for expression, _ in EXAMPLES])
def test_the_function_computes(expression: str, value: Any) -> None:
    result = value_of(expression)
    assert result == pytest.approx(value) if isinstance(value, float) else result == value


@pytest.mark.parametrize("call", ["UCASE", "ABS", "ARRAY_LENGTH", "URL_EXTRACT_HOST", "JSON_KEYS", "UNIX_DATE", "LPAD"])
def test_null_in_null_out(call: str) -> None:
    arguments = {"LPAD": "NULL, 1, 'x'"}.get(call, "NULL")
    assert value_of(f"{call}({arguments})") is None


@pytest.mark.parametrize(
    "expression",
    [
        "LPAD('a', 999999999, 'x')",
        "REPEAT('x', 999999999)",
        "GENERATE_SERIES(1, 999999999)",
        "PARSE_DATE('x', 'yyyy')",
        "TRANSFORM(MAP('a' := 1, 'b' := 2), (k, v) => 'same', (k, v) => v)",
    ],
)
def test_results_that_are_too_large_or_undefined_are_errors(expression: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        value_of(expression)


def test_every_function_has_an_example() -> None:
    called = {name for expression, _ in EXAMPLES for name in re.findall(r"([A-Z_0-9]+)\(", expression)}
    assert sorted(name for name in FUNCTIONS if name not in called and not name.startswith("_")) == []


def test_every_function_has_an_executed_example_in_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sql" / "functions.md").read_text()
    blocks = re.findall(r"(not run[^`]*)?```python\n(.*?)```", page, re.DOTALL)
    called = {name for skipped, code in blocks if not skipped for name in re.findall(r"\b([A-Z][A-Z0-9_]*)\(", code)}
    assert [name for name in function_kinds() if name not in called] == []


def test_the_size_of_collected_lists_can_be_limited() -> None:
    text = """SET 'ksql.functions.collect_list.limit' = '2'; SET 'ksql.functions.collect_set.limit' = '-1';
        CREATE STREAM s (id INT KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
        CREATE TABLE t AS SELECT id, COLLECT_LIST(v) AS list, COLLECT_SET(v) AS items FROM s GROUP BY id;"""
    last = rows(text, "T", [("s", 1, {"V": value}) for value in (1, 2, 3)])[-1]
    assert last == (1, {"LIST": [1, 2], "ITEMS": [1, 2, 3]})
