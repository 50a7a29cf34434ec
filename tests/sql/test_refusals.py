"""What is valid syntax but has no meaning is refused, with the place and what to do."""

import pytest

from millstream import App
from millstream.errors import DefinitionError, SqlError

S = "CREATE STREAM s (id INT KEY, a STRING, b DOUBLE) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');\n"
T = "CREATE TABLE t (id INT PRIMARY KEY, x STRING, m MAP<STRING, INT>) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE STREAM s (id INT KEY, a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON');", "exists already"),
        ("CREATE STREAM x (a INT) WITH (VALUE_FORMAT='JSON');", "KAFKA_TOPIC is missing"),
        ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='x');", "VALUE_FORMAT is missing"),
        ("CREATE STREAM x (a INT) WITH (KAFKA_TOPC='x');", "did you mean KAFKA_TOPIC?"),
        ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSN');", "did you mean JSON?"),
        ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='AVRO');", "schema registry"),
        ("CREATE TABLE x (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON');", "needs a primary key"),
        ("CREATE STREAM x (a INT PRIMARY KEY) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON');", "use KEY"),
        ("CREATE STREAM x (a INT, a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON');", "declared twice"),
        ("CREATE STREAM x (rowtime INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON');", "reserved"),
        ("CREATE STREAM x (a INT, b INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='KAFKA');", "has one column"),
        ("CREATE STREAM x (a ARRAY<INT>) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='DELIMITED');", "cannot contain"),
        ("CREATE STREAM x (k MAP<STRING, INT> KEY) WITH (KAFKA_TOPIC='x', FORMAT='JSON');", "MAP"),
        ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON', TIMESTAMP='z');", "does not exist"),
        ("CREATE STREAM x AS SELECT * FROM nowhere;", "nowhere".upper()),
        ("CREATE STREAM x AS SELECT id, '\ud800' AS h FROM s;", "half of a character"),
        ("CREATE TABLE x AS SELECT a, COUNT(*) AS n FROM s WHERE COUNT(*) > 1 GROUP BY a;", "use HAVING"),
        ("CREATE TABLE x AS SELECT a, COUNT(*) AS n FROM s WINDOW SESSION (0 SECONDS) GROUP BY a;", "0 ms"),
        (
            "CREATE TABLE x AS SELECT a, MAX(b) FROM s WINDOW HOPPING (SIZE 9 DAYS, ADVANCE BY 1 SECOND) GROUP BY a;",
            "777,600 windows",
        ),
        ("CREATE STREAM x AS SELECT id, c FROM s;", "column C of SELECT is unknown"),
        ("CREATE STREAM x AS SELECT a FROM s;", "ID is missing in SELECT"),
        ("CREATE STREAM x AS SELECT id, id AS id2, a FROM s;", "more than once"),
        ("CREATE STREAM x AS SELECT id FROM s;", "no column besides its key"),
        ("CREATE STREAM x AS SELECT id, a AS z, b AS z FROM s;", "are called Z"),
        ("CREATE STREAM x AS SELECT id, NULL AS n FROM s;", "NULL has no type"),
        ("CREATE STREAM x AS SELECT id, ROWTIME FROM s;", "reserved name"),
        ("CREATE STREAM x AS SELECT * FROM t;", "use CREATE TABLE"),
        ("CREATE TABLE x AS SELECT * FROM s;", "use CREATE STREAM"),
        ("CREATE TABLE x AS SELECT id, COUNT(*) AS n FROM s;", "GROUP BY"),
        ("CREATE TABLE x AS SELECT a, b, COUNT(*) AS n FROM s GROUP BY a;", "neither aggregated nor part of GROUP BY"),
        ("CREATE TABLE x AS SELECT COUNT(*) AS n FROM s GROUP BY a;", "grouping expression"),
        ("CREATE TABLE x AS SELECT a, b FROM s GROUP BY a, b;", "needs an aggregate"),
        ("CREATE TABLE x AS SELECT a, SUM(COUNT(*)) AS n FROM s GROUP BY a;", "cannot be inside"),
        ("CREATE TABLE x AS SELECT a, SUMM(b) AS n FROM s GROUP BY a;", "did you mean SUM?"),
        ("CREATE STREAM x AS SELECT id, RANKED(b) AS n FROM s;", "did you mean RAND?"),
        ("CREATE TABLE x AS SELECT x, MAX(id) AS n FROM t GROUP BY x;", "cannot be applied to a table"),
        ("CREATE STREAM x AS SELECT * FROM s WHERE COUNT(*) > 1;", "needs GROUP BY"),
        ("CREATE STREAM x AS SELECT * FROM s WHERE a;", "must be BOOLEAN"),
        ("CREATE STREAM x AS SELECT * FROM s WINDOW TUMBLING (SIZE 1 DAY);", "WINDOW needs GROUP BY"),
        ("CREATE TABLE x AS SELECT a, COUNT(*) AS n FROM s GROUP BY a EMIT FINAL;", "EMIT FINAL needs a window"),
        ("CREATE STREAM x AS SELECT * FROM s JOIN s z ON s.id = z.id;", "needs a window"),
        ("CREATE STREAM x AS SELECT * FROM s JOIN t ON s.a = t.x;", "primary key"),
        ("CREATE STREAM x AS SELECT * FROM s JOIN t ON s.a = t.id;", "different types"),
        ("CREATE STREAM x AS SELECT * FROM s JOIN t ON s.id > t.id;", "one equality"),
        ("CREATE TABLE x AS SELECT * FROM t JOIN s ON t.id = s.id;", "cannot be joined with a stream"),
        ("CREATE STREAM x AS SELECT id, a FROM s JOIN t ON s.id = t.id;", "is ambiguous"),
        ("CREATE STREAM x AS SELECT * FROM s PARTITION BY a, NULL;", "cannot contain NULL"),
        ("CREATE TABLE x AS SELECT id, EXPLODE(ARRAY[1]) AS e FROM t;", "table function"),
        ("CREATE STREAM x AS SELECT * FROM s LIMIT 5;", "LIMIT"),
        ("SELECT * FROM s LIMIT 5;", "LIMIT"),
        ("INSERT INTO s SELECT * FROM s LIMIT 5;", "LIMIT"),
        ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON', PARTITIONS='²');", "a whole number"),
        ("SELECT a, COUNT(*) FROM s WINDOW TUMBLING (SIZE 9999999999 DAYS) GROUP BY a;", "10,000 YEARS or less"),
        ("INSERT INTO t SELECT * FROM s;", "needs a stream"),
        ("INSERT INTO s SELECT id, a FROM s;", "the columns"),
        ("INSERT INTO s VALUES (1, 'a', 2.0);", "INSERT INTO"),
        ("DROP TABLE s;", "is a stream"),
        ("SHOW STREAMS;", "millstream sql plan FILE"),
    ],
)
def test_the_statement_is_refused(text: str, words: str) -> None:
    app = App("sql")
    app.sql(S + T)
    with pytest.raises(DefinitionError) as error:
        app.sql(text)
    assert words in str(error.value)
    if "VALUES" not in text:
        assert isinstance(error.value, SqlError)
        assert error.value.facts["line"] == 1


def test_the_place_is_counted_from_the_beginning_of_the_text() -> None:
    with pytest.raises(SqlError) as error:
        App("sql").sql(S + "CREATE STREAM o AS\n  SELECT id, nme FROM s;")
    assert (error.value.facts["line"], error.value.facts["column"]) == (3, 14)
