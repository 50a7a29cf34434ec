"""The runner of ksqlDB's cases, with cases of our own."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from millstream.sql.functions.registry import FUNCTIONS
from millstream.testing.ksql.__main__ import main
from millstream.testing.ksql.cases import Case, read_cases
from millstream.testing.ksql.rest import run_rest
from millstream.testing.ksql.running import run_queries
from millstream.testing.ksql.script import run_script

STATEMENTS = [
    "CREATE STREAM src (id INT KEY, v DOUBLE) WITH (kafka_topic='in', value_format='JSON');",
    "CREATE STREAM dst AS SELECT id, v / 2 AS half FROM src;",
]
INPUT = {"topic": "in", "key": 1, "value": {"v": 3.0}, "timestamp": 5}
OUTPUT = {"topic": "DST", "key": 1, "value": {"HALF": 1.5}, "timestamp": 5}


def case(**changes: Any) -> Case:
    values: dict[str, Any] = {
        "id": "qtt/own/0", "suite": "qtt", "group": "own", "expects": "outputs", "statements": STATEMENTS,
        "inputs": [INPUT], "outputs": [OUTPUT],
    }  # fmt: skip
    return Case(**(values | changes))


def test_a_case_passes_if_its_records_are_those_expected() -> None:
    assert run_queries(case()).verdict == "passed"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"outputs": [OUTPUT | {"value": {"HALF": 1.6}}]}, "value is"),
        ({"outputs": [OUTPUT | {"key": 2}]}, "key is"),
        ({"outputs": [OUTPUT | {"timestamp": 6}]}, "timestamp is 5"),
        ({"outputs": [OUTPUT, OUTPUT]}, "has 1 records, not 2"),
        ({"outputs": [OUTPUT | {"topic": "OTHER"}]}, "was not written"),
        ({"post": {"sources": [{"name": "DST", "type": "stream", "schema": "ID INT KEY, HALF INT"}]}}, "DST has"),
        ({"expects": "error", "outputs": []}, "it was not refused"),
    ],
)
def test_a_case_fails_with_the_first_difference(changes: dict[str, Any], reason: str) -> None:
    outcome = run_queries(case(**changes))
    assert outcome.verdict == "failed"
    assert reason in outcome.reason


def test_refusals_are_counted_apart() -> None:
    broken = [STATEMENTS[0], "CREATE STREAM dst AS SELECT id, w FROM src;"]
    assert run_queries(case(statements=broken)).verdict == "refused"
    assert run_queries(case(statements=broken, expects="error")).verdict == "passed"


def test_each_query_is_an_app_that_reads_what_the_one_before_has_written() -> None:
    chained = [*STATEMENTS, "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM dst GROUP BY id;"]
    output = {"topic": "T", "key": 1, "value": {"N": 1}}
    assert run_queries(case(statements=chained, outputs=[OUTPUT, output])).verdict == "passed"


def test_the_command_prints_counts_by_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.jsonl.gz"
    line = {"id": "qtt/own/0", "suite": "qtt", "group": "own", "expects": "outputs", "statements": STATEMENTS}
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(line | {"inputs": [INPUT], "outputs": [OUTPUT]}) + "\n")
        file.write(json.dumps(line | {"formats": ["AVRO"]}) + "\n")
    assert [each.needs_registry for each in read_cases(path)] == [False, True]
    monkeypatch.setattr(sys, "argv", ["ksql", str(path)])
    main()
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == ["all", "1", "of", "1"]


REST = (
    "CREATE STREAM calls (id INT KEY, n INT) WITH (KAFKA_TOPIC='calls', VALUE_FORMAT='JSON');",
    "CREATE TABLE totals AS SELECT id, SUM(n) AS total FROM calls GROUP BY id;",
)
WITH = "WITH (KAFKA_TOPIC='TOTALS', VALUE_FORMAT='JSON');"
CALLS = [{"topic": "calls", "key": 7, "value": {"N": 2}}, {"topic": "calls", "key": 7, "value": {"N": 3}}]


def rest_case(query: str, rows: list[list[object]], schema: str, **changes: object) -> Case:
    answered = {"query": [{"header": {"schema": schema}}, *({"row": {"columns": row}} for row in rows)]}
    fields: dict[str, object] = {
        "id": "rest/mine/1", "suite": "rest", "group": "mine", "expects": "responses", "statements": [*REST, query],
        "inputs": CALLS, "responses": [{"admin": {}}, {"admin": {}}, answered],
    }  # fmt: skip
    return Case(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_rest_case_compares_the_rows_and_the_columns_of_a_pull_query() -> None:
    query, schema = "SELECT * FROM totals WHERE id = 7;", "`ID` INTEGER KEY, `TOTAL` INTEGER"
    assert run_rest(rest_case(query, [[7, 5]], schema)).verdict == "passed"
    assert "no row [7, 6]" in run_rest(rest_case(query, [[7, 6]], schema)).reason
    assert "2 rows" in run_rest(rest_case("SELECT id FROM calls;", [], "`ID` INTEGER KEY")).reason
    assert "schema is" in run_rest(rest_case(query, [[7, 5]], "`ID` INTEGER KEY")).reason


def test_a_rest_case_compares_the_rows_of_a_push_query_from_the_beginning_or_from_now_on() -> None:
    query, schema = "SELECT n FROM calls EMIT CHANGES LIMIT 2;", "`N` INTEGER"
    assert run_rest(rest_case(query, [[2], [3]], schema)).verdict == "passed"
    now = {"properties": {"auto.offset.reset": "latest"}, "input_conditions": {"waitForActivePushQuery": True}}
    assert run_rest(rest_case(query, [[2], [3]], schema, **now)).verdict == "passed"
    assert run_rest(rest_case("SELECT m FROM calls EMIT CHANGES;", [], "", expects="error")).verdict == "passed"
    assert run_rest(rest_case(query, [], "", expects="error")).reason == "it was not refused"


def script_case(*statements: str, expects: str = "asserts") -> Case:
    return Case(id="script/mine/1", suite="script", group="mine", expects=expects, statements=[*REST, *statements])


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("ASSERT VALUES totals (id, total, rowtime) VALUES (7, 2, 5);", "passed"),
        ("ASSERT VALUES totals (id, total) VALUES (7, 3);", "failed"),
        ("ASSERT VALUES calls (id, n) VALUES (7, 2);", "passed"),
        ("ASSERT NULL VALUES totals (id) KEY (7);", "failed"),
        (
            "ASSERT TABLE totals (id INT PRIMARY KEY, total INT) WITH (KAFKA_TOPIC='TOTALS', VALUE_FORMAT='JSON');",
            "passed",
        ),
        ("ASSERT TABLE totals (id INT PRIMARY KEY, n INT) WITH (KAFKA_TOPIC='TOTALS', VALUE_FORMAT='JSON');", "failed"),
        ("ASSERT STREAM totals (id INT KEY, total INT) WITH (KAFKA_TOPIC='TOTALS', VALUE_FORMAT='JSON');", "failed"),
    ],
)
def test_a_script_case_compares_records_and_sources(statement: str, verdict: str) -> None:
    insert = "INSERT INTO calls (id, n, rowtime) VALUES (7, 2, 5);"
    assert run_script(script_case(insert, statement)).verdict == verdict
    refusal = run_script(script_case(insert, statement, expects="error"))
    assert refusal.verdict == ("passed" if verdict == "failed" else "failed")


def test_the_exit_status_says_whether_all_cases_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cases.jsonl"
    good = {"id": "rest/a/1", "suite": "rest", "group": "a", "expects": "responses", "statements": list(REST)}
    bad = {**good, "statements": ["SELECT * FROM nowhere;"]}

    def status(*cases: object, suite: str = "rest") -> int:
        path.write_text("".join(f"{json.dumps(each)}\n" for each in cases))
        monkeypatch.setattr("sys.argv", ["ksql", str(path), "--suite", suite])
        return main()

    assert (status(good), status(good, bad), status(good, suite="qtt")) == (0, 1, 2)


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("TEST_UDF(id, NULL)", "doStuffIntString"),
        ("TEST_UDF(CAST(id AS BIGINT), CAST(id AS BIGINT), 'x')", "doStuffLongLongString"),
        ("TEST_UDF(CAST(id AS BIGINT), 1, 2, 3)", "doStuffLongVarargs"),
        ("BAD_UDF(id)", None),
        ("CASE WHEN WHENCONDITION(TRUE, TRUE) THEN WHENRESULT(7, TRUE) ELSE WHENRESULT(8, FALSE) END", 7),
    ],
)
def test_cases_can_call_the_functions_of_users_that_they_name(call: str, result: Any) -> None:
    statements = [STATEMENTS[0], f"CREATE STREAM dst AS SELECT id, {call} AS x FROM src;"]
    outcome = run_queries(case(statements=statements, outputs=[OUTPUT | {"value": {"X": result}}]))
    assert outcome == ("passed", "")
    assert "TEST_UDF" not in FUNCTIONS


@pytest.mark.parametrize(
    ("call", "results"),
    [
        ("VAR_ARG(n, t)", [6, 7]),
        ("MID_VAR_ARG(n, t, 'abc', 10, 20)", [39, 43]),
        ("MULTI_ARG(n, t, 100)", [106, 107]),
        ("GENERIC_VAR_ARG(t, n, n, n)", [["hello"], ["hello"]]),
        ("OBJ_COL_ARG(CAST(n AS INT), t)", [[1], [1]]),
    ],
)
def test_cases_can_call_aggregates_of_users(call: str, results: list[Any]) -> None:
    statements = [
        "CREATE STREAM src (id INT KEY, n BIGINT, t STRING) WITH (kafka_topic='in', value_format='JSON');",
        f"CREATE TABLE dst AS SELECT id, {call} AS x FROM src GROUP BY id;",
    ]
    rows = [{"n": 1, "t": "hello"}, {"n": 1, "t": None}]
    inputs = [INPUT | {"value": row} for row in rows]
    outputs = [OUTPUT | {"value": {"X": result}} for result in results]
    assert run_queries(case(statements=statements, inputs=inputs, outputs=outputs)) == ("passed", "")


@pytest.mark.parametrize(
    "call", ["VAR_ARG(t, t)", "MULTI_ARG(n, t)", "MID_VAR_ARG(n, t, 3)", "GENERIC_VAR_ARG(n, n, t, n)"]
)
def test_aggregates_of_users_refuse_other_arguments(call: str) -> None:
    statements = [
        "CREATE STREAM src (id INT KEY, n BIGINT, t STRING) WITH (kafka_topic='in', value_format='JSON');",
        f"CREATE TABLE dst AS SELECT id, {call} AS x FROM src GROUP BY id;",
    ]
    outcome = run_queries(case(statements=statements))
    assert outcome.verdict == "refused"
    assert "does not take" in outcome.reason


def test_table_functions_of_users_repeat_rows_and_skip_those_that_fail() -> None:
    query = "CREATE STREAM dst AS SELECT id, TEST_UDTF(v) AS a, THROWING_UDTF(v > 3) AS b FROM src;"
    statements = [STATEMENTS[0], query]
    inputs = [INPUT, INPUT | {"value": {"v": 4.0}}]
    outputs = [OUTPUT | {"value": {"A": 3.0, "B": False}}, OUTPUT | {"value": {"A": 4.0, "B": None}}]
    assert run_queries(case(statements=statements, inputs=inputs, outputs=outputs)) == ("passed", "")
