"""The runner of ksqlDB's cases, with cases of our own."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from millstream.testing.ksql.__main__ import main
from millstream.testing.ksql.cases import Case, read_cases
from millstream.testing.ksql.running import run_case

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
    assert run_case(case()).verdict == "passed"


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
    outcome = run_case(case(**changes))
    assert outcome.verdict == "failed"
    assert reason in outcome.reason


def test_refusals_are_counted_apart() -> None:
    broken = [STATEMENTS[0], "CREATE STREAM dst AS SELECT id, w FROM src;"]
    assert run_case(case(statements=broken)).verdict == "refused"
    assert run_case(case(statements=broken, expects="error")).verdict == "passed"


def test_each_query_is_an_app_that_reads_what_the_one_before_has_written() -> None:
    chained = [*STATEMENTS, "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM dst GROUP BY id;"]
    output = {"topic": "T", "key": 1, "value": {"N": 1}}
    assert run_case(case(statements=chained, outputs=[OUTPUT, output])).verdict == "passed"


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
