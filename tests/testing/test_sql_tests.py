import pytest

from millstream import App
from millstream.errors import SqlError, SqlTestError
from millstream.testing.sql_tests import SqlTest, parse_sql_tests

SQL = """
CREATE STREAM rides (id INT KEY, zone STRING, km DOUBLE) WITH (KAFKA_TOPIC='rides', VALUE_FORMAT='JSON');
CREATE STREAM far AS SELECT id, km FROM rides WHERE km > 10;
CREATE TABLE zones AS SELECT zone, COUNT(*) AS n, SUM(km) AS km FROM rides GROUP BY zone HAVING SUM(km) < 100;
CREATE TABLE hours AS SELECT zone, COUNT(*) AS n FROM rides WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY zone;
"""
INSERT = "INSERT INTO rides (id, zone, km, ROWTIME) VALUES (1, 'Mitte', 0.1, 5), (2, 'Mitte', 0.2, 3600000);"


def run(actions: str) -> None:
    app = App("taxi")
    app.sql(SQL)
    for test in parse_sql_tests(f"TEST 'one'; {actions}"):
        test.run(app)


@pytest.mark.parametrize(
    "assertion",
    [
        "ASSERT VALUES zones VALUES ('Mitte', 1, 0.1), ('Mitte', 2, 0.3);",
        "ASSERT VALUES zones (n) VALUES (1); ASSERT VALUES zones (n, ROWTIME) VALUES (2, 3600000);",
        "ASSERT VALUES hours (n, WINDOWSTART, WINDOWEND) VALUES (1, 0, 3600000), (1, 3600000, 7200000);",
        "ASSERT NO VALUES far;",
        "INSERT INTO rides (id, zone, km) VALUES (3, 'Mitte', 200.0); ASSERT VALUES far VALUES (3, 200.0);",
        """ASSERT VALUES zones (n) VALUES (1), (2); INSERT INTO rides (id, zone, km) VALUES (3, 'Mitte', 200.0);
        ASSERT DELETED zones VALUES ('Mitte'); ASSERT NO VALUES zones;""",
        "ADVANCE 2 HOURS; INSERT INTO rides (id, km) VALUES (4, 11.0); ASSERT VALUES far (ROWTIME) VALUES (7200000);",
    ],
)
def test_assertions_that_hold_pass(assertion: str) -> None:
    run(f"{INSERT} {assertion}")


@pytest.mark.parametrize(
    ("assertion", "message"),
    [
        ("ASSERT VALUES zones (n) VALUES (2);", "N of ZONES is 1, not 2"),
        ("ASSERT VALUES far (id) VALUES (1);", "FAR has no further record"),
        ("ASSERT NO VALUES zones;", "ZONES has a further record, .ZONE = 'Mitte', N = 1"),
        ("ASSERT DELETED zones VALUES ('Mitte');", "not a deletion"),
    ],
)
def test_assertions_that_do_not_hold_fail_with_line_and_caret(assertion: str, message: str) -> None:
    with pytest.raises(SqlTestError, match=f"line 1, column [0-9]+: .*{message}") as failure:
        run(f"{INSERT} {assertion}")
    assert failure.value.facts["line"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;", "line 1, column 13"),
        ("ASSERT VALUES nowhere VALUES (1);", "stream or table NOWHERE is unknown"),
        ("ASSERT VALUES zones (x) VALUES (1);", "ZONES has no column X"),
        ("ASSERT VALUES zones (n) VALUES (1, 2);", "2 values are given for 1 columns"),
        ("TEST 'one';", "two tests are called 'one'"),
    ],
)
def test_invalid_tests_are_refused(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        run(f"{INSERT} {text}" if "ASSERT" in text else text)


def test_each_test_begins_without_records() -> None:
    tests: list[SqlTest] = list(parse_sql_tests(f"TEST 'a'; {INSERT} TEST 'b'; ASSERT NO VALUES zones;"))
    app = App("taxi")
    app.sql(SQL)
    for test in tests:
        test.run(app)
