"""Rows that are decoded to Structs give the same results and errors as rows that are dicts."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import App
from millstream.foundation.struct_rows import StructRow, are_structs, as_dicts
from millstream.plan.select import CompiledSelection
from millstream.plan.sources import Source
from millstream.plan.topology import Plan
from millstream.sql.rows.formats import JsonRows
from millstream.sql.rows.plain import object_reader
from millstream.sql.selection import SqlSelection
from millstream.sql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, array, map_of
from millstream.task.decoding import column_decoder, reading_serde

COLUMNS = {
    "A": INTEGER, "B": BIGINT, "X": DOUBLE, "T": STRING, "OK": BOOLEAN, "L": array(INTEGER),
    "M": map_of(STRING, DOUBLE), "ODD NAME": STRING,
}  # fmt: skip
SCOPE = (
    *((name, str(kind), "value") for name, kind in COLUMNS.items()),
    ("K", "STRING", "key"), ("ROWTIME", "BIGINT", "time"),
)  # fmt: skip
texts = st.sampled_from(["", "a", "B c", "12", "-3.5", "true", "2020-01-31", "é😀", '{"a": [1]}'])
small = st.integers(-5, 5)
rows = st.fixed_dictionaries(
    {
        "A": st.none() | small | st.sampled_from([2**31 - 1, -(2**31)]),
        "B": st.none() | small | st.sampled_from([2**63 - 1, -(2**63)]),
        "X": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "T": st.none() | texts,
        "OK": st.none() | st.booleans(),
        "L": st.none() | st.lists(st.none() | small, max_size=3),
        "M": st.none() | st.dictionaries(texts, st.none() | st.floats(-9, 9), max_size=2),
        "ODD NAME": st.none() | texts,
    }
)
VALUES = (
    "A + B", "A / B", "B % A", "A * X", "-A", "X / A", "T", "UCASE(T)", "CAST(T AS INTEGER)", "CAST(T AS DOUBLE)",
    "CAST(T AS DECIMAL(6, 2)) * 2", "CAST(X AS DECIMAL(20, 3)) + A", "CAST(A AS STRING) + T", "LEN(T) + A", "L[A]",
    "M['a']", "TRANSFORM(L, x => x + 1)", "ARRAY[A, 1, NULL]", "MAP('a' := X, T := 1.5)", "STRUCT(P := A, Q := T)",
    "CASE WHEN A > 0 THEN T WHEN OK THEN 'ok' END", "COALESCE(T, K, 'none')", "SUBSTRING(T, A)", "CAST(T AS DATE)",
    "EXTRACTJSONFIELD(T, '$.a[0]')", "ROWTIME + A", "K", "`ODD NAME`", "ABS(B)", "SPLIT(T, ' ')", "IFNULL(A, 7)",
)  # fmt: skip
CONDITIONS = (
    "A > 1", "A > 1.5", "X >= B", "T = 'a'", "T LIKE '%c'", "A IN (1, 2, 3)", "T BETWEEN 'a' AND 'b'", "NOT OK",
    "A IS NULL OR X IS NOT NULL", "OK AND A < B", "CAST(T AS INTEGER) > 3", "K = T", "A IS DISTINCT FROM B",
    "10 / A > 2",
)  # fmt: skip


def computed(compiled: CompiledSelection, part: str, values: list[Any]) -> tuple[str, list[Any]]:
    """Return what a part computes as text, in which NaN equals itself, and its errors."""
    errors: list[Any] = []
    keys, times = ["a"] * len(values), list(range(len(values)))
    results = getattr(compiled, part)(
        keys, values, times, lambda name, error, row: errors.append((name, type(error), str(error), row))
    )
    return repr(list(results)), errors


@given(
    st.lists(rows, min_size=1, max_size=6),
    st.sampled_from(CONDITIONS),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=4),
    st.sampled_from(["upper", "lower"]),
)
def test_every_clause_gives_the_same_for_both(
    items: list[dict[str, Any]], where: str, values: list[str], case: str
) -> None:
    names = str.lower if case == "lower" else str
    data: list[bytes | None] = [
        msgspec.json.encode({names(name): value for name, value in row.items()}) for row in items
    ]
    serde = JsonRows(COLUMNS).as_structs()
    assert serde is not None
    structs = column_decoder(serde)(data)
    assert are_structs(structs)
    rows = [JsonRows(COLUMNS).decode(line) for line in data if line is not None]
    assert as_dicts(structs) == rows
    selection = SqlSelection(
        scope=SCOPE,
        where=where,
        key=tuple(values[:1]),
        columns=tuple((f"C{number}", text) for number, text in enumerate(values)),
    )
    for part in ("where", "key", "value"):
        by_structs = computed(selection.compile(structs=True), part, structs)
        assert by_structs == computed(selection.compile(), part, rows)


@given(st.lists(st.dictionaries(st.sampled_from(["PRICE", "price", "Price", "x"]), small), min_size=1, max_size=8))
def test_a_name_in_several_cases_means_the_same_field_whatever_was_read_before(items: list[dict[str, int]]) -> None:
    lenient, columns = object_reader({"PRICE": INTEGER}), {"PRICE": INTEGER}
    rows, lines, structs = JsonRows(columns), JsonRows(columns), JsonRows(columns).as_structs()
    assert structs is not None
    for item in items:
        data = msgspec.json.encode(item)
        expected = {"PRICE": next((item[name] for name in ("PRICE", "price", "Price") if name in item), None)}
        assert rows.decode(data) == lenient(item) == expected
        assert lines.decode_lines(data) in ([], [expected])
        assert as_dicts(column_decoder(structs)([data])) == [expected]


def source_of(text: str) -> tuple[Plan, Source]:
    app = App("structs")
    app.sql("CREATE STREAM s (k STRING KEY, a INT, t STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');" + text)
    plan = app.plan
    [source] = [node for node in plan.nodes if isinstance(node, Source)]
    return plan, source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE STREAM o AS SELECT k, a + 1 AS b FROM s WHERE a > 1;", True),
        ("CREATE TABLE o AS SELECT t, COUNT(*) AS n FROM s WHERE a > 1 GROUP BY t;", True),
        ("CREATE STREAM o AS SELECT k, a FROM s PARTITION BY k;", True),
        ("CREATE STREAM o AS SELECT k, a, ROWPARTITION AS p FROM s;", False),
    ],
)
def test_only_rows_that_selections_alone_see_are_structs(text: str, expected: bool) -> None:
    plan, source = source_of(text)
    serde = reading_serde(source, plan.readers)
    decoded = column_decoder(serde)([b'{"A":1,"T":"x"}', b'{"A":2,"T":null}'])
    assert are_structs(decoded) is expected
    assert as_dicts(decoded) == [{"A": 1, "T": "x"}, {"A": 2, "T": None}]


@pytest.mark.parametrize("bad", [b'{"A":1}', b'{"A":"1","T":"x"}', b'{"a":1,"T":"x"}', b'{"A":1,"T":5}'])
def test_rows_that_need_a_conversion_are_decoded_as_before(bad: bytes) -> None:
    _, source = source_of("CREATE STREAM o AS SELECT k, a FROM s;")
    serde = source.value.as_structs()  # type: ignore[attr-defined]
    decoded = column_decoder(serde)([b'{"A":1,"T":"x"}', bad])
    assert not any(isinstance(row, StructRow) for row in decoded)
    assert decoded[1] == source.value.decode(bad)
