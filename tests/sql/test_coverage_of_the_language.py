"""Every kind of statement, clause and expression is in SQL that a test runs, and in the reference."""

import ast
import re
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream.errors import SqlError
from millstream.sql import nodes
from millstream.sql.parser.commands import CONTROLS, SHOWN
from millstream.sql.parser.statements import parse, parse_expression

ROOT = Path(__file__).parents[2]
TESTED = [
    *(
        path
        for path in (ROOT / "tests" / "sql").glob("test_*.py")
        if path.name not in ("test_parser.py", Path(__file__).name)
    ),
    *(ROOT / "tests" / "queries").glob("test_*.py"),
    *(ROOT / "tests" / "cli").glob("test_sql*.py"),
]
REFERENCE = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "sql").glob("*.md")))
CLAUSES = {
    nodes.Query: [*nodes.Query.__struct_fields__],
    nodes.Join: ["within", "grace", "as_of"],
    nodes.Window: ["advance", "retention", "grace"],
    nodes.Print: ["from_beginning", "interval", "limit"],
    nodes.CreateSource: ["replaces", "if_missing", "is_source"],
    nodes.CreateAs: ["replaces", "if_missing"],
    nodes.Drop: ["if_exists", "deletes_topic"],
    nodes.InsertSelect: ["id"],
    nodes.InsertValues: ["columns"],
    nodes.CreateType: ["if_missing"],
    nodes.DropType: ["if_exists"],
    nodes.CreateFunction: ["parameters", "result", "replaces", "if_missing"],
    nodes.DropFunction: ["if_exists"],
    nodes.Describe: ["is_extended", "is_function"],
    nodes.Like: ["escape", "negated"],
    nodes.In: ["negated"],
    nodes.Between: ["negated"],
    nodes.IsNull: ["negated"],
    nodes.Case: ["operand", "otherwise"],
}
"""The parts of statements, queries and expressions that can be left out."""
WORDS = {
    "role": {"KEY", "PRIMARY KEY", "HEADERS", "HEADER"},
    "kind of join": {"INNER", "LEFT", "RIGHT", "OUTER"},
    "kind of window": {"TUMBLING", "HOPPING", "SESSION"},
    "emit": {"CHANGES", "FINAL"},
    "setting": {"SET", "UNSET", "DEFINE", "UNDEFINE"},
    "control": set(CONTROLS),
    "show": set(SHOWN),
    "operator": {
        "+", "-", "*", "/", "%", "||", "=", "<>", "<", ">", "<=", ">=", "AND", "OR", "NOT", "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
    },
}  # fmt: skip


def texts_of(path: Path) -> Iterator[str]:
    """Yield the text literals of a file; what an f-string inserts is a number."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in node.values)


def parsed(text: str) -> list[Any]:
    """Return the statements of a text up to one that cannot be parsed, or the expression that it is."""
    statements: list[Any] = []
    try:
        for statement in parse(text):
            statements.append(statement)  # noqa: PERF402  # what precedes an error counts
    except (SqlError, RecursionError):
        pass
    try:
        return statements or [parse_expression(text)]
    except (SqlError, RecursionError):
        return []


def parts_of(node: Any) -> Iterator[Any]:
    """Yield a node and all nodes in it."""
    if isinstance(node, msgspec.Struct):
        yield node
        for name in node.__struct_fields__:
            yield from parts_of(getattr(node, name))
    elif isinstance(node, tuple):
        for item in node:
            yield from parts_of(item)


def words_of(node: Any) -> Iterator[tuple[str, str]]:
    """Yield what is a word in the language and a text in its node."""
    names: dict[Any, tuple[str, str]] = {
        nodes.ColumnDefinition: ("role", "role"), nodes.Join: ("kind of join", "kind"), nodes.Query: ("emit", "emit"),
        nodes.Window: ("kind of window", "kind"), nodes.Setting: ("setting", "verb"), nodes.Show: ("show", "what"),
        nodes.Control: ("control", "verb"), nodes.Binary: ("operator", "operator"),
        nodes.Unary: ("operator", "operator"),
    }  # fmt: skip
    if type(node) in names:
        family, field = names[type(node)]
        yield family, getattr(node, field)


@cache
def used() -> tuple[set[type], set[tuple[type, str]], set[tuple[str, str]]]:
    """Return the kinds of nodes, the given clauses and the words in all texts of the tests."""
    kinds: set[type] = set()
    clauses: set[tuple[type, str]] = set()
    words: set[tuple[str, str]] = set()
    for text in {text for path in TESTED for text in texts_of(path)}:
        for node in (part for statement in parsed(text) for part in parts_of(statement)):
            kinds.add(type(node))
            words.update(words_of(node))
            given = {
                field.name
                for field in msgspec.structs.fields(node)
                if getattr(node, field.name) not in (None, (), False, field.default)
            }
            clauses.update((type(node), name) for name in given)
    return kinds, clauses, words


@pytest.mark.parametrize("kind", [*typing.get_args(nodes.AnyStatement), *typing.get_args(nodes.AnyExpression)])
def test_a_test_runs_every_kind_of_statement_and_expression(kind: type) -> None:
    assert kind in used()[0]


@pytest.mark.parametrize(("kind", "clause"), [(kind, clause) for kind, names in CLAUSES.items() for clause in names])
def test_a_test_runs_every_clause(kind: type, clause: str) -> None:
    assert clause == "offset" or (kind, clause) in used()[1]


@pytest.mark.parametrize("family", WORDS)
def test_a_test_runs_every_word(family: str) -> None:
    assert sorted(WORDS[family] - {word for name, word in used()[2] if name == family}) == []


@pytest.mark.parametrize(
    "beginning",
    [
        "CREATE STREAM", "CREATE TABLE", "INSERT INTO", "CREATE TYPE", "DROP TYPE", "CREATE FUNCTION", "DROP FUNCTION",
        "ALTER STREAM", "DROP STREAM", "SET", "UNSET", "DEFINE", "UNDEFINE", "SHOW", "LIST", "DESCRIBE", "PRINT",
        "EXPLAIN", *CONTROLS,
    ],
)  # fmt: skip
def test_the_reference_has_every_statement(beginning: str) -> None:
    assert re.search(rf"`{beginning}\b", REFERENCE)


@pytest.mark.parametrize(
    "clause",
    [
        "WHERE", "GROUP BY", "PARTITION BY", "HAVING", "EMIT CHANGES", "FINAL", "ORDER BY", "LIMIT", "OFFSET",
        "UNION ALL", "WITHIN", "GRACE PERIOD", "RETENTION", "AS OF", "TUMBLING", "HOPPING", "SESSION", "OR REPLACE",
        "IF NOT EXISTS", "IF EXISTS", "HEADERS", "HEADER(", "DELETE TOPIC", "SOURCE TABLE", "FROM BEGINNING",
        "QUERY_ID", "LIKE", "ESCAPE", "BETWEEN", "IN (", "CASE", "IS DISTINCT FROM", "CAST(", "STRUCT(", "ARRAY[",
        "MAP(", "=>", "->",
    ],
)  # fmt: skip
def test_the_reference_has_every_clause(clause: str) -> None:
    assert clause in REFERENCE
