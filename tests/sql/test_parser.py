"""Statements parse to trees, and what does not parse is refused with its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sql.running import value_of

from millstream.errors import SqlError
from millstream.sql.nodes import CreateAs, CreateSource, Drop, InsertValues, Setting
from millstream.sql.parser.cursor import MAX_DEPTH
from millstream.sql.parser.statements import parse, parse_expression
from millstream.sql.tokens import MAX_TEXT
from millstream.sql.tree import sql
from millstream.sql.types import INTEGER, STRING, Type, array, struct_of


def test_names_are_in_upper_case_unless_they_are_quoted() -> None:
    [statement] = parse("CREATE STREAM rides (`id` INT KEY, Zone STRING) WITH (kafka_topic='rides');")
    assert isinstance(statement, CreateSource)
    assert (statement.name, [column.name for column in statement.columns]) == ("RIDES", ["id", "ZONE"])


def test_a_query_has_all_its_clauses() -> None:
    [statement] = parse(
        "CREATE TABLE t WITH (partitions=3) AS SELECT a, COUNT(*) AS n FROM s x LEFT JOIN u y WITHIN (1 HOUR, 5 DAYS) "
        "GRACE PERIOD 2 MINUTES ON x.a = y.b WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, RETENTION 1 DAY) "
        "WHERE a > 1 GROUP BY a HAVING COUNT(*) > 2 EMIT FINAL;"
    )
    assert isinstance(statement, CreateAs)
    query, [join] = statement.query, statement.query.joins
    assert (join.kind, join.within, join.grace) == ("LEFT", (3_600_000, 432_000_000), 120_000)
    assert query.window is not None
    assert (query.window.size, query.window.advance, query.window.retention) == (10_000, 5_000, 86_400_000)
    assert (query.emit, len(query.group_by or ()), statement.properties) == ("FINAL", 1, {"PARTITIONS": 3})


def test_other_statements_parse() -> None:
    drop, insert, define = parse(
        "DROP TABLE IF EXISTS t DELETE TOPIC; INSERT INTO s (a, b) VALUES (1, 'x''y'); DEFINE n = 'v';"
    )
    assert isinstance(drop, Drop)
    assert (drop.if_exists, drop.deletes_topic) == (True, True)
    assert isinstance(insert, InsertValues)
    assert insert.columns == ("A", "B")
    assert isinstance(define, Setting)
    assert define.value == "v"


def test_types_parse_and_custom_types_are_known_from_then_on() -> None:
    types: dict[str, Type] = {}
    statements = parse("CREATE TYPE pair AS STRUCT<a INT, b VARCHAR>; CREATE STREAM s (x ARRAY<pair>);", types)
    types["PAIR"] = next(statements).type  # type: ignore[union-attr]
    create = next(statements)
    assert isinstance(create, CreateSource)
    assert create.columns[0].type == array(struct_of({"A": INTEGER, "B": STRING}))


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("SELECT a, FROM s;", (1, 11), "expected an expression"),
        ("SELECT a\nFRON s;", (2, 6), "expected FROM"),
        ("CREATE STREEM s (a INT);", (1, 8), "did you mean STREAM?"),
        ("CREATE STREAM s (a INTT);", (1, 20), "did you mean INT?"),
        ("SELECT * FROM s WHERE a = 'x;", (1, 27), "is not closed"),
        ("SELECT * FROM s WINDOW TUMBLING (SIZE 5 SECOND5);", (1, 41), "unit of time"),
        ("SELECT a /* FROM s;", (1, 10), "the comment is not closed"),
        ("SELECT a FROM s GROUP a;", (1, 17), "expected ';'"),
        ("SELECT # FROM s;", (1, 8), "unexpected character"),
        ("SELECT a FROM s EMIT CHANGE;", (1, 22), "did you mean CHANGES?"),
        ("SELECT CASE WHEN a THEN 1 FROM s;", (1, 27), "expected END"),
        ("CREATE STREAM s (a DECIMAL(50, 2));", (1, 20), "precision from 1 to 38"),
    ],
)
def test_a_syntax_error_names_line_column_and_what_was_expected(
    text: str, position: tuple[int, int], words: str
) -> None:
    with pytest.raises(SqlError) as error:
        list(parse(text))
    assert (error.value.facts["line"], error.value.facts["column"]) == position
    assert words in str(error.value)
    assert str(error.value).splitlines()[-1].strip() == "^"


def test_the_caret_is_below_the_place() -> None:
    with pytest.raises(SqlError) as error:
        list(parse("SELECT a,\n       b FROMM s;"))
    line, caret = str(error.value).splitlines()[-2:]
    assert line[caret.index("^") :].startswith("s;")


@pytest.mark.parametrize(
    "chain", ["a" + "->b" * 10_000, "a" + "[1]" * 10_000, "1" + " = 1" * 10_000, "a" + " IS NULL" * 10_000]
)
def test_chains_of_operators_are_refused_with_the_limit(chain: str) -> None:
    with pytest.raises(SqlError, match="this is a chain of more than 50 operators"):
        parse_expression(chain)


def test_too_long_and_too_deep_texts_are_refused_with_the_limit() -> None:
    with pytest.raises(SqlError, match=f"{MAX_TEXT:,}"):
        list(parse("-" * (MAX_TEXT + 1)))
    with pytest.raises(SqlError, match="a number of 5,000 characters"):
        parse_expression("1" * 5000)
    with pytest.raises(SqlError, match=str(MAX_DEPTH)):
        parse_expression("(" * 10_000 + "1" + ")" * 10_000)
    with pytest.raises(SqlError, match=str(MAX_DEPTH)):
        parse_expression("NOT " * 10_000 + "TRUE")
    with pytest.raises(SqlError, match=f"more than {MAX_DEPTH} operators"):
        parse_expression(" + ".join(["1"] * 10_000))


def test_long_chains_of_conditions_are_computed() -> None:
    assert value_of(" OR ".join(f"{number} = 9999" for number in range(1000)) + " OR 1 = 1") is True
    text = sql(parse_expression(" AND ".join(["a"] * 1000)))
    assert sql(parse_expression(text)) == text


EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "`b c`", "1", "-2.50", "1e3", "'it''s'", "NULL", "TRUE", "s.x"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "*", "=", "AND", "OR", "<>", "||"]), inner).map(
            lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
        ),
        inner.map(lambda text: f"NOT ({text})"),
        inner.map(lambda text: f"({text}) IS NOT NULL"),
        st.tuples(inner, inner).map(lambda pair: f"f({pair[0]}, x => {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"CASE WHEN {pair[0]} THEN {pair[1]} END"),
        st.tuples(inner, inner).map(lambda pair: f"ARRAY[{pair[0]}, {pair[1]}][1]"),
        inner.map(lambda text: f"STRUCT(f := {text})->f"),
        inner.map(lambda text: f"({text}) IN (1, 2)"),
        inner.map(lambda text: f"CAST({text} AS MAP<STRING, INT>)"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_written_expressions_parse_to_the_same_text(text: str) -> None:
    written = sql(parse_expression(text))
    assert sql(parse_expression(written)) == written
